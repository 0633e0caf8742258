"""Data problems, found before the first step: counted, listed, each with what will happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any

import numpy as np

from cascade_srn.baselines.limits import beyond
from cascade_srn.data.labelled.labels import LabelledText
from cascade_srn.data.reports import may_be_missed
from cascade_srn.encoder.windows import window_owners, window_starts
from cascade_srn.errors import DataError
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training import preflight as checks
from cascade_srn.training.corpus import Corpus, Split
from cascade_srn.types import Document, Sentence, Span

# A label with fewer examples, and a name as like that of one with so many times as many, may be a slip of the keyboard.
_FEW, _TIMES, _ALIKE = 3, 10, 0.8


@dataclass(frozen=True)
class Place:
    """A sentence and where it stands."""

    document: str
    number: int
    sentence: Sentence

    def __str__(self) -> str:
        words = self.sentence.words
        text = _text(words[:8]) + (" …" if len(words) > 8 else "")
        named = f"document {self.document!r}, " if self.document else ""
        return f"{named}sentence {self.number} ({text!r})"

    def of(self, span: Span) -> str:
        """An entity in this sentence."""
        return f"{span.label} {_text(self.sentence.words[span.start : span.end])!r} in {self}"


def _text(words: Sequence[str]) -> str:
    """Words as messages quote them, each cut where it is very long."""
    return " ".join(word if len(word) <= 60 else f"{word[:60]}…" for word in words)


@dataclass(frozen=True)
class Found:
    """A kind of problem, what will happen, and every place it occurs at, as messages show it."""

    problem: str
    consequence: str
    where: Sequence[object]


def places(documents: Iterable[Document]) -> Iterator[Place]:
    """The sentences of documents."""
    for document in documents:
        for number, sentence in enumerate(document.sentences):
            yield Place(document.id, number, sentence)


def skipped(split: Split) -> Iterator[Found]:
    """What the reader left out as malformed, a relation between things that are no entities for one."""
    for kind, count in split.report.skipped.items():
        examples = [*split.report.examples[kind], *[""] * count][:count]
        yield Found(f"malformed {kind}", "left out, in training and in the scores", examples)


def unread(split: Split) -> Iterator[Found]:
    """What the reader passed over because its format has no such thing, a field with a misspelt name for one."""
    for kind, count in split.report.noted.items():
        if may_be_missed(kind):
            examples = [*split.report.examples[kind], *[""] * count][:count]
            yield Found(kind, "nothing is learned from it, nor scored by it", examples)


def without_words(found: Sequence[Place], *, learning: bool) -> Found:
    """Sentences of nothing."""
    consequence = "they are not learned from" if learning else "there is nothing to find in them"
    return Found("sentence without words", consequence, [place for place in found if not len(place.sentence)])


def crossing(found: Sequence[Place]) -> Found:
    """Entities that share words without one being inside the other."""
    where = []
    for place in found:
        for a, b in combinations(sorted(place.sentence.entities), 2):
            if a.start < b.start < a.end < b.end:
                where.append(f"{place.of(a)} and {b.label} {_text(place.sentence.words[b.start : b.end])!r}")
    return Found("pair of entities that cross", "both are learned and scored as they are", where)


def vanishing(model: Model, found: Sequence[Place]) -> Iterator[Found]:
    """Words, and entities of nothing but such words, that the encoder cannot tell from others."""
    gone, unknown = _unreadable(model, {word for place in found for word in place.sentence.words})
    as_one = "the encoder sees the same stand-in for all of them"
    for problem, words in (("word that the tokenizer drops", gone), ("word that the tokenizer does not know", unknown)):
        where = [f"{_text([word])!r} in {place}" for place in found for word in place.sentence.words if word in words]
        yield Found(problem, as_one, where)
    unreadable = gone | unknown
    where = [
        place.of(span)
        for place in found
        for span in place.sentence.entities
        if unreadable.issuperset(place.sentence.words[span.start : span.end])
    ]
    consequence = "only the words around it can tell the model what it is"
    yield Found("entity of nothing but words that the tokenizer drops or does not know", consequence, where)


def _unreadable(model: Model, words: set[str]) -> tuple[set[str], set[str]]:
    """Which words become no piece at all, and which one piece that stands for anything."""
    special = set(model.tokenizer.all_special_ids)
    ordered = sorted(words)
    row = model.collator.pieces.row(ordered)
    ends = np.cumsum(row.sizes)
    stand_ins = [
        word
        for word, end, size in zip(ordered, ends.tolist(), row.sizes.tolist(), strict=True)
        if special.issuperset(row.pieces[end - size : end].tolist())
    ]
    gone = {word for word in stand_ins if not model.tokenizer(word, add_special_tokens=False)["input_ids"]}
    return gone, set(stand_ins) - gone


def windowed(model: Model, found: Sequence[Place]) -> Iterator[Found]:
    """Sentences past the encoder's limit, and entities that no single window shows whole."""
    pieces = model.collator.pieces
    long, divided = [], []
    for place in found:
        row = pieces.row(place.sentence.words)
        n_pieces = len(row.pieces)
        if n_pieces <= pieces.room:
            continue
        long.append(place)
        owners = window_owners(n_pieces, window_starts(n_pieces, pieces.room, pieces.overlap), pieces.room)
        ends = np.cumsum(row.sizes)
        for span in place.sentence.entities:
            first, last = ends[span.start] - row.sizes[span.start], ends[span.end - 1] - 1
            if owners[first] != owners[last]:
                divided.append(place.of(span))
    size = f"the encoder's window of {pieces.room} pieces"
    yield Found(f"sentence longer than {size}", "read in overlapping windows; nothing is cut", long)
    yield Found(
        "entity read from more than one window", "its ends are seen from different windows, which may cost it", divided
    )


def beyond_the_method(model: Model, found: Sequence[Place]) -> Iterator[Found]:
    """Annotation that the form of the method cannot hold."""
    where: dict[str, list[str]] = {}
    for place in found:
        for problem, what in beyond(model.settings, model.schema, place.sentence):
            shown = place.of(what) if isinstance(what, Span) else f"{what.label} in {place}"
            where.setdefault(problem, []).append(shown)
    for problem, occurrences in where.items():
        yield Found(problem, "the method cannot find it; it counts in the scores, as missed", occurrences)


def never_learned(schema: Schema, train: Sequence[Place]) -> Iterator[Found]:
    """Labels that are to be learned and never occur."""
    entities, relations = _labels(train)
    for kind, known, seen in (
        ("entity", schema.entity_types, entities),
        ("relation", schema.relation_types, relations),
    ):
        missing = [repr(label) for label in known if label not in seen]
        yield Found(f"{kind} type without an example", "the model learns never to predict it", missing)


def misspelt(train: Sequence[Place]) -> Iterator[Found]:
    """Labels that hardly occur and are called nearly as others that often do."""
    for kind, counts in zip(("entity", "relation"), _labels(train), strict=True):
        for label, other in _slips(counts):
            consequence = f"did you mean {other!r}, of which there are {counts[other]}? they are learned as two types"
            yield Found(f"{kind} of type {label!r}", consequence, list(_occurrences(train, kind, label)))


def _slips(counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Labels with the ones that may have been meant."""
    for label, count in counts.items():
        if count >= _FEW:
            continue
        likeness = {
            other: SequenceMatcher(None, label.casefold(), other.casefold()).ratio()
            for other, n in counts.items()
            if n >= _TIMES * count
        }
        nearest = max(likeness, key=likeness.__getitem__, default=None)
        if nearest is not None and likeness[nearest] >= _ALIKE:
            yield label, nearest


def _occurrences(found: Iterable[Place], kind: str, label: str) -> Iterator[str]:
    for place in found:
        if kind == "entity":
            yield from (place.of(span) for span in place.sentence.entities if span.label == label)
        else:
            yield from (f"{label} in {place}" for triple in place.sentence.triples if triple.label == label)


def unseen_labels(train: Sequence[Place], found: Sequence[Place]) -> Iterator[Found]:
    """Annotations with a label that training never shows."""
    for kind, seen, here in zip(("entity", "relation"), _labels(train), _labels(found), strict=True):
        where = [f"type {label!r}" for label, count in here.items() if label not in seen for _ in range(count)]
        yield Found(f"{kind} of a type that train lacks", "it counts in the scores, as one that is missed", where)


def seen_in_training(train: Sequence[Place], found: Sequence[Place]) -> Found:
    """Sentences that are in the training documents as well, word for word."""
    learned = {place.sentence.words for place in train}
    where = [place for place in found if len(place.sentence) and place.sentence.words in learned]
    return Found("sentence that is in train as well", "it is scored all the same, which flatters the scores", where)


def labelled_as_well(labelled: LabelledText, found: Sequence[Place]) -> Found:
    """Sentences that are among those that teachers labelled, case and spaces aside."""
    keys = [_plain("".join(place.sentence.words)) for place in found]
    seen = set(keys).intersection(map(_plain, labelled.texts()))
    where = [place for place, key in zip(found, keys, strict=True) if key in seen]
    return Found(
        "sentence that is in data.labels as well", "it is scored all the same, which flatters the scores", where
    )


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()


def without_neighbours(documents: Sequence[Document]) -> Found:
    """Documents of one sentence, where context was asked for."""
    where = [f"document {d.id!r}" for d in documents if sum(bool(len(s)) for s in d.sentences) == 1]
    return Found("document of a single sentence", "context_words finds no words around it to show the encoder", where)


def _labels(found: Iterable[Place]) -> tuple[Counter[str], Counter[str]]:
    entities: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for place in found:
        entities.update(entity.label for entity in place.sentence.entities)
        relations.update(triple.label for triple in place.sentence.triples)
    return entities, relations


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
