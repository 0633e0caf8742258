"""Entities with mistakes in them, for the later turns to learn from.

In training the later turns are told the gold entities, in use those that turn 1 found. The mistakes made here are
those that turn 1 makes: an entity missed, found with a word too many or too few, given another type, or found where
there is none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from cascade_srn.types import Span

MISTAKES = ("missed", "moved", "retyped", "invented")
# An entity that is not there has up to this many words.
_LONGEST_INVENTED = 4


def corrupt(
    entities: Sequence[Span], n_words: int, labels: Sequence[str], share: float, chance: random.Random
) -> list[Span]:
    """The entities, about ``share`` of them with a mistake, as ``chance`` has it."""
    kept: list[Span] = []
    for entity in entities:
        mistake = chance.choice(MISTAKES) if chance.random() < share else None
        if mistake == "moved":
            kept.append(_moved(entity, n_words, chance))
        elif mistake == "retyped":
            kept.append(Span(entity.start, entity.end, chance.choice(labels)))
        elif mistake != "missed":
            kept.append(entity)
        if mistake == "invented":
            kept.append(_invented(n_words, labels, chance))
    return sorted(set(kept))


def _moved(entity: Span, n_words: int, chance: random.Random) -> Span:
    """One edge a word further out or in, where there is room; else as it was."""
    start, end = entity.start, entity.end
    if chance.random() < 0.5:
        start += chance.choice((-1, 1))
    else:
        end += chance.choice((-1, 1))
    return Span(start, end, entity.label) if 0 <= start < end <= n_words else entity


def _invented(n_words: int, labels: Sequence[str], chance: random.Random) -> Span:
    start = chance.randrange(n_words)
    end = min(n_words, start + chance.randint(1, _LONGEST_INVENTED))
    return Span(start, end, chance.choice(labels))
