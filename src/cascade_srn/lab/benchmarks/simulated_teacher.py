"""A teacher that errs as often as asked: gold labels degraded to a given precision and recall.

Half of the labels that a teacher can get wrong instead of missing them are changed: they count as missing and as
spurious. So two thirds of the errors are missing and spurious labels. Every decision about a label draws from a
generator of its own, so that the same seed gives the same labels, and a second answer repeats a share of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cascade_srn.errors import ConfigError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

# Share of the smaller number of missing and spurious labels that are one label with a wrong type, place or direction.
CHANGED = 0.5
# Share of the changed entities that have a wrong type, the others a wrong boundary; and of the changed relations that
# have a wrong type, the others have head and tail exchanged.
WRONG_TYPE = 0.6
# Share of the wrong types that are the one type with which a type is usually confused.
USUAL = 0.5
# Longest spurious entity, in words.
_LONGEST = 3
_LEVEL = re.compile(r"(\d+)/(\d+)\+(\d+)/(\d+)")


@dataclass(frozen=True)
class Quality:
    """Precision and recall of a teacher, from 0 to 1: of entities, and of relations with both their entities."""

    entity_precision: float
    entity_recall: float
    relation_precision: float
    relation_recall: float

    @classmethod
    def parse(cls, text: str) -> Quality:
        """Read percentages such as ``80/75+50/40``: precision and recall of entities and of relations.

        Raises:
            ConfigError: If the text has another form, or a percentage is not from 1 to 100.
        """
        match = _LEVEL.fullmatch(text)
        values = [int(value) for value in match.groups()] if match else []
        if not values or not all(1 <= value <= 100 for value in values):
            raise ConfigError(
                f"one of the teachers is {text!r}",
                "Give percentages: precision/recall of entities + precision/recall of relations, such as 80/75+50/40",
                option="teachers",
            )
        return cls(*(value / 100 for value in values))


class SimulatedTeacher:
    """Answers with degraded gold labels.

    Args:
        quality: Precision and recall to degrade to. Relations cannot be found more often than both their entities.
        schema: The labels.
        seed: Seed of all errors.
        repeated: Share of the decisions that a second answer repeats.
    """

    def __init__(self, quality: Quality, schema: Schema, *, seed: int, repeated: float) -> None:
        self.quality, self.schema, self.seed, self.repeated = quality, schema, seed, repeated

    def answer(self, documents: Sequence[Document], number: int = 0) -> list[Document]:
        """Return documents with the labels of an answer."""
        answered = iter(_Answer(self, _sentences(documents), number).sentences())
        # Clusters are not part of an answer.
        return [
            replace(document, sentences=tuple(next(answered) for _ in document.sentences), clusters=())
            for document in documents
        ]


def doubtful(answers: Sequence[Sequence[Document]], share: float) -> set[int]:
    """Return the positions of the share of sentences on which two answers differ most.

    The doubt about a sentence is the number of its entities and relations that only one of the answers has.
    """
    first, second = map(_sentences, answers)
    order = sorted(range(len(first)), key=lambda at: -_disagreement(first[at], second[at]))
    return set(order[: round(share * len(first))])


def correct(answer: Sequence[Document], gold: Sequence[Document], positions: Collection[int]) -> list[Document]:
    """Return an answer with gold labels in the sentences at some positions."""
    pairs = enumerate(zip(_sentences(answer), _sentences(gold), strict=True))
    labels = iter([right if at in positions else given for at, (given, right) in pairs])
    return [replace(document, sentences=tuple(next(labels) for _ in document.sentences)) for document in answer]


def label_share(documents: Sequence[Document], positions: Collection[int]) -> float:
    """Return the share of the entities and relations that is in the sentences at some positions."""
    counts = [len(sentence.entities) + len(sentence.triples) for sentence in _sentences(documents)]
    return sum(counts[at] for at in positions) / max(1, sum(counts))


def _sentences(documents: Sequence[Document]) -> list[Sentence]:
    return [sentence for document in documents for sentence in document.sentences]


def _disagreement(one: Sentence, other: Sentence) -> int:
    return len(set(one.entities) ^ set(other.entities)) + len(set(one.triples) ^ set(other.triples))


class _Answer:
    """One answer about all sentences. Errors are counted over all of them."""

    def __init__(self, teacher: SimulatedTeacher, sentences: Sequence[Sentence], number: int) -> None:
        self.teacher, self.gold, self.number = teacher, sentences, number
        self.types = Counter(span.label for sentence in sentences for span in sentence.entities)
        self.relation_types = Counter(triple.label for sentence in sentences for triple in sentence.triples)
        # Labels of the answer by sentence, and what became of each gold entity that was found.
        self.entities: list[set[Span]] = [set() for _ in sentences]
        self.triples: list[set[Triple]] = [set() for _ in sentences]
        self.found: list[dict[Span, Span]] = [{} for _ in sentences]

    def sentences(self) -> list[Sentence]:
        self._entities()
        self._relations()
        return [
            sentence.annotated(sorted(entities), sorted(triples))
            for sentence, entities, triples in zip(self.gold, self.entities, self.triples, strict=True)
        ]

    def _rng(self, *decision: Any) -> random.Random:
        """Return the generator of a decision. A later answer repeats the first one in a share of the decisions."""
        teacher = self.teacher
        own = f"{teacher.seed} {self.number} {decision}"
        repeats = not self.number or random.Random(f"{own} repeats").random() < teacher.repeated
        return random.Random(f"{teacher.seed} 0 {decision}" if repeats else own)

    def _ranked(self, kind: str, items: Iterable[Any]) -> list[Any]:
        return sorted(items, key=lambda item: self._rng(kind, item).random())

    def _entities(self) -> None:
        quality = self.teacher.quality
        gold = [(at, span) for at, sentence in enumerate(self.gold) for span in sentence.entities]
        order = self._ranked("entity", gold)
        n_correct = round(quality.entity_recall * len(gold))
        n_wrong = round(n_correct / quality.entity_precision) - n_correct
        for at, span in order[:n_correct]:
            self._place(at, span, span)
        n_changed = round(CHANGED * min(n_wrong, len(gold) - n_correct))
        for at, span in order[n_correct:]:
            new = self._changed_entity(at, span) if n_changed else None
            if new is not None:
                self._place(at, span, new)
                n_changed, n_wrong = n_changed - 1, n_wrong - 1
        for at, start, end, text in self._ranked_spurious():
            if n_wrong and not any(span.start < end and start < span.end for span in self.entities[at]):
                rng = self._rng("spurious type", text)
                label = rng.choices(list(self.types), list(self.types.values()))[0]
                self.entities[at].add(Span(start, end, label))
                n_wrong -= 1

    def _place(self, at: int, gold: Span, span: Span) -> None:
        self.entities[at].add(span)
        self.found[at][gold] = span

    def _changed_entity(self, at: int, span: Span) -> Span | None:
        """Return an entity with another type or boundary that is not a label, or None."""
        rng = self._rng("changed entity", at, span)
        taken = self.entities[at] | set(self.gold[at].entities)
        label = self._confused("type", span.label, self.teacher.schema.entity_types, rng)
        retyped = [Span(span.start, span.end, label)]
        moved = [
            Span(span.start + left, span.end + right, span.label)
            for left, right in ((-1, 0), (1, 0), (0, -1), (0, 1))
            if 0 <= span.start + left < span.end + right <= len(self.gold[at])
        ]
        rng.shuffle(moved)
        options = retyped + moved if rng.random() < WRONG_TYPE else moved + retyped
        return next((option for option in options if option not in taken), None)

    def _confused(self, kind: str, label: str, labels: Sequence[str], rng: random.Random) -> str:
        """Return another label: often the usual confusion, which is the same for all mentions."""
        others = [other for other in labels if other != label]
        if not others:
            return label
        usual = self._rng("confused", kind, label).choice(others)
        return usual if rng.random() < USUAL else rng.choice(others)

    def _ranked_spurious(self) -> list[tuple[int, int, int, str]]:
        """Return spans that are not part of an entity, in the order of their texts, which all mentions share."""
        found = []
        for at, sentence in enumerate(self.gold):
            words, inside = sentence.words, {i for span in sentence.entities for i in range(span.start, span.end)}
            # A teacher proposes terms: long or capitalised words.
            is_term = [
                i not in inside and word.isalpha() and (len(word) > 5 or (i > 0 and word[0].isupper()))
                for i, word in enumerate(words)
            ]
            for start in range(len(words)):
                for end in range(start + 1, min(start + _LONGEST, len(words)) + 1):
                    if not is_term[end - 1]:
                        break
                    if is_term[start]:
                        found.append((at, start, end, " ".join(words[start:end]).lower()))
        return sorted(found, key=lambda item: (self._rng("spurious", item[3]).random(), item))

    def _relations(self) -> None:
        quality = self.teacher.quality
        gold = [(at, triple) for at, sentence in enumerate(self.gold) for triple in dict.fromkeys(sentence.triples)]
        order = self._ranked("relation", gold)
        n_correct = round(quality.relation_recall * len(gold))
        kept = [(at, triple) for at, triple in order if self._carried(at, triple) == triple][:n_correct]
        n_wrong = round(len(kept) / quality.relation_precision) - len(kept)
        for at, triple in kept:
            self.triples[at].add(triple)
        chosen = set(kept)
        n_changed = round(CHANGED * min(n_wrong, len(gold) - len(kept)))
        for at, triple in order:
            new = self._changed_relation(at, triple) if n_changed and (at, triple) not in chosen else None
            if new is not None:
                self.triples[at].add(new)
                n_changed, n_wrong = n_changed - 1, n_wrong - 1
        pairs = [
            (at, head, tail)
            for at, entities in enumerate(self.entities)
            for head in sorted(entities)
            for tail in sorted(entities)
            if head != tail
        ]
        for at, head, tail in self._ranked("pair", pairs):
            known = {frozenset((t.head, t.tail)) for t in (*self.triples[at], *self.gold[at].triples)}
            if n_wrong and frozenset((head, tail)) not in known:
                self.triples[at].add(Triple(head, self._spurious_type(at, head, tail), tail))
                n_wrong -= 1

    def _carried(self, at: int, triple: Triple) -> Triple | None:
        """Return a gold relation between what became of its entities, or None if one is missing."""
        head, tail = (self.found[at].get(entity) for entity in (triple.head, triple.tail))
        return Triple(head, triple.label, tail) if head is not None and tail is not None and head != tail else None

    def _changed_relation(self, at: int, triple: Triple) -> Triple | None:
        """Return a wrong relation: between changed entities, of another type, or in the other direction."""
        new = self._carried(at, triple)
        if new is None:
            return None
        if new == triple:
            rng = self._rng("changed relation", at, triple)
            schema = self.teacher.schema
            if rng.random() < WRONG_TYPE or triple.label in schema.symmetric:
                new = replace(triple, label=self._confused("relation", triple.label, schema.relation_types, rng))
            else:
                new = Triple(triple.tail, triple.label, triple.head)
        return None if new in self.triples[at] or new in self.gold[at].triples else new

    def _spurious_type(self, at: int, head: Span, tail: Span) -> str:
        """Return a type that gold has for such entities, if it has one."""
        fitting = Counter(
            triple.label
            for sentence in self.gold
            for triple in sentence.triples
            if (triple.head.label, triple.tail.label) == (head.label, tail.label)
        )
        counts = fitting or self.relation_types
        return self._rng("spurious relation", at, head, tail).choices(list(counts), list(counts.values()))[0]
