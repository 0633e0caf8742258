"""Training from Python: a generator that yields progress, so that the caller decides what to show and when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from cascade_srn.errors import ConfigError
from cascade_srn.model import Model
from cascade_srn.training.examples import training_examples
from cascade_srn.training.loop import Loop
from cascade_srn.training.progress import Progress
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.types import Document


def train(
    model: Model,
    documents: Iterable[Document],
    dev: Iterable[Document] = (),
    settings: TrainingSettings | None = None,
) -> Iterator[Progress]:
    """Train a model in place, yielding after every epoch and every evaluation.

    With ``dev`` the weights that did best there, by the sum of NER and strict RE F1 end to end (the paper's
    choice), are the ones the model is left with, also by a caller who stops early; without, the last ones.
    """
    settings = TrainingSettings() if settings is None else settings
    if not isinstance(settings, TrainingSettings):
        raise ConfigError(
            f"settings is a {type(settings).__name__}; give TrainingSettings(…), or TrainingSettings.from_dict(…)"
        )
    examples, dev_examples = training_examples(model, documents, dev)
    return _in_memory(Loop(model, examples, dev_examples, settings))


def _in_memory(loop: Loop) -> Iterator[Progress]:
    """The loop with the best weights kept beside the model, nothing being written."""
    best: dict[str, Tensor] | None = None

    def put_back() -> None:
        if best is not None:
            loop.model.network.load_state_dict(best)
        elif loop.averaged is not None:
            loop.averaged.copy_to_module()

    try:
        for progress in loop:
            if progress.best:
                with loop.evaluated_weights():
                    best = {name: value.detach().clone() for name, value in loop.model.network.state_dict().items()}
            if progress.finished:
                put_back()
            if progress.epoch_done or progress.dev is not None or progress.finished:
                yield progress
    finally:
        put_back()
