"""Pack documents into sequences of equal length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.errors import DataError, ModelError
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.text.segment import segment
from cascade_srn.types import Document


class HeldOutSentences:
    """Removes the sentences of annotated documents from raw text, and counts them."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._keys = {sentence_key(s.words) for document in documents for s in document.sentences if len(s)}
        self.n_removed = 0

    @classmethod
    def read(cls, paths: Iterable[str | Path]) -> HeldOutSentences:
        """Read annotated documents from files and folders in any supported format."""
        return cls(document for path in paths for document in read_documents(path))

    def __len__(self) -> int:
        return len(self._keys)

    def remove_from(self, text: str) -> str:
        """Return the text without the held-out sentences."""
        spans = [(words[0][0], words[-1][1]) for words in segment(text)]
        kept = [(start, end) for start, end in spans if sentence_key([text[start:end]]) not in self._keys]
        if len(kept) == len(spans):
            return text
        self.n_removed += len(spans) - len(kept)
        return " ".join(text[start:end] for start, end in kept)


# Kinds of pieces: special, first piece of a word, further piece of a word.
SPECIAL, BEGINS, CONTINUES = 0, 1, 2

# Least numbers of training and held-out sequences.
MIN_SEQUENCES, MIN_HELD_OUT = 64, 16
# If whole documents exceed this multiple of the text to hold out, parts of documents are held out instead.
_MAX_EXCESS = 2
# The held-out documents are the same for every seed, so that perplexities are comparable.
_HELD_OUT_SEED = 20_211

# Documents and characters that are tokenized in one call.
_N_DOCUMENTS, _N_CHARACTERS = 512, 1 << 22

Ids = NDArray[np.int32]
Kinds = NDArray[np.uint8]


@dataclass(frozen=True)
class Sequences:
    """Rows of pieces, with special pieces at both ends and between documents.

    Shapes: ids and kinds (n_sequences, n_pieces)
    """

    ids: Ids
    kinds: Kinds

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Packed:
    """Training sequences and held-out sequences of a text."""

    train: Sequences
    held_out: Sequences
    n_documents: int
    n_held_out_documents: int  # Number of whole documents that are held out; 0 if the text has too few documents
    n_pieces: int

    @property
    def sha256(self) -> str:
        """Checksum of the sequences."""
        digest = sha256()
        for part in (self.train, self.held_out):
            digest.update(part.ids.tobytes())
            digest.update(part.kinds.tobytes())
        return digest.hexdigest()


def pack(
    texts: Iterable[str],
    tokenizer: Any,
    *,
    n_pieces: int,
    held_out: float,
    on_documents: Callable[[int], None] = lambda count: None,
) -> Packed:
    """Pack texts into sequences."""
    special = WordPieces(tokenizer, limit=n_pieces)
    if tokenizer.mask_token_id is None or not len(special.suffix):
        raise ModelError(
            "the tokenizer has no mask token or no end token",
            "Choose an encoder that was trained as a masked language model",
            option="encoder",
        )
    ids: list[Ids] = []
    kinds: list[Kinds] = []
    sizes: list[int] = []
    for documents in _tokenize(texts, tokenizer):
        for own_ids, own_kinds in documents:
            if len(own_ids):
                ids.append(np.append(own_ids, special.suffix[-1]).astype(np.int32))
                kinds.append(np.append(own_kinds, SPECIAL).astype(np.uint8))
                sizes.append(len(own_ids))
        on_documents(len(ids))
    chosen = _held_out(np.array(sizes, dtype=np.int64), share=held_out, n_needed=MIN_HELD_OUT * n_pieces)
    if chosen is None:
        train, measured = _split_at_end(_rows(ids, kinds, special, n_pieces), share=held_out)
    else:
        train, measured = (
            _rows([ids[i] for i in members], [kinds[i] for i in members], special, n_pieces)
            for members in (np.flatnonzero(~chosen), np.flatnonzero(chosen))
        )
    packed = Packed(train, measured, len(ids), 0 if chosen is None else int(chosen.sum()), sum(sizes))
    _refuse_short(packed, n_pieces)
    return packed


def _refuse_short(packed: Packed, n_pieces: int) -> None:
    if len(packed.train) < MIN_SEQUENCES or len(packed.held_out) < MIN_HELD_OUT:
        needed = (MIN_SEQUENCES + MIN_HELD_OUT) * n_pieces
        raise DataError(
            f"the text is too short: {packed.n_pieces:,} pieces in {packed.n_documents:,} documents make "
            f"{len(packed.train)} training and {len(packed.held_out)} held-out sequences of {n_pieces} pieces, but "
            f"{MIN_SEQUENCES} and {MIN_HELD_OUT} are needed",
            f"Give about {needed:,} pieces or more, or use shorter sequences",
            option="sequence_pieces",
        )


def _held_out(sizes: NDArray[np.int64], *, share: float, n_needed: int) -> NDArray[np.bool_] | None:
    """Choose documents to hold out: the given share, or more if their pieces are too few.

    None: whole documents are far more than the share, as in a file without blank lines.
    """
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), n_needed)) + 1
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[: max(round(share * len(sizes)), enough)]] = True
    asked = max(share * sizes.sum(), n_needed)
    return None if sizes[chosen].sum() > _MAX_EXCESS * asked else chosen


def _split_at_end(sequences: Sequences, *, share: float) -> tuple[Sequences, Sequences]:
    """Split off the last sequences: the given share, and at least ``MIN_HELD_OUT``."""
    first = max(len(sequences) - max(round(share * len(sequences)), MIN_HELD_OUT), 0)
    ids, kinds = sequences.ids, sequences.kinds
    return Sequences(ids[:first], kinds[:first]), Sequences(ids[first:], kinds[first:])


def _rows(ids: list[Ids], kinds: list[Kinds], special: WordPieces, n_pieces: int) -> Sequences:
    """Cut concatenated pieces into sequences, and add special pieces. The short rest is dropped."""
    room = special.room
    n_rows = sum(map(len, ids)) // room
    rows = np.empty((n_rows, n_pieces), dtype=np.int32)
    row_kinds = np.full((n_rows, n_pieces), SPECIAL, dtype=np.uint8)
    first, last = len(special.prefix), len(special.prefix) + room
    rows[:, :first], rows[:, last:] = special.prefix, special.suffix
    if n_rows:
        rows[:, first:last] = np.concatenate(ids)[: n_rows * room].reshape(n_rows, room)
        row_kinds[:, first:last] = np.concatenate(kinds)[: n_rows * room].reshape(n_rows, room)
        # The second part of a cut word counts as a new word.
        row_kinds[:, first][row_kinds[:, first] == CONTINUES] = BEGINS
    return Sequences(rows, row_kinds)


def _tokenize(texts: Iterable[str], tokenizer: Any) -> Iterator[list[tuple[Ids, Kinds]]]:
    """Yield the ids and kinds of pieces, for some documents at a time."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    # Special tokens that occur in the text are plain text.
    backend.encode_special_tokens = True
    special = np.array(sorted(tokenizer.all_special_ids), dtype=np.int32)
    for batch in _batches(texts):
        encoded = backend.encode_batch(batch, add_special_tokens=False)
        documents = []
        for text, encoding in zip(batch, encoded, strict=True):
            ids = np.array(encoding.ids, dtype=np.int32)
            kinds = np.where(word_starts(encoding, text), BEGINS, CONTINUES).astype(np.uint8)
            # Unknown pieces are not masked.
            kinds[np.isin(ids, special)] = SPECIAL
            documents.append((ids, kinds))
        yield documents


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    n_characters = 0
    for text in texts:
        batch.append(text)
        n_characters += len(text)
        if len(batch) == _N_DOCUMENTS or n_characters > _N_CHARACTERS:
            yield batch
            batch, n_characters = [], 0
    if batch:
        yield batch


def word_starts(encoding: Encoding, text: str) -> NDArray[np.bool_]:
    """Return a mask of the pieces that begin a word.

    Words are those of the tokenizer. If it does not split text into words, whitespace separates them.
    """
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    starts = np.ones(len(words), dtype=np.bool_)
    starts[1:] = words[1:] != words[:-1]
    if len(words) < 2 or starts.sum() > 1:
        return starts
    for i, ((before, end), (start, _)) in enumerate(zip(encoding.offsets, encoding.offsets[1:], strict=False), 1):
        if start > before and start < len(text):
            after_space = text[start - 1].isspace() and not text[before:end].isspace()
            starts[i] = text[start].isspace() or after_space
    return starts
