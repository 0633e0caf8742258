"""Scores by properties of entities and relations: length, distance, nesting, presence in the training data.

Entities are counted as in ``ner`` and relations as in ``re_strict``. A gold item is in the group that gold gives it. A
correct prediction is in the group of its gold item, a wrong prediction in the group that the prediction gives it. The
groups of a breakdown therefore add up to the scores. See docs/evaluation.md for the groups.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cascade_srn.evaluation.items import RelationItem, SentencePair, relation_items
from cascade_srn.evaluation.scores import Counts
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

T = TypeVar("T")


def count_groups(
    pairs: Iterable[SentencePair],
    *,
    groups: Sequence[str],
    items: Callable[[Sentence], set[T]],
    group_of: Callable[[T, Sentence], str],
) -> dict[str, Counts]:
    """Count the items of each group, in the order of ``groups``. Empty groups have zeros."""
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
    return {group: Counts(n_gold[group], n_predicted[group], n_correct[group]) for group in groups}


IN_TRIPLE, OUT_OF_TRIPLE = "in_triple", "out_of_triple"


@dataclass(frozen=True)
class InTriples:
    """Counts of entities in and out of triples.

    ``by_predicted_relations`` groups all predictions by the predicted relations. It has no gold counts.
    """

    in_triple: Counts
    out_of_triple: Counts
    by_predicted_relations: dict[str, Counts]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            IN_TRIPLE: self.in_triple.to_dict(),
            OUT_OF_TRIPLE: self.out_of_triple.to_dict(),
            "by_predicted_relations": {
                group: {"precision": counts.precision, "n_predicted": counts.n_predicted, "n_correct": counts.n_correct}
                for group, counts in self.by_predicted_relations.items()
            },
        }


def group_in_triples(pairs: Sequence[SentencePair]) -> InTriples:
    """Count entities that take part in a relation, and entities that do not."""
    groups = (IN_TRIPLE, OUT_OF_TRIPLE)
    counts = count_groups(pairs, groups=groups, items=_entities, group_of=find_triple_group)
    by_predicted = {group: Counts() for group in groups}
    for pair in pairs:
        gold = set(pair.gold.entities)
        for entity in pair.predicted.entities:
            by_predicted[find_triple_group(entity, pair.predicted)] += Counts(0, 1, int(entity in gold))
    return InTriples(counts[IN_TRIPLE], counts[OUT_OF_TRIPLE], by_predicted)


def find_triple_group(entity: Span, sentence: Sentence) -> str:
    """Return whether an entity is the subject or object of a relation of its sentence."""
    related = any(entity in (triple.head, triple.tail) for triple in sentence.triples)
    return IN_TRIPLE if related else OUT_OF_TRIPLE


SHARED_WORDS = "sharing words"
BRACKETS = ("with brackets", "without brackets")
NESTINGS = ("nested", "crossing", "flat")
ENTITY_TEXTS = ("seen", "seen as another type", "unseen")
RELATION_TEXTS = ("both seen", "one seen", "none seen")


@dataclass(frozen=True)
class Ranges:
    """Consecutive ranges of integers, given by their first numbers. The last range has no end."""

    starts: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the ranges, such as "3", "1–10" and "51+"."""
        ends = [start - 1 for start in self.starts[1:]]
        closed = [str(a) if a == b else f"{a}–{b}" for a, b in zip(self.starts, ends, strict=False)]
        return (*closed, f"{self.starts[-1]}+")

    def find_name(self, number: int) -> str:
        """Return the name of the range of a number. Numbers below the first range belong to the first range."""
        return self.names[max(0, bisect_right(self.starts, number) - 1)]


SENTENCE_LENGTHS = Ranges((1, 11, 21, 31, 41, 51))
ENTITY_LENGTHS = Ranges((1, 2, 3, 4, 5, 6))
DISTANCES = Ranges((0, 1, 3, 6, 11, 21))

BREAKDOWNS = ("sentence_length", "brackets", "entity_length", "argument_distance", "nesting", "entity_text")
"""Names of all breakdowns."""
# Corpora with Penn Treebank tokens write brackets like this.
_ESCAPED_BRACKETS = frozenset(("-LRB-", "-RRB-"))

# Names of the groups, and the group of an item of a sentence.
Grouping = tuple[Sequence[str], Callable[[Any, Sentence], str]]


@dataclass(frozen=True)
class Breakdown:
    """Counts of the groups of one breakdown by task: ``ner``, ``re_strict`` or both."""

    name: str
    title: str
    tasks: dict[str, dict[str, Counts]]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, with the groups as a list in display order."""
        tasks = {
            task: [{"group": group} | counts.to_dict() for group, counts in groups.items()]
            for task, groups in self.tasks.items()
        }
        return {"name": self.name, "title": self.title, "tasks": tasks}


def break_down(
    pairs: Sequence[SentencePair],
    *,
    schema: Schema,
    symmetric: str = "directed",
    training_documents: Iterable[Document] | None = None,
) -> list[Breakdown]:
    """Compute all breakdowns. ``entity_text`` requires training documents."""

    items: dict[str, Callable[[Sentence], set[Any]]] = {
        "ner": _entities,
        "re_strict": lambda sentence: relation_items(sentence, schema, symmetric),
    }

    def count(name: str, title: str, **tasks: Grouping) -> Breakdown:
        counted = {
            task: count_groups(pairs, groups=groups, items=items[task], group_of=group_of)
            for task, (groups, group_of) in tasks.items()
        }
        return Breakdown(name, title, counted)

    length = SENTENCE_LENGTHS.names, lambda _, sentence: SENTENCE_LENGTHS.find_name(len(sentence))
    brackets = BRACKETS, find_bracket_group
    size = ENTITY_LENGTHS.names, lambda span, _: ENTITY_LENGTHS.find_name(_length(span))
    longer = ENTITY_LENGTHS.names, lambda r, _: ENTITY_LENGTHS.find_name(max(_length(r.head), _length(r.tail)))
    distance = (SHARED_WORDS, *DISTANCES.names), lambda item, _: find_distance_group(item.head, item.tail)
    nesting, nestings = (NESTINGS, classify_nesting), (NESTINGS, _classify_relation_nesting)
    found = [
        count("sentence_length", "Sentence length in words", ner=length, re_strict=length),
        count("brackets", "Round brackets in the sentence", ner=brackets, re_strict=brackets),
        count("entity_length", "Length in words of the entity, or of the longer argument", ner=size, re_strict=longer),
        count("argument_distance", "Words between the arguments", re_strict=distance),
        count("nesting", "Nesting of entities", ner=nesting, re_strict=nestings),
    ]
    if training_documents is not None:
        seen = SeenTexts(training_documents)
        texts, both = (ENTITY_TEXTS, seen.find_entity_group), (RELATION_TEXTS, seen.find_relation_group)
        found.append(count("entity_text", "Entity text in the training data", ner=texts, re_strict=both))
    return found


def find_bracket_group(item: object, sentence: Sentence) -> str:
    """Return whether the sentence of an item has a round bracket."""
    found = any("(" in word or ")" in word or word in _ESCAPED_BRACKETS for word in sentence.words)
    return BRACKETS[0] if found else BRACKETS[1]


def find_distance_group(one: Span, other: Span) -> str:
    """Return the group of two arguments by the number of words between them."""
    first, second = sorted((one, other))
    between = second.start - first.end
    return SHARED_WORDS if between < 0 else DISTANCES.find_name(between)


def classify_nesting(span: Span, sentence: Sentence) -> str:
    """Return whether an entity is nested with, crosses or is apart from the other entities of its sentence."""
    sharing = [o for o in sentence.entities if o != span and o.start < span.end and span.start < o.end]
    if any(_is_within(span, other) or _is_within(other, span) for other in sharing):
        return "nested"
    return "crossing" if sharing else "flat"


class SeenTexts:
    """Entity texts of documents, with the types they are annotated with."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._types: dict[str, set[str]] = {}
        for document in documents:
            for sentence in document.sentences:
                for span in sentence.entities:
                    self._types.setdefault(_text(span, sentence), set()).add(span.label)

    def find_entity_group(self, span: Span, sentence: Sentence) -> str:
        """Return the group of an entity by its text and type."""
        types = self._types.get(_text(span, sentence))
        if types is None:
            return "unseen"
        return "seen" if span.label in types else "seen as another type"

    def find_relation_group(self, item: RelationItem, sentence: Sentence) -> str:
        """Return the group of a relation by the number of its arguments whose text was seen."""
        n_seen = sum(_text(span, sentence) in self._types for span in (item.head, item.tail))
        return ("none seen", "one seen", "both seen")[n_seen]


def _entities(sentence: Sentence) -> set[Span]:
    return set(sentence.entities)


def _classify_relation_nesting(item: RelationItem, sentence: Sentence) -> str:
    return min((classify_nesting(span, sentence) for span in (item.head, item.tail)), key=NESTINGS.index)


def _text(span: Span, sentence: Sentence) -> str:
    # Without spaces, because the training data may be split into other words.
    return "".join(sentence.words[span.start : span.end]).casefold()


def _length(span: Span) -> int:
    return span.end - span.start


def _is_within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
