"""Annotations that a model family cannot predict, however it is trained."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cascade_srn.types import Sentence, Span, Triple

# Identifies the argument of a relation: all words of an entity, or its first word.
WordKey = tuple[int, ...]


class Unreachable(NamedTuple):
    """An annotation that a model family cannot predict, and why."""

    problem: str
    annotation: Span | Triple


def unreachable_by_key(problem: str, key: Callable[[Span], WordKey], sentence: Sentence) -> Iterator[Unreachable]:
    """Yield the relations of entities that share their key with another entity and are not chosen for it.

    A key is decoded as the entity with the highest score. Only as the object of that entity, it is decoded as the one
    with the next score. The scores are unknown here: the choice that keeps most relations is assumed.
    """
    triples = sorted(set(sentence.triples))
    within = [triple for triple in triples if key(triple.head) == key(triple.tail)]
    between = [triple for triple in triples if key(triple.head) != key(triple.tail)]
    arguments = [*(argument for t in between for argument in (t.head, t.tail)), *(t.head for t in within)]
    first = _most_frequent(arguments, key)
    second = _most_frequent((t.tail for t in within if t.head == first[key(t.head)] != t.tail), key)
    shared = {words for words, number in Counter(map(key, set(sentence.entities))).items() if number > 1}
    for triple in triples:
        head, tail = key(triple.head), key(triple.tail)
        objects = second if head == tail and head in shared else first
        if triple.head != first[head] or triple.tail != objects.get(tail):
            yield Unreachable(problem, triple)


def _most_frequent(entities: Iterable[Span], key: Callable[[Span], WordKey]) -> dict[WordKey, Span]:
    """Return the most frequent entity of each key, the first of equals."""
    chosen: dict[WordKey, Span] = {}
    for entity, _ in sorted(Counter(entities).items(), key=lambda item: (-item[1], item[0])):
        chosen.setdefault(key(entity), entity)
    return chosen
