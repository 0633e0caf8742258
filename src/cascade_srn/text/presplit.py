"""Segmenters for text that is split already: by lines, by spaces, or by the caller.

Pass them to :meth:`Document.from_text <cascade_srn.types.Document.from_text>` or to an ``Extractor``.
"""

import re
from collections.abc import Iterator, Sequence

from cascade_srn.errors import AnnotationError
from cascade_srn.text.segment import Segmenter, segment, segment_words

Part = str | tuple[int, int]
"""A part of a text: the string itself, or its half-open character offsets."""

_SPACE = re.compile(r"\s*+")


def segment_lines(text: str) -> list[list[tuple[int, int]]]:
    """Take each non-blank line as a sentence, and split it into words as :func:`.segment` does."""
    return [words for start, end in _lines(text) if (words := _words_within(text, start, end))]


def segment_spaces(text: str) -> list[list[tuple[int, int]]]:
    """Take each non-blank line as a sentence, and split it into words at whitespace, for tokenized text."""
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
"""Segmenters by their names on the command line."""


def given_sentences(sentences: Sequence[Part]) -> Segmenter:
    """Make a segmenter for one text whose sentences are known, as strings or offsets. It splits them into words."""

    def split(text: str) -> list[list[tuple[int, int]]]:
        return [_words_within(text, *offsets) for offsets in _locate(text, sentences)]

    return split


def given_words(sentences: Sequence[Sequence[Part]]) -> Segmenter:
    """Make a segmenter for one text whose words are known.

    Args:
        sentences: The words of each sentence in the order of the text, as strings or as character offsets.

    Example:
        >>> from cascade_srn import Document
        >>> words = [["state of the art", "parsers"]]
        >>> Document.from_text("state of the art parsers", segmenter=given_words(words)).sentences[0].offsets
        ((0, 16), (17, 24))
    """

    def split(text: str) -> list[list[tuple[int, int]]]:
        offsets = iter(_locate(text, [word for sentence in sentences for word in sentence]))
        return [[next(offsets) for _ in sentence] for sentence in sentences]

    return split


def _lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line)
        at += len(line)


def _words_within(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [(start + first, start + last) for first, last in segment_words(text[start:end])]


def _locate(text: str, parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Return the offsets of parts. A string must follow the part before it, with only whitespace between the two.

    Searching further could find a word that the tokenizer changed in a later sentence.
    """
    found: list[tuple[int, int]] = []
    at = 0
    for number, part in enumerate(parts):
        if isinstance(part, str):
            start = at if part[:1].isspace() else _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if not part or not text.startswith(part, start):
                raise AnnotationError(
                    f"part {number}, {part!r}, was expected at character {start}, where the text has "
                    f"{text[start : start + max(len(part), 1)]!r}",
                    "Give the parts exactly as in the text, or as character offsets",
                )
            part = (start, start + len(part))
        found.append(part)
        at = part[1]
    return found
