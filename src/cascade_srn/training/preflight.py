"""Data problems, found before the first step: counted, listed, each with what will happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.model import Model
from cascade_srn.training import checks
from cascade_srn.training.checks import Found, Place, places
from cascade_srn.training.corpus import Corpus, Split

EXAMPLES_KEPT = 3


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one split: how often it occurs, what will happen, and where it first does."""

    split: str
    problem: str
    count: int
    consequence: str
    examples: tuple[str, ...]

    def __str__(self) -> str:
        first = f" (first: {self.examples[0]})" if self.examples else ""
        return f"{self.split}: {self.count} x {self.problem}; {self.consequence}{first}"


@dataclass(frozen=True)
class Preflight:
    """What was found in the data of a recipe; empty where there is nothing to say."""

    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"findings": [asdict(finding) for finding in self.findings]}

    def with_uncertain(self, count: int, confidence: float) -> Preflight:
        """Also with how many labelled sentences are left out because of a decision that is not certain enough."""
        if not count:
            return self
        problem = f"labelled sentence with a decision less certain than {confidence:g}"
        return Preflight((*self.findings, Finding("labels", problem, count, "they are not learned from", ())))

    def __str__(self) -> str:
        if not self.findings:
            return "preflight: nothing to report"
        return "\n".join(["preflight:", *(f"  {finding}" for finding in self.findings)])


def preflight(model: Model, corpus: Corpus) -> Preflight:
    """Look through the data that a model is to be trained and scored on.

    Raises :class:`~cascade_srn.errors.SchemaError` for labels that the schema file lacks; everything else is
    reported.
    """
    splits = {name: list(places(split.documents)) for name, split in corpus.splits.items()}
    for name, found in splits.items():
        for place in found:
            corpus.schema.check(place.sentence, f"data.{name}, {place}")
    findings: list[Finding] = []
    for name, found in splits.items():
        findings += _findings(name, _of_split(model, corpus.splits[name], found))
        if name != "train":
            findings += _findings(name, _against_train(splits["train"], found))
        if name != "train" and corpus.labelled is not None:
            findings += _findings(name, [checks.labelled_as_well(corpus.labelled, found)])
    return Preflight(tuple(findings))


def require_entities(corpus: Corpus) -> None:
    """Refuse a corpus that there is nothing to be learned from."""
    train = corpus.splits["train"]
    # Text that teachers labelled may be all that is learned from.
    if train.report.entities or corpus.labelled is not None:
        return
    unread = "".join(f"; {problem.problem}: {len(problem.where)} x" for problem in checks.unread(train))
    raise DataError(
        f"data.train, {train.path!r}, holds no entity, so that there is nothing to learn{unread}; give annotated "
        "documents, in a format and with the fields that docs/formats.md tells"
    )


def _of_split(model: Model, split: Split, found: list[Place]) -> Iterable[Found]:
    yield from checks.skipped(split)
    yield from checks.unread(split)
    yield checks.without_words(found, learning=split.name == "train")
    yield from checks.vanishing(model, found)
    yield from checks.windowed(model, found)
    yield checks.crossing(found)
    yield from checks.beyond_the_method(model, found)
    if split.name == "train":
        yield from checks.never_learned(model.schema, found)
        yield from checks.misspelt(found)
    if model.settings.encoder.context_words:
        yield checks.without_neighbours(split.documents)


def _against_train(train: list[Place], found: list[Place]) -> Iterable[Found]:
    yield from checks.unseen_labels(train, found)
    yield checks.seen_in_training(train, found)


def _findings(split: str, problems: Iterable[Found]) -> list[Finding]:
    return [
        Finding(split, p.problem, len(p.where), p.consequence, tuple(str(w) for w in p.where[:EXAMPLES_KEPT]))
        for p in problems
        if p.where
    ]
