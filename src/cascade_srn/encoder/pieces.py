"""Convert words to rows of word pieces, and rows to batches of arrays or tensors.

Words are tokenized here, ahead of the model. No module tokenizes in its ``forward``. Extraction with an exported model
uses this module without torch, which is therefore imported where tensors are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cascade_srn.encoder.tokenizing import SpecialPieces, TokenizedWords
from cascade_srn.encoder.windows import (
    Division,
    Integers,
    Pass,
    window_owners,
    window_starts,
)
from cascade_srn.errors import ModelError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# English text has about 1.3 word pieces per word. Text with more pieces per word than this has a higher cost.
PIECES_PER_WORD = 2

# A tokenizer that was saved without a limit reports a huge one.
_NO_LIMIT = 1_000_000

# Model types whose positions are numbered from the padding index on, so that as many positions are lost.
_POSITIONS_AFTER_PADDING = {
    *("camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
}

_EMPTY: Integers = np.zeros(0, dtype=np.int64)


# Not frozen, because making it would take longer than what it holds.
@dataclass(slots=True)
class Row:
    """One input sequence of the encoder. Its items are words and markers, each of one or more pieces.

    Attributes:
        pieces: Ids of the pieces of all items, concatenated.
        sizes: Number of pieces of each item, at least one.
        word_items: Index of the item of each word of the sentence.
        left, right: Pieces of the context before and after the sentence, which only the encoder reads.
    """

    pieces: Integers
    sizes: Integers
    word_items: Integers
    left: Integers
    right: Integers

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class RowArrays:
    """Rows as arrays. The encoder reads windows, and an item is pooled from its pieces in them.

    Shapes:
        piece_ids, piece_mask: (n_windows, n_pieces)
        source: (n_owned,), flat positions in (n_windows × n_pieces), pass by pass, in the order of items
        target: (n_owned,), flat positions in (n_rows × n_items), ascending
        item_lengths: (n_rows,), number of items of each row
        word_items: (n_rows, n_words), index of the item of each word; 0 at padding
        word_lengths: (n_rows,), number of words of each row
        n_items: padded number of items of a row
        passes: number of windows and padded width of each encoder pass, in the order of windows
    """

    piece_ids: Integers
    piece_mask: NDArray[np.bool_]
    source: Integers
    target: Integers
    item_lengths: Integers
    word_items: Integers
    word_lengths: Integers
    n_items: int
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class RowBatch:
    """The same as :class:`RowArrays`, with tensors."""

    piece_ids: Tensor
    piece_mask: Tensor
    source: Tensor
    target: Tensor
    item_lengths: Tensor
    word_items: Tensor
    word_lengths: Tensor

    # Plain numbers, because reading them from a tensor would wait for the GPU.
    n_items: int
    passes: tuple[Pass, ...]

    @classmethod
    def from_arrays(cls, arrays: RowArrays, convert: Callable[[NDArray[Any]], Tensor] | None = None) -> Self:
        """Convert arrays to tensors, by default to tensors that share their memory."""
        from torch import from_numpy

        make = from_numpy if convert is None else convert
        values = {field.name: getattr(arrays, field.name) for field in fields(arrays)}
        made: dict[str, Any] = {k: make(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        return cls(**made)

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True) for name, value in values.items() if hasattr(value, "to")
        }
        return replace(self, **moved)


class WordPieces:
    """Converts words to rows and rows to batches for one tokenizer.

    Each distinct word is tokenized once and cached. The later turns of the cascade read the same words again.

    Args:
        tokenizer: A fast tokenizer of transformers, or one of tokenizers together with ``special``,
            whose settings are changed.
        limit: Largest number of pieces in a window, special pieces included.
        overlap: Number of pieces that neighbouring windows share. None: a quarter of a window.
        cache_size: Largest number of words in the cache.
        text_form: Form of the words that is tokenized, see :func:`cascade_srn.text.forms.model_words`.
        special: Special pieces of a tokenizer of tokenizers.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        limit: int,
        overlap: int | None = None,
        cache_size: int = 200_000,
        text_form: str = "natural",
        special: SpecialPieces | None = None,
    ) -> None:
        if special is None:
            if not getattr(tokenizer, "is_fast", False):
                raise ModelError(
                    f"the tokenizer {type(tokenizer).__name__} has no fast version",
                    "Use an encoder whose folder has a tokenizer.json",
                )
            # A copy, because the caller's tokenizer keeps its settings.
            copied = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
            special, tokenizer = SpecialPieces.of(tokenizer), copied
        self.special = special
        self.prefix, self.suffix = (np.array(part, dtype=np.int64) for part in (special.prefix, special.suffix))
        self._mask = special.mask
        self.words = TokenizedWords(tokenizer, special, text_form=text_form, cache_size=cache_size)
        self.limit = limit
        self.room = limit - len(self.prefix) - len(self.suffix)
        self.overlap = self.room // 4 if overlap is None else overlap
        if self.room < 2 or not 0 <= self.overlap < self.room:
            raise ModelError(
                f"windows of {limit} pieces have room for {self.room}, which does not fit an overlap of {self.overlap}",
                "Raise max_pieces or lower overlap",
            )
        self.text_form = text_form
        self.pad_id = special.pad

    def row(self, words: Sequence[str], left: Sequence[str] = (), right: Sequence[str] = ()) -> Row:
        """Return the row of a sentence without markers, with the words before and after it as context."""
        parts = (words, left, right) if left or right else (words,)
        pieces, *context = (self.words.of_words(part) for part in parts)
        return Row(
            pieces=_flatten(pieces),
            sizes=np.fromiter(map(len, pieces), np.int64, len(pieces)),
            word_items=np.arange(len(pieces)),
            left=_flatten(context[0]) if context else _EMPTY,
            right=_flatten(context[1]) if context else _EMPTY,
        )

    def rows(self, sentences: Sequence[Sequence[str]]) -> list[Row]:
        """Return the rows of sentences without markers and context. This is faster than one call for each."""
        return self.cut_rows(*self.tokenize(sentences), list(map(len, sentences)))

    def tokenize(self, sentences: Sequence[Sequence[str]]) -> tuple[Integers, Integers]:
        """Return the pieces of all words of all sentences, concatenated, and the number of pieces of each word."""
        pieces = self.words.of_sentences(sentences)
        return _flatten(pieces), np.fromiter(map(len, pieces), np.int64, len(pieces))

    @staticmethod
    def cut_rows(joined: Integers, sizes: Integers, n_words: Sequence[int]) -> list[Row]:
        """Return the rows of sentences with these numbers of words from what :meth:`tokenize` returned."""
        word_ends = np.cumsum([0, *n_words])
        piece_ends = np.concatenate(([0], np.cumsum(sizes)))[word_ends]
        numbers = np.arange(max(n_words, default=0))
        numbers.flags.writeable = False
        return [
            Row(joined[piece:past_piece], sizes[word:past_word], numbers[: past_word - word], _EMPTY, _EMPTY)
            for (word, past_word), (piece, past_piece) in zip(
                pairwise(word_ends.tolist()), pairwise(piece_ends.tolist()), strict=True
            )
        ]

    def tokenize_ahead(self, words: Sequence[str]) -> None:
        """Tokenize the words of a sentence into the cache, for example in another thread than that of the model."""
        self.words.tokenize_ahead(words)

    def cost(self, row: Row) -> int:
        """Return the cost of a row in batches and queues, in words.

        A word or marker costs one. Text with more than ``PIECES_PER_WORD`` pieces per word (URLs, base64, long
        compounds) costs by its pieces, because they determine the time and memory of the encoder.
        """
        return max(len(row.sizes), -(-self.n_pieces(row) // PIECES_PER_WORD))

    def n_pieces(self, row: Row) -> int:
        """Return the number of pieces that the encoder reads for a row, context included."""
        n_own, n_context = len(row.pieces), len(row.left) + len(row.right)
        return max(n_own, min(n_own + n_context, self.room)) if n_context else n_own

    def mask_words(self, row: Row, share: float, rng: random.Random) -> Row:
        """Return the row with each word masked with probability ``share``. All pieces of a masked word become masks."""
        if share == 0:
            return row
        masked = np.array([rng.random() < share for _ in range(len(row))], dtype=bool)
        return replace(row, pieces=np.where(np.repeat(masked, row.sizes), self._mask, row.pieces))

    def batch(
        self, rows: Sequence[Row], division: Division | None = None, *, max_pieces: int | None = None
    ) -> RowBatch:
        """Build padded tensors from rows. See :meth:`arrays`."""
        return RowBatch.from_arrays(self.arrays(rows, division, max_pieces=max_pieces))

    def arrays(
        self, rows: Sequence[Row], division: Division | None = None, *, max_pieces: int | None = None
    ) -> RowArrays:
        """Build padded arrays from rows. Long rows are cut into overlapping windows.

        Args:
            rows: The rows of the batch.
            division: Divides the windows, sorted by length, into encoder passes. Used in training.
            max_pieces: Largest number of pieces in one encoder pass, padding included. A pass has at least one window.
                Without it, and without a ``division``, all windows are read in one pass.
        """
        windows, window, offset = self._cut_windows(rows)
        if division is None or not windows:
            ids, mask = self._pad_windows(windows)
            passes = _equal_passes(len(windows), ids.shape[1], max_pieces)
        else:
            order = np.argsort([-len(each) for each in windows], kind="stable")
            window = np.argsort(order)[window]
            special = len(self.prefix) + len(self.suffix)
            sizes = np.array([len(windows[i]) + special for i in order], dtype=np.int64)
            passes = division.divide(sizes, self.room + special)
            empty = [_EMPTY] * (sum(n for n, _ in passes) - len(windows))
            ids, mask = self._pad_windows([*(windows[i] for i in order), *empty], max(width for _, width in passes))
        # Not len(row), which calls a method.
        item_lengths = np.array([len(row.sizes) for row in rows], dtype=np.int64)
        word_lengths = np.array([len(row.word_items) for row in rows], dtype=np.int64)
        n_items = int(item_lengths.max(initial=0))
        word_items = np.zeros((len(rows), word_lengths.max(initial=0)), dtype=np.int64)
        word_items[_positions(word_lengths)] = _concatenate([row.word_items for row in rows])
        row_of_item, item = _positions(item_lengths)
        sizes = _concatenate([row.sizes for row in rows])
        return RowArrays(
            piece_ids=ids,
            piece_mask=mask,
            source=_window_begins(passes)[window] + offset + len(self.prefix),
            target=np.repeat(row_of_item * n_items + item, sizes),
            item_lengths=item_lengths,
            word_items=word_items,
            word_lengths=word_lengths,
            n_items=n_items,
            passes=tuple(passes),
        )

    def _cut_windows(self, rows: Sequence[Row]) -> tuple[list[Integers], Integers, Integers]:
        """Cut rows into windows.

        Returns the pieces of each window without special pieces and, for each piece of all items, the window it is read
        from and its offset there.
        """
        counts = np.fromiter((len(row.pieces) for row in rows), np.int64, len(rows))
        if counts.max(initial=0) <= self.room and not any(len(row.left) or len(row.right) for row in rows):
            return [row.pieces for row in rows], *_positions(counts)
        windows: list[Integers] = []
        first_window, lead = [], []
        long_rows: list[tuple[int, Integers, Integers]] = []
        n_before = 0
        for row in rows:
            n_pieces = len(row.pieces)
            first_window.append(len(windows))
            if n_pieces <= self.room:
                left, right = _fit_context(len(row.left), len(row.right), self.room - n_pieces)
                lead.append(left)
                context = row.left[len(row.left) - left :], row.right[:right]
                windows.append(np.concatenate((context[0], row.pieces, context[1])) if left or right else row.pieces)
            else:
                starts = window_starts(n_pieces, self.room, self.overlap)
                owners = window_owners(n_pieces, starts, self.room)
                lead.append(0)
                long_rows.append((n_before, len(windows) + owners, np.arange(n_pieces) - np.asarray(starts)[owners]))
                windows += [row.pieces[start : start + self.room] for start in starts]
            n_before += n_pieces
        row_of_piece, offset = _positions(counts)
        window = np.array(first_window, dtype=np.int64)[row_of_piece]
        offset = offset + np.array(lead, dtype=np.int64)[row_of_piece]
        for start, owner, owner_offset in long_rows:
            window[start : start + len(owner)] = owner
            offset[start : start + len(owner)] = owner_offset
        return windows, window, offset

    def _pad_windows(self, windows: list[Integers], width: int = 0) -> tuple[Integers, NDArray[np.bool_]]:
        """Return ids and mask of windows with their special pieces, padded to the longest window or to ``width``.

        Shapes: (n_windows, n_pieces) each
        """
        sizes = np.array([len(window) for window in windows], dtype=np.int64)
        width = max(width, len(self.prefix) + int(sizes.max(initial=0)) + len(self.suffix))
        ids = np.full((len(windows), width), self.pad_id, dtype=np.int64)
        ids[:, : len(self.prefix)] = self.prefix
        window, offset = _positions(sizes)
        ids[window, offset + len(self.prefix)] = _concatenate(windows)
        ends = len(self.prefix) + sizes[:, None] + np.arange(len(self.suffix))
        ids[np.arange(len(windows))[:, None], ends] = self.suffix
        mask = np.arange(width) < (len(self.prefix) + sizes + len(self.suffix))[:, None]
        return ids, mask


def piece_limit(config: Any, tokenizer: Any) -> int:
    """Return the largest number of pieces in one input of an encoder, special pieces included."""
    limits = []
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _POSITIONS_AFTER_PADDING else 0
        limits.append(positions - offset)
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and stated < _NO_LIMIT:
        limits.append(int(stated))
    return min(limits, default=512)


def _fit_context(n_left: int, n_right: int, room: int) -> tuple[int, int]:
    """Return how many context pieces to keep on each side: evenly, with the unused share of one side for the other."""
    kept_left = min(n_left, max(room // 2, room - n_right))
    return kept_left, min(n_right, room - kept_left)


def _flatten(pieces: Sequence[tuple[int, ...]]) -> Integers:
    return np.fromiter(chain.from_iterable(pieces), np.int64) if pieces else _EMPTY


def _concatenate(arrays: Sequence[Integers]) -> Integers:
    return np.concatenate(arrays) if arrays else _EMPTY


def _positions(sizes: Sequence[int] | Integers) -> tuple[Integers, Integers]:
    """Return the row of each element and its position in the row, for concatenated rows of these sizes."""
    counts = np.asarray(sizes, dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]


def _equal_passes(n_windows: int, width: int, max_pieces: int | None) -> list[Pass]:
    """Divide windows of one width into passes of at most ``max_pieces`` pieces, but at least one window each.

    Long texts have hundreds of windows. Reading them in one pass would take gigabytes of memory.
    """
    per_pass = n_windows if max_pieces is None else max(1, max_pieces // max(width, 1))
    firsts = range(0, n_windows, max(per_pass, 1))
    return [(min(per_pass, n_windows - first), width) for first in firsts] or [(0, width)]


def _window_begins(passes: Sequence[Pass]) -> Integers:
    """Return the offset of each window in the flattened pieces of all passes. Shape: (n_windows,)."""
    widths = np.repeat([width for _, width in passes], [n for n, _ in passes]).astype(np.int64)
    return np.cumsum(widths) - widths
