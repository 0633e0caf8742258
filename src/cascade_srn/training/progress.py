"""What training tells about itself on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.evaluation.scores import Scores


@dataclass(frozen=True)
class Progress:
    """Where training stands at the end of an epoch, and wherever else it was asked to tell.

    ``loss`` is the mean loss of a sentence over the epoch so far; ``parts`` has the turns' own losses since the
    last time, and ``total``, their sum. ``dev`` is there where the development documents were scored, and ``best``
    says whether the weights are the ones to keep: they never did better, or never found anything right. ``save``
    marks the moments to save a state at, ``finished`` the last one.
    """

    epoch: int
    epochs: int
    loss: float
    dev: Scores | None = None
    best: bool = False
    step: int = 0
    steps: int = 0
    epoch_done: bool = True
    finished: bool = False
    save: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    words_per_second: float = 0.0

    @property
    def seconds_left(self) -> float:
        """The time that the remaining steps take if they take as long as those before."""
        return self.seconds / self.step * (self.steps - self.step) if self.step and not self.finished else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a line of the log."""
        told: dict[str, Any] = {
            "step": self.step,
            "epoch": self.epoch,
            "loss": self.parts.get("total", self.loss),
            **{f"loss_{name}": value for name, value in self.parts.items() if name != "total"},
            **{f"learning_rate_{name}": value for name, value in self.rates.items()},
            "seconds": round(self.seconds, 3),
            "words_per_second": round(self.words_per_second, 1),
        }
        if self.epoch_done:
            told["epoch_loss"] = self.loss
        if self.dev is not None:
            told |= {"best": self.best, "dev": headline(self.dev)}
        return told


def headline(scores: Scores) -> dict[str, float | str]:
    """The micro F1 of each task, and what relations were counted by."""
    return {
        "symmetric": scores.symmetric,
        "ner": scores.ner.counts.f1,
        "re_boundaries": scores.re_boundaries.counts.f1,
        "re_strict": scores.re_strict.counts.f1,
    }


def reached(scores: Scores) -> float:
    """What the best weights are chosen by: the sum of NER and strict RE F1, as in the paper."""
    return scores.ner.counts.f1 + scores.re_strict.counts.f1
