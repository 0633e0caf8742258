"""Replace entities of training sentences by others of the same type, so that few annotations give more sentences."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from cascade_srn.types import Sentence, Span, Triple


class EntitySwaps:
    """The words of all entities of some sentences, by type.

    Example:
        >>> first = Sentence.from_words(["Tea", "calms"], [Span(0, 1, "Drink")])
        >>> second = Sentence.from_words(["Iced", "coffee", "helps"], [Span(0, 2, "Drink")])
        >>> EntitySwaps([first, second]).swap(first, 1.0, random.Random(1)).words
        ('Iced', 'coffee', 'calms')
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        found: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        for sentence in sentences:
            for entity in sentence.entities:
                found[entity.label].add(sentence.words[entity.start : entity.end])
        # Sorted, so that the same seed draws the same words.
        self._words = {label: sorted(words) for label, words in found.items()}

    def swap(self, sentence: Sentence, share: float, rng: random.Random) -> Sentence:
        """Return a sentence with other words in a share of its entities. All annotations stay.

        Entities that share words with others keep their words.
        """
        words: list[str] = []
        starts: list[int] = []  # New position of each word, and of the end
        at = 0
        for entity in sorted(e for e in sentence.entities if not _overlaps(e, sentence)):
            if rng.random() >= share:
                continue
            drawn = rng.choice(self._words[entity.label])
            starts += range(len(words), len(words) + entity.start - at)
            words += sentence.words[at : entity.start]
            # Only the first word of the entity and the word after it are asked for.
            starts += [len(words)] * (entity.end - entity.start)
            words += drawn
            at = entity.end
        if not at:
            return sentence
        starts += range(len(words), len(words) + len(sentence) - at + 1)
        words += sentence.words[at:]
        moved = {e: replace(e, start=starts[e.start], end=starts[e.end]) for e in sentence.entities}
        triples = [Triple(moved[one.head], one.label, moved[one.tail]) for one in sentence.triples]
        return Sentence.from_words(words, moved.values(), triples)


def _overlaps(entity: Span, sentence: Sentence) -> bool:
    return any(e.start < entity.end and entity.start < e.end for e in sentence.entities if e is not entity)
