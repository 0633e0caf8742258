"""Raw text to sequences of equal length, with masked words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorForLanguageModeling

from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.errors import DataError, ModelError
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.text.segment import segment
from cascade_srn.types import Document

# Kinds of pieces: special, first piece of a word, further piece of a word.
SPECIAL, BEGINS, CONTINUES = 0, 1, 2
# Least numbers of training and held-out sequences.
MIN_SEQUENCES, MIN_HELD_OUT = 64, 16
# The held-out text is the same for every seed, so that perplexities are comparable.
_HELD_OUT_SEED = 20_211
# Documents and characters that are tokenized in one call.
_N_DOCUMENTS, _N_CHARACTERS = 512, 1 << 22


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
        if not self._keys:
            return text
        spans = [(words[0][0], words[-1][1]) for words in segment(text)]
        kept = [(start, end) for start, end in spans if sentence_key([text[start:end]]) not in self._keys]
        if len(kept) == len(spans):
            return text
        self.n_removed += len(spans) - len(kept)
        return " ".join(text[start:end] for start, end in kept)


@dataclass(frozen=True)
class Sequences:
    """Rows of pieces, with special pieces at both ends and between documents.

    Shapes: ids and kinds (n_sequences, n_pieces)
    """

    ids: NDArray[np.int32]
    kinds: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Packed:
    """Training sequences and held-out sequences of a text."""

    train: Sequences
    held_out: Sequences
    n_documents: int
    n_pieces: int

    @property
    def sha256(self) -> str:
        """Checksum of the sequences."""
        parts = (self.train.ids, self.train.kinds, self.held_out.ids, self.held_out.kinds)
        return sha256(b"".join(sha256(part.tobytes()).digest() for part in parts)).hexdigest()


def pack(texts: Iterable[str], tokenizer: Any, *, n_pieces: int, held_out: float) -> Packed:
    """Pack texts into sequences. Documents are shuffled, so that the held-out ones are a random sample."""
    special = WordPieces(tokenizer, limit=n_pieces)
    if tokenizer.mask_token_id is None or not len(special.suffix):
        raise ModelError(
            "the tokenizer has no mask token or no end token",
            "Choose an encoder that was trained as a masked language model",
            option="encoder",
        )
    documents = [(ids, kinds) for ids, kinds in _tokenize(texts, tokenizer) if len(ids)]
    end = np.array([special.suffix[-1]]), np.array([SPECIAL])
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(documents))
    parts = [part for number in order for part in (documents[number], end)]
    room, first = special.room, len(special.prefix)
    n_rows = sum(len(ids) for ids, _ in parts) // room
    n_held_out = max(round(held_out * n_rows), MIN_HELD_OUT)
    total = sum(len(ids) for ids, _ in documents)
    if n_rows - n_held_out < MIN_SEQUENCES:
        raise DataError(
            f"the text is too short: {total:,} pieces in {len(documents):,} documents make {n_rows} sequences of "
            f"{n_pieces} pieces, but {MIN_SEQUENCES} for training and {n_held_out} to hold out are needed",
            f"Give about {(MIN_SEQUENCES + n_held_out) * n_pieces:,} pieces or more, or use shorter sequences",
            option="sequence_pieces",
        )
    rows = np.empty((n_rows, n_pieces), dtype=np.int32)
    row_kinds = np.full((n_rows, n_pieces), SPECIAL, dtype=np.uint8)
    rows[:, :first], rows[:, first + room :] = special.prefix, special.suffix
    # The short rest is dropped.
    for into, flat in ((rows, [ids for ids, _ in parts]), (row_kinds, [kinds for _, kinds in parts])):
        into[:, first : first + room] = np.concatenate(flat)[: n_rows * room].reshape(n_rows, room)
    # The second part of a cut word counts as a new word.
    row_kinds[:, first][row_kinds[:, first] == CONTINUES] = BEGINS
    train, measured = (
        Sequences(rows[part], row_kinds[part]) for part in (slice(-n_held_out), slice(-n_held_out, None))
    )
    return Packed(train, measured, len(documents), total)


def _tokenize(texts: Iterable[str], tokenizer: Any) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint8]]]:
    """Yield the ids and kinds of the pieces of each document."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    # Special tokens that occur in the text are plain text.
    backend.encode_special_tokens = True
    special = np.array(sorted(tokenizer.all_special_ids), dtype=np.int32)
    for batch in _batches(texts):
        for text, encoding in zip(batch, backend.encode_batch(batch, add_special_tokens=False), strict=True):
            ids = np.array(encoding.ids, dtype=np.int32)
            kinds = np.where(word_starts(encoding, text), BEGINS, CONTINUES).astype(np.uint8)
            # Unknown pieces are not masked.
            kinds[np.isin(ids, special)] = SPECIAL
            yield ids, kinds


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


class Masking(DataCollatorForLanguageModeling):
    """Masks whole words: 80 % of their pieces become the mask, 10 % a random piece, and 10 % stay."""

    def __init__(self, tokenizer: Any, share: float) -> None:
        super().__init__(
            tokenizer, whole_word_mask=True, mlm_probability=share, mask_replace_prob=1.0, random_replace_prob=0.0
        )
        # The constructor refuses these shares for whole words. They apply to the pieces of the chosen words.
        self.mask_replace_prob, self.random_replace_prob = 0.8, 0.1

    def mask(self, ids: NDArray[np.int32], kinds: NDArray[np.uint8], *, seed: Sequence[int]) -> dict[str, Tensor]:
        """Return the input and the labels of one sequence. The same seed gives the same words."""
        # A word starts where a piece does not begin at the end of the piece before it.
        ends = 2 * np.arange(1, len(kinds) + 1)
        offsets = np.stack([ends - 2 + (kinds == BEGINS), ends], axis=1)
        state = np.random.SeedSequence(seed).generate_state(1)
        self.generator = torch.Generator().manual_seed(int(state[0]))
        inputs = torch.from_numpy(ids.astype(np.int64))[None]
        shown, labels = self.torch_mask_tokens(inputs, (kinds == SPECIAL)[None], offsets[None])
        return {"input_ids": shown[0], "labels": labels[0]}


class MaskedSequences(Dataset[dict[str, Tensor]]):
    """Sequences with masked words, as many as needed: after the last one, all follow again in another order.

    Order and masks depend on the seed and the number of a sequence only, so a resumed training sees the same ones.
    """

    def __init__(self, sequences: Sequences, masking: Masking, n_sequences: int, *, seed: int) -> None:
        self.sequences, self.masking, self.seed, self.n_sequences = sequences, masking, seed, n_sequences
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self.n_sequences

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        epoch, place = divmod(number, len(self.sequences))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(len(self.sequences))
        row = self._order[place]
        return self.masking.mask(self.sequences.ids[row], self.sequences.kinds[row], seed=[self.seed, number])
