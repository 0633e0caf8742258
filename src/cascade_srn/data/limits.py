"""Limits on what is read into memory, so that a small compressed file cannot exhaust it."""

from __future__ import annotations

import os

from cascade_srn.errors import ConfigError

FILE_VARIABLE = "CASCADE_SRN_MAX_FILE_BYTES"
LINE_VARIABLE = "CASCADE_SRN_MAX_LINE_BYTES"
RATIO_VARIABLE = "CASCADE_SRN_MAX_COMPRESSION_RATIO"
_DEFAULTS = {FILE_VARIABLE: 2 << 30, LINE_VARIABLE: 256 << 20, RATIO_VARIABLE: 1000}

RATIO_FROM = 16 << 20
"""Bytes of uncompressed data from which the compression ratio is checked: short files compress by any ratio."""


def max_file_bytes() -> int:
    """Return the most bytes, after decompression, of a file that is held in memory as a whole."""
    return _limit(FILE_VARIABLE)


def max_line_bytes() -> int:
    """Return the most bytes of one line of a file that is read line by line."""
    return _limit(LINE_VARIABLE)


def max_compression_ratio() -> int:
    """Return how many times larger than its compressed form a file may be."""
    return _limit(RATIO_VARIABLE)


def _limit(variable: str) -> int:
    given = os.environ.get(variable, "").strip()
    if not given:
        return _DEFAULTS[variable]
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) > 0):
        raise ConfigError(f"{variable} is {given!r}; give a positive integer, such as {_DEFAULTS[variable]}")
    return int(given)
