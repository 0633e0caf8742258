"""Scores by what entities and relations are like: the sentence's length, distance, size, nesting, known texts.

Entities are counted as ``ner`` counts them, relations as ``re_strict`` does, and the groups of a breakdown add up to
those scores (:mod:`cascade_srn.evaluation.breakdown` says how). Lengths and distances are in words.

* ``sentence_length``: of the sentence.
* ``entity_length``: of the entity; of a relation's longer argument.
* ``argument_distance`` (relations): the words that stand between the two arguments; 0 for neighbours, and a group of
  its own for arguments that share a word.
* ``nesting``: an entity is ``nested`` when another entity of the same annotation lies within it or around it (the
  same words under another type included), else ``crossing`` when it shares a word with another one, else ``flat``. A
  relation is what the first of these is that one of its arguments is.
* ``entity_text``: whether the training documents annotate the same text, its words compared without regard to case.
  An entity is ``seen`` when they do so with its type, ``seen as another type`` when only with others, else
  ``unseen``. A relation has ``both``, ``one`` or ``none`` of its arguments' texts seen, of whatever type.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cascade_srn.evaluation.items import Pair, RelationItem, relation_items
from cascade_srn.evaluation.scores import Counts
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

T = TypeVar("T")


def count_groups(
    pairs: Iterable[Pair],
    *,
    groups: Sequence[str],
    items: Callable[[Sentence], set[T]],
    group_of: Callable[[T, Sentence], str],
) -> dict[str, Counts]:
    """The counts of each of the groups, in their order; a group that nothing falls into has zeros.

    ``items`` is what is counted of a sentence, ``group_of`` the group of such an item in its sentence.
    """
    n_gold, n_predicted, n_correct = Counter[str](), Counter[str](), Counter[str]()
    for pair in pairs:
        gold, predicted = items(pair.gold), items(pair.predicted)
        for item in gold:
            group = group_of(item, pair.gold)
            n_gold[group] += 1
            if item in predicted:
                n_predicted[group] += 1
                n_correct[group] += 1
        n_predicted.update(group_of(item, pair.predicted) for item in predicted - gold)
    if unknown := (n_gold.keys() | n_predicted.keys()) - set(groups):
        raise ValueError(f"items fell into groups that are not declared: {sorted(unknown)}")
    return {group: Counts(n_gold[group], n_predicted[group], n_correct[group]) for group in groups}


IN_TRIPLE, OUT_OF_TRIPLE = "in_triple", "out_of_triple"


@dataclass(frozen=True)
class InTriples:
    """The counts of both groups; ``by_predicted_relations`` has predicted and correct ones, and no gold."""

    in_triple: Counts
    out_of_triple: Counts
    by_predicted_relations: dict[str, Counts]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            IN_TRIPLE: self.in_triple.to_dict(),
            OUT_OF_TRIPLE: self.out_of_triple.to_dict(),
            "by_predicted_relations": {
                group: {"precision": counts.precision, "n_predicted": counts.n_predicted, "n_correct": counts.n_correct}
                for group, counts in self.by_predicted_relations.items()
            },
        }


def group_in_triples(pairs: Sequence[Pair]) -> InTriples:
    """The scores of entities in and out of triples."""
    groups = (IN_TRIPLE, OUT_OF_TRIPLE)
    counts = count_groups(pairs, groups=groups, items=lambda s: set(s.entities), group_of=triple_group)
    own = {group: Counts() for group in groups}
    for pair in pairs:
        gold = set(pair.gold.entities)
        for entity in pair.predicted.entities:
            own[triple_group(entity, pair.predicted)] += Counts(0, 1, int(entity in gold))
    return InTriples(counts[IN_TRIPLE], counts[OUT_OF_TRIPLE], own)


def triple_group(entity: Span, sentence: Sentence) -> str:
    """Whether an entity of a sentence is the subject or object of one of the sentence's relations."""
    related = any(entity in (triple.head, triple.tail) for triple in sentence.triples)
    return IN_TRIPLE if related else OUT_OF_TRIPLE


SHARED_WORDS = "sharing words"
NESTINGS = ("nested", "crossing", "flat")
ENTITY_TEXTS = ("seen", "seen as another type", "unseen")
RELATION_TEXTS = ("both seen", "one seen", "none seen")


@dataclass(frozen=True)
class Bins:
    """Whole numbers in ranges: ``starts`` are the first numbers of the ranges, the last of which has no end."""

    starts: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """A range's name: "3", "1–10", "51+"."""
        ends = [start - 1 for start in self.starts[1:]]
        closed = [str(a) if a == b else f"{a}–{b}" for a, b in zip(self.starts, ends, strict=False)]
        return (*closed, f"{self.starts[-1]}+")

    def name_of(self, number: int) -> str:
        """The name of the range that a number is in; a number before the first range counts to the first."""
        return self.names[max(0, bisect_right(self.starts, number) - 1)]


SENTENCE_LENGTHS = Bins((1, 11, 21, 31, 41, 51))
ENTITY_LENGTHS = Bins((1, 2, 3, 4, 5, 6))
DISTANCES = Bins((0, 1, 3, 6, 11, 21))

EntityGroup = Callable[[Span, Sentence], str]
RelationGroup = Callable[[RelationItem, Sentence], str]


@dataclass(frozen=True)
class Breakdown:
    """The counts of the groups of one kind, by task: ``ner``, ``re_strict``, or both."""

    name: str
    title: str
    tasks: dict[str, dict[str, Counts]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; groups as a list, in the order in which they are to be shown."""
        tasks = {
            task: [{"group": group} | counts.to_dict() for group, counts in groups.items()]
            for task, groups in self.tasks.items()
        }
        return {"name": self.name, "title": self.title, "tasks": tasks}


def break_down(
    pairs: Sequence[Pair],
    *,
    schema: Schema,
    symmetric: str = "directed",
    training_documents: Iterable[Document] | None = None,
) -> list[Breakdown]:
    """All breakdowns; that of ``entity_text`` where there are training documents to have seen."""

    def counted(
        name: str,
        title: str,
        entity: tuple[Sequence[str], EntityGroup] | None,
        relation: tuple[Sequence[str], RelationGroup],
    ) -> Breakdown:
        tasks = {}
        if entity is not None:
            tasks["ner"] = count_groups(pairs, groups=entity[0], items=_entities, group_of=entity[1])
        tasks["re_strict"] = count_groups(
            pairs, groups=relation[0], items=lambda s: relation_items(s, schema, symmetric), group_of=relation[1]
        )
        return Breakdown(name, title, tasks)

    lengths, sizes = SENTENCE_LENGTHS, ENTITY_LENGTHS
    found = [
        counted(
            "sentence_length",
            "Words of the sentence",
            (lengths.names, lambda _, sentence: lengths.name_of(len(sentence))),
            (lengths.names, lambda _, sentence: lengths.name_of(len(sentence))),
        ),
        counted(
            "entity_length",
            "Words of the entity; of a relation's longer argument",
            (sizes.names, lambda span, _: sizes.name_of(_length(span))),
            (sizes.names, lambda item, _: sizes.name_of(max(_length(item.head), _length(item.tail)))),
        ),
        counted(
            "argument_distance",
            "Words between the arguments",
            None,
            ((SHARED_WORDS, *DISTANCES.names), lambda item, _: distance_group(item.head, item.tail)),
        ),
        counted("nesting", "Nested with another entity", (NESTINGS, nesting), (NESTINGS, _relation_nesting)),
    ]
    if training_documents is not None:
        seen = SeenTexts(training_documents)
        found.append(
            counted(
                "entity_text",
                "Text of the entity in the training data",
                (ENTITY_TEXTS, seen.entity),
                (RELATION_TEXTS, seen.relation),
            )
        )
    return found


def distance_group(one: Span, other: Span) -> str:
    """The group of two arguments by the words between them."""
    first, second = sorted((one, other))
    between = second.start - first.end
    return SHARED_WORDS if between < 0 else DISTANCES.name_of(between)


def nesting(span: Span, sentence: Sentence) -> str:
    """How an entity stands to the other entities of its sentence: nested, crossing or flat."""
    sharing = [o for o in sentence.entities if o != span and o.start < span.end and span.start < o.end]
    if any(_within(span, other) or _within(other, span) for other in sharing):
        return "nested"
    return "crossing" if sharing else "flat"


class SeenTexts:
    """The texts that documents annotate as entities, and with which types."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._types: dict[tuple[str, ...], set[str]] = {}
        for document in documents:
            for sentence in document.sentences:
                for span in sentence.entities:
                    self._types.setdefault(_text(span, sentence), set()).add(span.label)

    def entity(self, span: Span, sentence: Sentence) -> str:
        """The group of an entity by its text and type."""
        types = self._types.get(_text(span, sentence))
        if types is None:
            return "unseen"
        return "seen" if span.label in types else "seen as another type"

    def relation(self, item: RelationItem, sentence: Sentence) -> str:
        """The group of a relation by how many of its arguments' texts were seen."""
        n_seen = sum(_text(span, sentence) in self._types for span in (item.head, item.tail))
        return ("none seen", "one seen", "both seen")[n_seen]


def _entities(sentence: Sentence) -> set[Span]:
    return set(sentence.entities)


def _relation_nesting(item: RelationItem, sentence: Sentence) -> str:
    return min((nesting(item.head, sentence), nesting(item.tail, sentence)), key=NESTINGS.index)


def _text(span: Span, sentence: Sentence) -> tuple[str, ...]:
    return tuple(word.casefold() for word in sentence.words[span.start : span.end])


def _length(span: Span) -> int:
    return span.end - span.start


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
