"""Raw text, file by file and document by document: plain or JSON lines, compressed or not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from cascade_srn.data.formats.base import strictly
from cascade_srn.data.formats.files import BYTE_ORDER_MARK, decoded, is_stream, json_record, numbered, opened, read_once
from cascade_srn.data.reports import Place
from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.storage.files import PACKED, files_below, is_hidden, plain_name, read_whole, unpacked

__all__ = [
    "ENDINGS",
    "RECORDS",
    "TEXT",
    "TextFile",
    "files_in",
    "find_files",
    "holds_records",
    "is_text_file",
    "lines_of",
    "opened_text",
    "plain_name",
]

TEXT, RECORDS = ".txt", ".jsonl"
ENDINGS = tuple(kind + packed for kind in (TEXT, RECORDS) for packed in ("", *PACKED))


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files of text that are named, and those in the folders that are, in their order; each once."""
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        if not os.path.exists(path):
            raise DataError(
                f"{path} does not exist, but a file or folder with text was expected there; check the path and the "
                "working folder"
            )
        members = files_in(path) if path.is_dir() else [path]
        for member in members:
            if is_stream(member):
                raise read_once(member)
            if not is_text_file(member):
                raise DataError(
                    f"{member} has an ending that is not known here; text is read from files that end in "
                    f"{', '.join(ENDINGS)}"
                )
            found.setdefault(os.path.realpath(member), member)
    return list(found.values())


def files_in(folder: Path) -> list[Path]:
    """The files of text in a folder and those below it, but for hidden ones; a folder without any is refused."""
    members = sorted(path for path in files_below(folder, is_text_file) if not is_hidden(path, folder))
    if not members:
        raise DataError(f"the folder {folder} holds no text; files that end in {', '.join(ENDINGS)} were expected")
    return members


def is_text_file(path: Path) -> bool:
    """Whether a path has one of the endings that text is read from."""
    return path.name.lower().endswith(ENDINGS)


def holds_records(path: Path) -> bool:
    """Whether a file holds JSON lines."""
    return plain_name(path).suffix.lower() == RECORDS


@dataclass(frozen=True)
class TextFile:
    """A file that is being read: its bytes, uncompressed, and what is read of it on the disk."""

    path: Path
    handle: IO[bytes]
    _on_disk: BinaryIO

    @property
    def position(self) -> int:
        """Bytes of the file on the disk that have been read so far; 0 for a pipe, which does not tell."""
        return self._on_disk.tell() if self._on_disk.seekable() else 0

    def whole(self) -> bytes:
        """Return all bytes, without a byte-order mark, within the limit for what is held in memory."""
        return read_whole(self.path, self.handle).removeprefix(BYTE_ORDER_MARK)

    def lines(self) -> Iterator[tuple[bytes, Place]]:
        """All lines with their places; what is wrong with the file is said with the line it was found after."""
        return numbered(self.path, self.handle)


@contextmanager
def opened_text(path: Path) -> Iterator[TextFile]:
    """A file of text opened for reading; what goes wrong becomes a :class:`DataError`."""
    with opened(path) as on_disk, unpacked(path, on_disk) as handle:
        yield TextFile(path, handle, on_disk)


def lines_of(path: Path) -> Iterator[tuple[bytes, Place]]:
    """All lines of a file with their places."""
    with opened_text(path) as file:
        yield from file.lines()


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
