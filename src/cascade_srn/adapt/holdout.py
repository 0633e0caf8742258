"""Sentences that must not be learned from, because something else is to be measured on them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from cascade_srn.data import read_documents
from cascade_srn.segment import segment
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
