"""Text markers around entities and the subject: the paper's early fusion."""

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
    """The markers a fusion inserts, each with words that describe it (its vector starts from theirs)."""
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

    Around words that several spans share, the longest span opens first and closes last. Of spans over the same
    words, entities nest in the order given, and the subject's markers stand innermost, right at its words.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = ids

    @classmethod
    def of(cls, fusion: FusionSettings, entity_types: Iterable[str], tokenizer: Any) -> Markers:
        """The markers of a fusion, looked up in a tokenizer that holds them."""
        names = marker_names(fusion, entity_types)
        return cls({name: int(tokenizer.convert_tokens_to_ids(name)) for name in names})

    def insert(self, row: Row, entities: Sequence[Span] = (), subject: tuple[int, int] | None = None) -> Row:
        """The row with markers around the entities and the subject, which is given as ``[start, end)`` words."""
        around = [(e.start, e.end, _entity_start(e.label), _entity_end(e.label)) for e in entities]
        if subject is not None:
            around.append((*subject, SUBJECT_START, SUBJECT_END))
        if not around:
            return row
        # At one place between two words, what closes comes before what opens.
        events = []
        for depth, (start, end, opening, closing) in enumerate(around):
            events.append((end, 0, end - start, -depth, self.ids[closing]))
            events.append((start, 1, start - end, depth, self.ids[opening]))
        events.sort()
        places = np.array([event[0] for event in events], dtype=np.int64)
        markers = np.array([event[-1] for event in events], dtype=np.int64)
        piece_places = np.concatenate(([0], np.cumsum(row.sizes)))[places]
        n_words = len(row.word_items)
        return Row(
            pieces=_inserted(row.pieces, piece_places, markers),
            sizes=_inserted(row.sizes, places, np.ones_like(places)),
            word_items=np.arange(n_words) + np.searchsorted(places, np.arange(n_words), side="right"),
            left=row.left,
            right=row.right,
        )


def _inserted(values: Integers, places: Integers, new: Integers) -> Integers:
    """``new`` put before the values at ``places``, which rise; several times faster than ``numpy.insert``."""
    at = places + np.arange(len(places))
    kept = np.ones(len(values) + len(new), dtype=bool)
    kept[at] = False
    joined = np.empty(len(kept), dtype=np.int64)
    joined[at] = new
    joined[kept] = values
    return joined
