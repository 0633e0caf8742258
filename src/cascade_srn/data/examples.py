"""Sentences as the model meets them, each with the words of its document around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cascade_srn.data.targets import SoftLabels
from cascade_srn.types import Document, Sentence


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence, and the words before and after it that only the encoder sees.

    Its loss counts ``weight`` times. With ``soft`` labels it is these that are learned, not the sentence's own
    annotations, which are then the entities that the later turns are told of.
    """

    sentence: Sentence
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    weight: float = 1.0
    soft: SoftLabels | None = None


def examples_of(documents: Iterable[Document], context_words: int = 0) -> list[Example]:
    """The sentences of the documents in order, with up to ``context_words`` words on each side."""
    found = []
    for document in documents:
        words = [word for sentence in document.sentences for word in sentence.words]
        at = 0
        for sentence in document.sentences:
            left = words[max(0, at - context_words) : at]
            at += len(sentence)
            found.append(Example(sentence, tuple(left), tuple(words[at : at + context_words])))
    return found
