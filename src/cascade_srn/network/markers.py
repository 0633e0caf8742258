"""Early fusion of the paper: text markers around entities and the subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
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


@cache
def _entity_start(label: str) -> str:
    return f"[{label}_S]"


@cache
def _entity_end(label: str) -> str:
    return f"[{label}_E]"


class Markers:
    """Inserts markers into the rows of sentences.

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

    def around_entities(self, entities: Sequence[Sequence[Span]]) -> Integers:
        """Return the entities of each row as an array for :meth:`insert_all`."""
        ids = self.ids
        found = [
            (i, e.start, e.end, ids[_entity_start(e.label)], ids[_entity_end(e.label)])
            for i, spans in enumerate(entities)
            for e in spans
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 5)

    def around_subjects(self, subjects: Integers) -> Integers:
        """Return subjects as an array for :meth:`insert_all`. Shapes: subjects (n, 3): row, start and end."""
        markers = np.array((self.ids[SUBJECT_START], self.ids[SUBJECT_END]))
        return np.concatenate((subjects, np.broadcast_to(markers, (len(subjects), 2))), axis=1)

    def insert_all(self, rows: Sequence[Row], around: Integers) -> list[Row]:
        """Return the rows with markers around spans. All rows are made at once, which is faster than one by one.

        Shapes: around (n_spans, 5): row, start, end, and the ids of the opening and the closing marker. Spans on the
        same words nest in the given order.
        """
        if not len(around):
            return list(rows)
        row, start, end, opening, closing = around.T
        depth, length, kind = np.arange(len(around)), end - start, np.zeros_like(start)
        # Between two words, closing markers come before opening ones. Those of shorter spans are closer to the words.
        events = np.concatenate(
            ((-depth, length, kind, end, row, closing), (depth, -length, kind + 1, start, row, opening)), axis=1
        )
        events = events[:, np.lexsort(events[:5])]
        position, row, marker = events[3:]
        n_words, n_pieces = (
            np.fromiter((len(part) for part in parts), np.int64, len(rows))
            for parts in ((each.sizes for each in rows), (each.pieces for each in rows))
        )
        # Positions in the words and pieces of all rows.
        at_word = (np.cumsum(n_words) - n_words)[row] + position
        sizes, pieces = (
            np.concatenate(parts) for parts in ([each.sizes for each in rows], [each.pieces for each in rows])
        )
        at_piece = np.concatenate(([0], np.cumsum(sizes)))[at_word]
        n_new = np.bincount(row, minlength=len(rows))
        item_ends, piece_ends = np.cumsum(n_words + n_new), np.cumsum(n_pieces + n_new)
        word = np.arange(len(sizes))
        before = np.repeat(item_ends - n_words - n_new, n_words)
        word_items = word + np.searchsorted(at_word, word, side="right") - before
        sizes, pieces = _insert(sizes, at_word, np.ones_like(at_word)), _insert(pieces, at_piece, marker)
        ends = (part.tolist() for part in (item_ends, piece_ends, np.cumsum(n_words)))
        made = []
        item = piece = first = 0
        for each, past_item, past_piece, past_word in zip(rows, *ends, strict=True):
            made.append(
                Row(pieces[piece:past_piece], sizes[item:past_item], word_items[first:past_word], each.left, each.right)
            )
            item, piece, first = past_item, past_piece, past_word
        return made


def _insert(values: Integers, positions: Integers, new: Integers) -> Integers:
    """Insert ``new`` before ascending positions. Several times faster than ``numpy.insert``."""
    targets = positions + np.arange(len(positions))
    is_old = np.ones(len(values) + len(new), dtype=bool)
    is_old[targets] = False
    joined = np.empty(len(is_old), dtype=np.int64)
    joined[targets] = new
    joined[is_old] = values
    return joined
