"""Raw text, file by file and document by document: plain or JSON lines, compressed or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cascade_srn.data.formats.base import strictly
from cascade_srn.data.formats.files import decoded, json_record
from cascade_srn.data.text_files import ENDINGS, find_files, holds_records, lines_of
from cascade_srn.errors import DataError, did_you_mean

__all__ = ["ENDINGS", "find_files", "read_texts"]

# Characters after which a paragraph ends with its line, so that a file without blank lines is not read as one.
_LONG_PARAGRAPH = 1 << 20


def read_texts(paths: Sequence[Path], *, field: str = "text") -> Iterator[str]:
    """The documents of files as :func:`find_files` finds them: paragraphs of plain text, one record a JSON line."""
    for path in paths:
        yield from _records(path, field) if holds_records(path) else _paragraphs(path)


def _paragraphs(path: Path) -> Iterator[str]:
    """What stands between blank lines."""
    lines: list[str] = []
    size = 0
    for line, place in lines_of(path):
        text = strictly(decoded, line, place)
        if text.strip():
            lines.append(text)
            size += len(text)
        if lines and (not text.strip() or size > _LONG_PARAGRAPH):
            yield "".join(lines)
            lines, size = [], 0
    if lines:
        yield "".join(lines)


def _records(path: Path, field: str) -> Iterator[str]:
    for line, place in lines_of(path):
        if not line.strip():
            continue
        record = strictly(json_record, line, place).raw
        if not isinstance(record, dict):
            raise DataError(f"{place}: the line is no JSON object, but one with the field {field!r} was expected")
        if field not in record:
            raise DataError(
                f"{place}: the record has no field {field!r}. {did_you_mean(field, map(str, record))} Name the field "
                "that holds the text by --field"
            )
        if not isinstance(record[field], str):
            raise DataError(
                f"{place}: the field {field!r} is of type {type(record[field]).__name__}, but a text was expected; "
                "name the field that holds the text by --field"
            )
        if record[field].strip():
            yield record[field]
