"""Limits of what is read from files and archives, which can be much larger than they look."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cascade_srn.errors import ConfigError, DataError

FILE_VARIABLE = "CASCADE_SRN_MAX_FILE_BYTES"
LINE_VARIABLE = "CASCADE_SRN_MAX_LINE_BYTES"
RATIO_VARIABLE = "CASCADE_SRN_MAX_COMPRESSION_RATIO"
WORDS_VARIABLE = "CASCADE_SRN_MAX_DOCUMENT_WORDS"
_DEFAULTS = {FILE_VARIABLE: 2 << 30, LINE_VARIABLE: 256 << 20, RATIO_VARIABLE: 1000, WORDS_VARIABLE: 2_000_000}
# The compression ratio is checked after this many bytes, because short files compress by any ratio.
_RATIO_CHECKED_FROM = 16 << 20
_CHARACTERS_PER_WORD = 10


@dataclass(frozen=True)
class ReadLimits:
    """Limits of what is read."""

    file_bytes: int  # Decompressed bytes of a file that is held in memory
    line_bytes: int  # Bytes of a line
    ratio: int  # Ratio of decompressed to compressed bytes, from 16 MiB on
    document_words: int  # Words of a document, and lines of its annotations. Its text may have ten characters per word.
    archive_bytes: int | None = None  # Bytes of all files of an archive. None: ``file_bytes``.
    # Bytes of one file of an archive, and of a file with compressed parts. None: ``file_bytes``.
    member_bytes: int | None = None
    members: int = 100_000  # Files of an archive
    # What to do about input that exceeds a limit. None: raise the environment variable of the limit.
    hint: str | None = None

    @property
    def document_characters(self) -> int:
        """Characters of the text of a document."""
        return _CHARACTERS_PER_WORD * self.document_words

    def exceeded(self, problem: str, advice: str, variable: str) -> DataError:
        """Return the error for input that exceeds a limit."""
        return DataError(problem, f"{advice}, or raise {variable}" if self.hint is None else self.hint)

    def check_text(self, text: str, place: object) -> None:
        """Raise an error if a text is too long for a document. Call it before the text is split into words."""
        if len(text) > self.document_characters:
            raise self.exceeded(
                f"{place}: the text has {len(text):,} characters, but a document may have {self.document_characters:,}",
                "Split it",
                WORDS_VARIABLE,
            )

    def check_words(self, n_words: int, place: object, what: str = "words") -> None:
        """Raise an error if a document has too many words, or rows of another kind, ``what``."""
        if n_words > self.document_words:
            raise self.exceeded(
                f"{place}: the document has more than {self.document_words:,} {what}", "Split it", WORDS_VARIABLE
            )

    def check_size(self, n_bytes: int, place: object) -> None:
        """Raise an error if a file of an archive, or the content of a compressed file, is too large."""
        largest = self.member_bytes or self.file_bytes
        if n_bytes > largest:
            raise self.exceeded(f"{place}: the content has more than {largest:,} bytes", "Split it", FILE_VARIABLE)

    def check_ratio(self, n_bytes: int, n_compressed: int, place: object) -> None:
        """Raise an error if decompressed bytes are too many for the compressed bytes that they come from."""
        if n_bytes > max(_RATIO_CHECKED_FROM, self.ratio * n_compressed):
            raise self.exceeded(
                f"{place}: the file expands to more than {self.ratio} times its compressed size",
                "If you trust the file, decompress it",
                RATIO_VARIABLE,
            )


_active: ContextVar[ReadLimits | None] = ContextVar("read_limits", default=None)


def read_limits() -> ReadLimits:
    """Return the limits that hold now: those of :func:`reading_within`, or else those of the environment."""
    given = _active.get()
    if given is not None:
        return given
    file, line, ratio, words = map(_read_variable, _DEFAULTS)
    return ReadLimits(file, line, ratio, words)


@contextmanager
def reading_within(limits: ReadLimits) -> Iterator[None]:
    """Apply limits to all that this thread reads within the block."""
    token = _active.set(limits)
    try:
        yield
    finally:
        _active.reset(token)


def _read_variable(variable: str) -> int:
    given = os.environ.get(variable, "").strip()
    if not given:
        return _DEFAULTS[variable]
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) > 0):
        raise ConfigError(f"{variable} is {given!r}", f"Set a positive integer, such as {_DEFAULTS[variable]}")
    return int(given)
