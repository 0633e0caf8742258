"""Raw text, file by file and document by document: plain or JSON lines, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cascade_srn.data.formats.base import strictly
from cascade_srn.data.formats.files import BYTE_ORDER_MARK, decoded, json_record, opened
from cascade_srn.data.reports import Place
from cascade_srn.errors import DataError, did_you_mean

TEXT, RECORDS = ".txt", ".jsonl"
_COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ENDINGS = tuple(kind + packed for kind in (TEXT, RECORDS) for packed in ("", *_COMPRESSED))

# Characters after which a paragraph ends with its line, so that a file without blank lines is not read as one.
_LONG_PARAGRAPH = 1 << 20


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files of text that are named, and those in the folders that are, in their order; each once."""
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        if not os.path.exists(path):
            raise DataError(
                f"{path} does not exist, but a file or folder with text was expected there; check the path and the "
                "working folder"
            )
        members = _in_folder(path) if path.is_dir() else [path]
        for member in members:
            if not member.name.lower().endswith(ENDINGS):
                raise DataError(
                    f"{member} has an ending that is not known here; text is read from files that end in "
                    f"{', '.join(ENDINGS)}"
                )
            found.setdefault(os.path.realpath(member), member)
    return list(found.values())


def _in_folder(folder: Path) -> list[Path]:
    members = [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith(ENDINGS)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not members:
        raise DataError(f"the folder {folder} holds no text; files that end in {', '.join(ENDINGS)} were expected")
    return members


def read_texts(paths: Sequence[Path], *, field: str = "text") -> Iterator[str]:
    """The documents of files as :func:`find_files` finds them: paragraphs of plain text, one record a JSON line."""
    for path in paths:
        plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
        yield from _paragraphs(path) if plain.suffix.lower() == TEXT else _records(path, field)


def _paragraphs(path: Path) -> Iterator[str]:
    """What stands between blank lines."""
    lines: list[str] = []
    size = 0
    for line, place in _lines(path):
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
    for line, place in _lines(path):
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


def _lines(path: Path) -> Iterator[tuple[bytes, Place]]:
    """All lines with their places; what is wrong with the file is said with the line it was found after."""
    number = 0
    try:
        with _uncompressed(path) as handle:
            for number, line in enumerate(handle, 1):
                yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line, Place(str(path), f"line {number}")
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(
            f"{path}: the file cannot be read on after line {number} ({error}); check that it is whole, and compressed "
            "as its ending says"
        ) from error


@contextmanager
def _uncompressed(path: Path) -> Iterator[IO[bytes]]:
    with opened(path) as handle:
        unpack = _COMPRESSED.get(path.suffix.lower())
        if unpack is None:
            yield handle
        else:
            with unpack(handle, "rb") as unpacked:
                yield unpacked
