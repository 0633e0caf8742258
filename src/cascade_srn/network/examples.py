"""Sentences with the words around them: the input of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cascade_srn.types import Document, Sentence

if TYPE_CHECKING:
    from cascade_srn.network.targets import SoftLabels


@dataclass(frozen=True, slots=True)
class Example:
    """Sentence with the words of its document before and after it, which only the encoder sees.

    Attributes:
        sentence: The sentence. With ``soft`` labels, its entities are the input of turns 2 and 3, not targets.
        weight: Weight of the sentence in the loss.
        soft: Probabilities to learn instead of the annotations.
    """

    sentence: Sentence
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    weight: float = 1.0
    soft: SoftLabels | None = None


def examples_of(documents: Iterable[Document], context_words: int = 0) -> list[Example]:
    """Return the sentences of documents with up to ``context_words`` words on each side."""
    return [
        Example(sentence, left, right)
        for document in documents
        for sentence, (left, right) in zip(
            document.sentences, contexts([s.words for s in document.sentences], context_words), strict=True
        )
    ]


def contexts(sentences: Sequence[Sequence[str]], n_words: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield up to ``n_words`` words before and after each sentence of a document."""
    words = [word for sentence in sentences for word in sentence]
    at = 0
    for sentence in sentences:
        left = words[max(0, at - n_words) : at]
        at += len(sentence)
        yield tuple(left), tuple(words[at : at + n_words])
