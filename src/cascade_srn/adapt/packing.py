"""Documents to packed sequences: pieces one document after the other, cut into rows of equal size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from cascade_srn.data import read_documents
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.errors import DataError, ModelError
from cascade_srn.text.segment import segment
from cascade_srn.types import Document


class HeldOutSentences:
    """Removes the sentences of annotated documents from raw text, and counts how many it removed.

    Sentences are compared without whitespace and case: annotated ones are often written with their words apart.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        keys = (_key("".join(sentence.words)) for document in documents for sentence in document.sentences)
        self._keys = {key for key in keys if key is not None}
        self.n_removed = 0

    @classmethod
    def read(cls, paths: Iterable[str | Path]) -> HeldOutSentences:
        """Those of files and folders in any of the formats for annotated documents."""
        return cls(document for path in paths for document in read_documents(path))

    def __len__(self) -> int:
        return len(self._keys)

    def without(self, text: str) -> str:
        """The text without these sentences."""
        spans = [(words[0][0], words[-1][1]) for words in segment(text)]
        kept = [(start, end) for start, end in spans if _key(text[start:end]) not in self._keys]
        if len(kept) == len(spans):
            return text
        self.n_removed += len(spans) - len(kept)
        return " ".join(text[start:end] for start, end in kept)


def _key(text: str) -> bytes | None:
    """A short stand-in for a sentence, the same for all ways of spacing it; None for nothing at all."""
    plain = "".join(text.split()).casefold()
    return blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest() if plain else None


# What a piece is in a row: special, the first piece of a word, a further one.
SPECIAL, BEGINS, CONTINUES = 0, 1, 2

# Of these many sequences at least must there be to learn from, and to measure on.
MIN_SEQUENCES, MIN_HELD_OUT = 64, 16
# Where whole documents would come to more than so many times what is to be held out, parts of them are held out.
_MOST_OVER = 2
# Which documents are held out is the same for every seed, so that figures of different seeds compare.
_HELD_OUT_SEED = 20_211

# What is tokenized at once.
_N_DOCUMENTS, _N_CHARACTERS = 512, 1 << 22

Ids = NDArray[np.int32]
Kinds = NDArray[np.uint8]


@dataclass(frozen=True)
class Sequences:
    """Rows of pieces, special ones at both ends and between documents. Shapes: both (n_sequences, n_pieces)."""

    ids: Ids
    kinds: Kinds

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Packed:
    """All text as sequences: those to learn from, those to measure on, and what they were made of.

    ``n_held_out_documents`` counts the documents that are held out whole; none are where the text has too few.
    """

    train: Sequences
    held_out: Sequences
    n_documents: int
    n_held_out_documents: int
    n_pieces: int

    @property
    def sha256(self) -> str:
        """Tells whether two texts became the same sequences."""
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
    """Texts as packed sequences; ``on_documents`` is told how many have been read."""
    special = WordPieces(tokenizer, limit=n_pieces)
    if tokenizer.mask_token_id is None or not len(special.suffix):
        raise ModelError(
            "the tokenizer has no piece to hide words by or none to end a text with, so that nothing can be learned "
            "from hidden words; choose an encoder that was trained on them"
        )
    ids: list[Ids] = []
    kinds: list[Kinds] = []
    sizes: list[int] = []
    for documents in _tokenized(texts, tokenizer):
        for own_ids, own_kinds in documents:
            if len(own_ids):
                ids.append(np.append(own_ids, special.suffix[-1]).astype(np.int32))
                kinds.append(np.append(own_kinds, SPECIAL).astype(np.uint8))
                sizes.append(len(own_ids))
        on_documents(len(ids))
    chosen = _held_out(np.array(sizes, dtype=np.int64), share=held_out, n_needed=MIN_HELD_OUT * n_pieces)
    if chosen is None:
        train, measured = _without_end(_rows(ids, kinds, special, n_pieces), share=held_out)
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
            f"the text has {packed.n_pieces:,} pieces in {packed.n_documents:,} documents, which is too short to help: "
            f"{len(packed.train)} sequences of {n_pieces} pieces to learn from and {len(packed.held_out)} to measure "
            f"on, where at least {MIN_SEQUENCES} and {MIN_HELD_OUT} are needed; give about {needed:,} pieces or more, "
            "or shorter sequences by --sequence-pieces"
        )


def _held_out(sizes: NDArray[np.int64], *, share: float, n_needed: int) -> NDArray[np.bool_] | None:
    """Which documents are held out: a share of them, and more where their pieces would not be enough.

    None where these documents are far more of the text than was asked for, as with a file that has no blank lines.
    """
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), n_needed)) + 1
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[: max(round(share * len(sizes)), enough)]] = True
    asked = max(share * sizes.sum(), n_needed)
    return None if sizes[chosen].sum() > _MOST_OVER * asked else chosen


def _without_end(sequences: Sequences, *, share: float) -> tuple[Sequences, Sequences]:
    """All but the last sequences, and the last ones: a share of them, and no fewer than are needed."""
    first = max(len(sequences) - max(round(share * len(sequences)), MIN_HELD_OUT), 0)
    ids, kinds = sequences.ids, sequences.kinds
    return Sequences(ids[:first], kinds[:first]), Sequences(ids[first:], kinds[first:])


def _rows(ids: list[Ids], kinds: list[Kinds], special: WordPieces, n_pieces: int) -> Sequences:
    """Pieces in a row cut into sequences, with the special pieces around each; the short rest is left out."""
    room = special.room
    n_rows = sum(map(len, ids)) // room
    rows = np.empty((n_rows, n_pieces), dtype=np.int32)
    row_kinds = np.full((n_rows, n_pieces), SPECIAL, dtype=np.uint8)
    first, last = len(special.prefix), len(special.prefix) + room
    rows[:, :first], rows[:, last:] = special.prefix, special.suffix
    if n_rows:
        rows[:, first:last] = np.concatenate(ids)[: n_rows * room].reshape(n_rows, room)
        row_kinds[:, first:last] = np.concatenate(kinds)[: n_rows * room].reshape(n_rows, room)
        # A word that was cut begins anew.
        row_kinds[:, first][row_kinds[:, first] == CONTINUES] = BEGINS
    return Sequences(rows, row_kinds)


def _tokenized(texts: Iterable[str], tokenizer: Any) -> Iterator[list[tuple[Ids, Kinds]]]:
    """The pieces of some documents at a time, and what each piece is."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    # The name of a special token in a text is text.
    backend.encode_special_tokens = True
    special = np.array(sorted(tokenizer.all_special_ids), dtype=np.int32)
    for batch in _batches(texts):
        encoded = backend.encode_batch(batch, add_special_tokens=False)
        documents = []
        for text, encoding in zip(batch, encoded, strict=True):
            ids = np.array(encoding.ids, dtype=np.int32)
            kinds = np.where(word_starts(encoding, text), BEGINS, CONTINUES).astype(np.uint8)
            # What the vocabulary does not know cannot be guessed either.
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
    """Which pieces begin a word: by the words that the tokenizer cuts text into, or, where it cuts into none, by
    the whitespace in the text."""
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
