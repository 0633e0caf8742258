"""What can be wrong with annotated sentences, one function for each; :mod:`preflight` puts them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

import numpy as np

from cascade_srn.baselines.limits import beyond
from cascade_srn.data.reports import may_be_missed
from cascade_srn.distil.labels import LabelledText
from cascade_srn.encoder.windows import window_owners, window_starts
from cascade_srn.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import Split
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
