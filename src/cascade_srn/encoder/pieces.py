"""Words to word pieces: tokenizing once per word, markers as special tokens, windows over long rows.

Everything here is plain arrays, made ahead of the model; no module tokenizes in its ``forward``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from cascade_srn.encoder.windows import (
    Division,
    Integers,
    Pass,
    equal_passes,
    window_begins,
    window_owners,
    window_starts,
)
from cascade_srn.errors import ModelError

# Ordinary English has about 1.3 word pieces per word. Text with more pieces per word than this is charged by them.
PIECES_PER_WORD = 2

# A tokenizer that was saved without a limit reports an astronomically large one.
_NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Row:
    """One sequence for the encoder: items (words, and markers between them), each of one or more pieces.

    Attributes:
        pieces: ids of the pieces of all items, one after the other.
        sizes: number of pieces of each item, at least one.
        word_items: for each word of the sentence, which item it is.
        left, right: pieces of the words around the sentence, for the encoder only.
    """

    pieces: Integers
    sizes: Integers
    word_items: Integers
    left: Integers
    right: Integers

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class RowBatch:
    """Rows as tensors. The encoder reads windows; an item is pooled from the pieces it owns in them.

    Shapes:
        piece_ids, piece_mask: (n_windows, n_pieces)
        source: (n_owned,), flat positions in (n_windows × n_pieces), pass by pass, in the order of items
        target: (n_owned,), flat positions in (n_rows × n_items), in rising order
        item_lengths: (n_rows,), items of each row
        word_items: (n_rows, n_words), which item a word is; 0 at padding
        word_lengths: (n_rows,), words of each row
        n_items: the padded number of items of a row
        passes: windows that go through the encoder together, and what they are padded to, in the order of windows
    """

    piece_ids: Tensor
    piece_mask: Tensor
    source: Tensor
    target: Tensor
    item_lengths: Tensor
    word_items: Tensor
    word_lengths: Tensor

    # Plain numbers: reading them off a tensor would wait for the GPU.
    n_items: int
    passes: tuple[Pass, ...]

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in values.items()
        }
        return type(self)(**moved)


# Longer words hardly ever come again, and many of them would take much memory.
_LONG_WORD = 100


class WordPieces:
    """Turns words and markers into rows of pieces, and rows into batches, for one tokenizer.

    Each distinct word is tokenized once and remembered: turns 2 and 3 show the same words again with markers
    between them, and language repeats itself anyway.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        limit: int,
        overlap: int | None = None,
        remember: int = 200_000,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"the tokenizer {type(tokenizer).__name__} has no fast version; "
                "choose an encoder whose folder holds a tokenizer.json"
            )
        self.prefix, self.suffix = _surroundings(tokenizer)
        self._stand_in = _stand_in(tokenizer)
        self._mask = int(self._stand_in if tokenizer.mask_token_id is None else tokenizer.mask_token_id)
        self._backend, self._lead = _word_tokenizer(tokenizer)
        self._special = {i for i, token in self._backend.get_added_tokens_decoder().items() if token.special}
        self.room = limit - len(self.prefix) - len(self.suffix)
        self.overlap = self.room // 4 if overlap is None else overlap
        if self.room < 2 or not 0 <= self.overlap < self.room:
            raise ModelError(
                f"windows of {limit} pieces leave room for {self.room}, with an overlap of {self.overlap}; "
                "the overlap must be smaller than the room: raise max_pieces or lower overlap"
            )
        self.remember = remember
        self.pad_id = int(tokenizer.pad_token_id or 0)
        self._known: dict[str, tuple[int, ...]] = {}

    def _pieces_of(self, words: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """A mapping that holds the pieces of these words (and of others), tokenizing the new ones in one call."""
        known = self._known
        new = [word for word in words if word not in known]
        if not new:
            return known
        new = list(dict.fromkeys(new))
        if new and len(known) + len(new) > self.remember:
            # Forget all, but in a new mapping: another thread may be reading the old one.
            known, new = {}, list(dict.fromkeys(words))
        if new:
            encoded = self._backend.encode_batch([self._lead + word for word in new], add_special_tokens=False)
            # A word of nothing but characters that the tokenizer drops still takes its place in the sentence.
            found = {w: self._plain(e.ids) or (self._stand_in,) for w, e in zip(new, encoded, strict=True)}
            known.update((word, pieces) for word, pieces in found.items() if len(word) <= _LONG_WORD)
            self._known = known
            if any(len(word) > _LONG_WORD for word in new):
                return {word: found[word] if word in found else known[word] for word in words}
        return known

    def _plain(self, ids: Sequence[int]) -> tuple[int, ...]:
        """No special pieces: a Unigram vocabulary lists them among its own, and finds them in any text."""
        return tuple(self._stand_in if i in self._special else i for i in ids)

    def row(self, words: Sequence[str], left: Sequence[str] = (), right: Sequence[str] = ()) -> Row:
        """The row of a sentence without markers, with the words around it."""
        known = self._pieces_of([*words, *left, *right] if left or right else words)
        pieces = [known[word] for word in words]
        return Row(
            pieces=_flat(pieces),
            sizes=np.fromiter(map(len, pieces), np.int64, len(pieces)),
            word_items=np.arange(len(pieces)),
            left=_flat([known[word] for word in left]),
            right=_flat([known[word] for word in right]),
        )

    def cost(self, row: Row) -> int:
        """Return what a row costs in batches and queues, counted in ordinary words.

        A word or marker counts as one. Text that falls into more than ``PIECES_PER_WORD`` pieces per word (URLs,
        base64, long compounds) counts by its pieces, because the encoder's time and memory follow them.
        """
        n_pieces = len(row.pieces)
        if len(row.left) or len(row.right):
            n_pieces = max(n_pieces, min(n_pieces + len(row.left) + len(row.right), self.room))
        return max(len(row), -(-n_pieces // PIECES_PER_WORD))

    def masked(self, row: Row, share: float, rng: random.Random) -> Row:
        """The row of a sentence with about a ``share`` of its words hidden, each behind as many pieces as it has."""
        if share == 0:
            return row
        hidden = np.array([rng.random() < share for _ in range(len(row))], dtype=bool)
        return replace(row, pieces=np.where(np.repeat(hidden, row.sizes), self._mask, row.pieces))

    def batch(
        self, rows: Sequence[Row], division: Division | None = None, *, max_pieces: int | None = None
    ) -> RowBatch:
        """Build padded tensors from rows. Long rows are cut into overlapping windows.

        Args:
            rows: The rows of the batch.
            division: Sorts the windows by length and divides them into encoder passes. Used in training.
            max_pieces: Largest number of pieces in one encoder pass, padding included, but at least one window.
                Without it, and without a ``division``, all windows are read in one pass.
        """
        windows, window, place = self._windows(rows)
        if division is None or not windows:
            ids, mask = self._filled(windows)
            passes = equal_passes(len(windows), ids.shape[1], max_pieces)
        else:
            order = np.argsort([-len(each) for each in windows], kind="stable")
            window = np.argsort(order)[window]
            special = len(self.prefix) + len(self.suffix)
            sizes = np.array([len(windows[i]) + special for i in order], dtype=np.int64)
            passes = division.divide(sizes, self.room + special)
            empty = [_NONE] * (sum(n for n, _ in passes) - len(windows))
            ids, mask = self._filled([*(windows[i] for i in order), *empty], max(width for _, width in passes))
        n_items = max((len(row) for row in rows), default=0)
        n_words = max((len(row.word_items) for row in rows), default=0)
        word_items = np.zeros((len(rows), n_words), dtype=np.int64)
        word_items[_positions([len(row.word_items) for row in rows])] = _joined([row.word_items for row in rows])
        row_of_item, item = _positions([len(row) for row in rows])
        sizes = _joined([row.sizes for row in rows])
        return RowBatch(
            piece_ids=torch.from_numpy(ids),
            piece_mask=torch.from_numpy(mask),
            source=torch.from_numpy(window_begins(passes)[window] + place + len(self.prefix)),
            target=torch.from_numpy(np.repeat(row_of_item * n_items + item, sizes)),
            item_lengths=torch.tensor([len(row) for row in rows], dtype=torch.long),
            word_items=torch.from_numpy(word_items),
            word_lengths=torch.tensor([len(row.word_items) for row in rows], dtype=torch.long),
            n_items=n_items,
            passes=tuple(passes),
        )

    def _windows(self, rows: Sequence[Row]) -> tuple[list[Integers], Integers, Integers]:
        """What the windows hold between the special pieces; and for every piece of all items, the window it is
        read from and its place there."""
        windows: list[Integers] = []
        first_window, lead = [], []
        long_rows: list[tuple[int, Integers, Integers]] = []
        at = 0
        for row in rows:
            n_pieces = len(row.pieces)
            first_window.append(len(windows))
            if n_pieces <= self.room:
                left, right = _fitting(len(row.left), len(row.right), self.room - n_pieces)
                lead.append(left)
                around = row.left[len(row.left) - left :], row.right[:right]
                windows.append(np.concatenate((around[0], row.pieces, around[1])) if left or right else row.pieces)
            else:
                starts = window_starts(n_pieces, self.room, self.overlap)
                owners = window_owners(n_pieces, starts, self.room)
                lead.append(0)
                long_rows.append((at, len(windows) + owners, np.arange(n_pieces) - np.asarray(starts)[owners]))
                windows += [row.pieces[start : start + self.room] for start in starts]
            at += n_pieces
        row_of_piece, place = _positions([len(row.pieces) for row in rows])
        window = np.array(first_window, dtype=np.int64)[row_of_piece]
        place = place + np.array(lead, dtype=np.int64)[row_of_piece]
        for start, owner, owned_place in long_rows:
            window[start : start + len(owner)] = owner
            place[start : start + len(owner)] = owned_place
        return windows, window, place

    def _filled(self, windows: list[Integers], width: int = 0) -> tuple[Integers, NDArray[np.bool_]]:
        """Windows with the special pieces around them, padded to the longest or to a larger ``width``.

        Shapes: (n_windows, n_pieces) each
        """
        sizes = np.array([len(window) for window in windows], dtype=np.int64)
        width = max(width, len(self.prefix) + int(sizes.max(initial=0)) + len(self.suffix))
        ids = np.full((len(windows), width), self.pad_id, dtype=np.int64)
        ids[:, : len(self.prefix)] = self.prefix
        window, place = _positions(sizes)
        ids[window, place + len(self.prefix)] = _joined(windows)
        ends = len(self.prefix) + sizes[:, None] + np.arange(len(self.suffix))
        ids[np.arange(len(windows))[:, None], ends] = self.suffix
        mask = np.arange(width) < (len(self.prefix) + sizes + len(self.suffix))[:, None]
        return ids, mask


def piece_limit(config: Any, tokenizer: Any) -> int:
    """How many pieces, special ones included, an encoder takes at once."""
    limits = []
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions > 0:
        # RoBERTa and its kin count positions from the padding index on, and lose that many.
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _POSITIONS_AFTER_PADDING else 0
        limits.append(positions - offset)
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and stated < _NO_LIMIT:
        limits.append(int(stated))
    return min(limits, default=512)


_POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "ibert",
        "longformer",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)


def _word_tokenizer(tokenizer: Any) -> tuple[Tokenizer, str]:
    """A tokenizer for single words, and what to put before a word.

    It never reads a special token out of a text that happens to contain its name, and it never cuts. Byte-level
    vocabularies tell a word from the inside of one by the space before it.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend, " " if "ByteLevel" in repr(backend.pre_tokenizer) else ""


def _stand_in(tokenizer: Any) -> int:
    """The piece of a word that tokenizes to nothing."""
    for name in ("unk_token_id", "mask_token_id", "pad_token_id"):
        if (found := getattr(tokenizer, name, None)) is not None:
            return int(found)
    return 0


def _surroundings(tokenizer: Any) -> tuple[Integers, Integers]:
    """The special pieces that the tokenizer puts before and after a sequence."""
    # Any text will do that is not tokenized to nothing, which depends on the scripts that the vocabulary knows.
    plain = set(tokenizer.get_vocab()).difference(tokenizer.all_special_tokens)
    texts = ("a", *(token.strip("#▁Ġ ") for token in sorted(plain)))
    for text in texts:
        bare, full = tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer(text)["input_ids"]
        for at in range(len(full) - len(bare) + 1):
            if bare and full[at : at + len(bare)] == bare:
                return np.array(full[:at], dtype=np.int64), np.array(full[at + len(bare) :], dtype=np.int64)
    return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


def _fitting(left: int, right: int, room: int) -> tuple[int, int]:
    """How much of the words around a sentence fits, taken evenly, a short side's share going to the other."""
    half = room // 2
    taken_left = min(left, max(half, room - right))
    return taken_left, min(right, room - taken_left)


def _flat(pieces: Sequence[tuple[int, ...]]) -> Integers:
    return np.fromiter(chain.from_iterable(pieces), np.int64) if pieces else _NONE


def _joined(arrays: Sequence[Integers]) -> Integers:
    return np.concatenate(arrays) if arrays else _NONE


def _positions(sizes: Sequence[int] | Integers) -> tuple[Integers, Integers]:
    """For rows of these sizes, one after the other: the row of each element, and its place in the row."""
    counts = np.asarray(sizes, dtype=np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]


_NONE: Integers = np.zeros(0, dtype=np.int64)
