"""Texts that are split already: by lines, by spaces, or into sentences and words that a caller gives.

Everything here is a segmenter, or makes one, for ``Document.from_text`` and for an ``Extractor``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cascade_srn.errors import AnnotationError
from cascade_srn.text.segment import Segmenter, segment, segment_words

Part = str | tuple[int, int]
"""A piece of a text: the string itself, or its half-open character offsets."""

_SPACE = re.compile(r"\s*+")


def segment_lines(text: str) -> list[list[tuple[int, int]]]:
    """Every line that is not blank is one sentence; words are split by :func:`.segment`."""
    return [words for start, end in _lines(text) if (words := _words_within(text, start, end))]


def segment_spaces(text: str) -> list[list[tuple[int, int]]]:
    """For text that is tokenized: every line is one sentence, and words are what stands between white space."""
    sentences = []
    for start, end in _lines(text):
        words, at = [], start
        for word in text[start:end].split():
            at = text.index(word, at)
            words.append((at, at + len(word)))
            at += len(word)
        if words:
            sentences.append(words)
    return sentences


SEGMENTERS: dict[str, Segmenter] = {"rules": segment, "lines": segment_lines, "spaces": segment_spaces}
"""Segmenters by the names they have on the command line."""


def given_sentences(sentences: Sequence[Part]) -> Segmenter:
    """The segmenter of a text whose sentences are known, in their order; only words are left to cut."""

    def split(text: str) -> list[list[tuple[int, int]]]:
        return [_words_within(text, *place) for place in _places(text, sentences)]

    return split


def given_words(sentences: Sequence[Sequence[Part]]) -> Segmenter:
    """The segmenter of a text whose words are known, sentence by sentence, in their order."""

    def split(text: str) -> list[list[tuple[int, int]]]:
        places = iter(_places(text, [word for sentence in sentences for word in sentence]))
        return [[next(places) for _ in sentence] for sentence in sentences]

    return split


def _lines(text: str) -> Iterable[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line)
        at += len(line)


def _words_within(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [(start + first, start + last) for first, last in segment_words(text[start:end])]


def _places(text: str, pieces: Sequence[Part]) -> list[tuple[int, int]]:
    """Where pieces stand in a text, each looked for after the one before it; with nothing skipped but white space.

    A string may be found further on only where white space parts it from the piece before: a word that a tokenizer
    changed is an error, and not found in some later sentence.
    """
    places: list[tuple[int, int]] = []
    at = 0
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            start = at if piece[:1].isspace() else _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if not piece or not text.startswith(piece, start):
                raise AnnotationError(
                    f"piece {number}, {piece!r}, was expected at character {start}, where the text has "
                    f"{text[start : start + max(len(piece), 1)]!r}; give the pieces as they stand in the text, or "
                    "their character offsets"
                )
            piece = (start, start + len(piece))
        places.append(piece)
        at = piece[1]
    return places
