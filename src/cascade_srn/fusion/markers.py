"""Early fusion of the paper: text markers around entities and the subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cascade_srn.config import FusionSettings
from cascade_srn.encoder.pieces import Row
from cascade_srn.encoder.windows import Integers
from cascade_srn.types import Span

SUBJECT_START, SUBJECT_END = "[S:S]", "[S:E]"


def marker_names(fusion: FusionSettings, entity_types: Iterable[str]) -> dict[str, str]:
    """Return the markers of a fusion, each with words that describe it and initialise its embedding."""
    names = {}
    if fusion.entities == "markers":
        for label in entity_types:
            names[_entity_start(label)] = f"start {label}"
            names[_entity_end(label)] = f"end {label}"
    if fusion.subject == "markers":
        names[SUBJECT_START] = "start subject"
        names[SUBJECT_END] = "end subject"
    return names


def _entity_start(label: str) -> str:
    return f"[{label}_S]"


def _entity_end(label: str) -> str:
    return f"[{label}_E]"


class Markers:
    """Inserts markers into the row of a sentence.

    If spans are nested, the markers of the longer span are outside. Entities on the same words nest in the given order,
    and the markers of a subject on these words are innermost.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids

    @classmethod
    def from_tokenizer(cls, fusion: FusionSettings, entity_types: Iterable[str], tokenizer: Any) -> Markers:
        """Create the markers of a fusion with the ids of a tokenizer that contains them."""
        names = marker_names(fusion, entity_types)
        return cls({name: int(tokenizer.convert_tokens_to_ids(name)) for name in names})

    def insert(self, row: Row, entities: Sequence[Span] = (), subject: tuple[int, int] | None = None) -> Row:
        """Return the row with markers around the entities and around the subject, a ``[start, end)`` pair of words."""
        around = [(e.start, e.end, _entity_start(e.label), _entity_end(e.label)) for e in entities]
        if subject is not None:
            around.append((*subject, SUBJECT_START, SUBJECT_END))
        if not around:
            return row
        # Between two words, closing markers come before opening ones.
        events = []
        for depth, (start, end, opening, closing) in enumerate(around):
            events.append((end, 0, end - start, -depth, self.ids[closing]))
            events.append((start, 1, start - end, depth, self.ids[opening]))
        events.sort()
        positions = np.array([event[0] for event in events], dtype=np.int64)
        markers = np.array([event[-1] for event in events], dtype=np.int64)
        piece_positions = np.concatenate(([0], np.cumsum(row.sizes)))[positions]
        n_words = len(row.word_items)
        return Row(
            pieces=_insert(row.pieces, piece_positions, markers),
            sizes=_insert(row.sizes, positions, np.ones_like(positions)),
            word_items=np.arange(n_words) + np.searchsorted(positions, np.arange(n_words), side="right"),
            left=row.left,
            right=row.right,
        )


def _insert(values: Integers, positions: Integers, new: Integers) -> Integers:
    """Insert ``new`` before ascending positions. Several times faster than ``numpy.insert``."""
    targets = positions + np.arange(len(positions))
    is_old = np.ones(len(values) + len(new), dtype=bool)
    is_old[targets] = False
    joined = np.empty(len(is_old), dtype=np.int64)
    joined[targets] = new
    joined[is_old] = values
    return joined
