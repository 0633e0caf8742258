"""Find and read raw text: plain text or JSON lines, compressed or not."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, BinaryIO

from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.formats.base import read_strictly
from cascade_srn.formats.files import (
    BYTE_ORDER_MARK,
    decode_text,
    is_stream,
    number_lines,
    open_file,
    parse_json_record,
    stream_error,
)
from cascade_srn.formats.reports import Place
from cascade_srn.storage.files import PACKED, decompress, files_below, is_hidden, read_whole
from cascade_srn.storage.files import plain_name as plain_name

TEXT, RECORDS = ".txt", ".jsonl"
ENDINGS = tuple(kind + packed for kind in (TEXT, RECORDS) for packed in ("", *PACKED))
"""Suffixes of the files that text is read from."""
# A paragraph ends with its line after this many characters, so that a file without blank lines is not one document.
_LONG_PARAGRAPH = 1 << 20


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return text files and the text files in folders, in order and without repeats."""
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        if not os.path.exists(path):
            raise DataError(f"{path} does not exist", "Check the path and the working folder")
        members = find_text_files(path) if path.is_dir() else [path]
        for member in members:
            if is_stream(member):
                raise stream_error(member)
            if not is_text_file(member):
                raise DataError(f"{member} has no known suffix", f"Use files that end in {', '.join(ENDINGS)}")
            found.setdefault(os.path.realpath(member), member)
    return list(found.values())


def find_text_files(folder: Path, endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """Return the text files in a folder and its subfolders, except hidden ones. At least one must exist."""
    found = files_below(folder, lambda path: path.name.lower().endswith(endings))
    members = sorted(path for path in found if not is_hidden(path, folder))
    if not members:
        raise DataError(f"the folder {folder} contains no text", f"Use files that end in {', '.join(endings)}")
    return members


def is_text_file(path: Path) -> bool:
    """Return whether a path has a suffix that text is read from."""
    return path.name.lower().endswith(ENDINGS)


def has_records(path: Path) -> bool:
    """Return whether a file has the suffix of JSON lines."""
    return plain_name(path).suffix.lower() == RECORDS


@dataclass(frozen=True)
class TextFile:
    """Open text file with its decompressed content."""

    path: Path
    handle: IO[bytes]
    _on_disk: BinaryIO

    @property
    def position(self) -> int:
        """Number of bytes read from disk so far; 0 for a pipe."""
        return self._on_disk.tell() if self._on_disk.seekable() else 0

    def whole(self, max_bytes: int | None = None) -> bytes:
        """Return all bytes without a byte-order mark, within the size limit, or ``max_bytes`` if that is smaller."""
        return read_whole(self.path, self.handle, max_bytes).removeprefix(BYTE_ORDER_MARK)

    def lines(self) -> Iterator[tuple[bytes, Place]]:
        """Yield all lines with their places."""
        return number_lines(self.path, self.handle)


@contextmanager
def open_text(path: Path) -> Iterator[TextFile]:
    """Open a text file for reading."""
    with open_file(path) as on_disk, decompress(path, on_disk) as handle:
        yield TextFile(path, handle, on_disk)


def read_lines(path: Path) -> Iterator[tuple[bytes, Place]]:
    """Yield all lines of a text file with their places."""
    with open_text(path) as file:
        yield from file.lines()


def read_texts(paths: Sequence[Path], *, field: str = "text") -> Iterator[str]:
    """Yield the documents of files: paragraphs of plain text, and one field of each JSON line."""
    for path in paths:
        yield from _read_records(path, field) if has_records(path) else _read_paragraphs(path)


def _read_paragraphs(path: Path) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line, place in read_lines(path):
        text = read_strictly(decode_text, line, place)
        if text.strip():
            lines.append(text)
            size += len(text)
        if lines and (not text.strip() or size > _LONG_PARAGRAPH):
            yield "".join(lines)
            lines, size = [], 0
    if lines:
        yield "".join(lines)


def _read_records(path: Path, field: str) -> Iterator[str]:
    for line, place in read_lines(path):
        if not line.strip():
            continue
        record = read_strictly(parse_json_record, line, place).raw
        if not isinstance(record, dict):
            raise DataError(f"{place}: the line is not a JSON object with the field {field!r}")
        if field not in record:
            raise DataError(
                f"{place}: the record has no field {field!r}. {did_you_mean(field, map(str, record))}",
                "Name the field that contains the text",
                option="field",
            )
        if not isinstance(record[field], str):
            raise DataError(
                f"{place}: the field {field!r} is of type {type(record[field]).__name__}, but must be a string",
                "Name the field that contains the text",
                option="field",
            )
        if record[field].strip():
            yield record[field]


def sentence_key(words: Iterable[str]) -> bytes:
    """Return a hash of a sentence that ignores whitespace and case. Annotated text is often tokenized."""
    plain = "".join("".join(words).split()).casefold()
    return blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
