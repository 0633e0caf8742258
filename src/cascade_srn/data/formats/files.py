"""Documents of a file as something to iterate over, any number of times."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

from cascade_srn.data.alignment import Align
from cascade_srn.data.formats.base import Format, ReadContext, Refused, Segmenter, strictly
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import Occurrence, Place, ReadReport
from cascade_srn.errors import DataError, shown
from cascade_srn.storage.atomic import AtomicFile
from cascade_srn.storage.files import (
    LINE_VARIABLE,
    broken,
    broken_errors,
    max_line_bytes,
    packing,
    read_whole,
    unpacked,
)
from cascade_srn.types import Document

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BETWEEN_ITEMS = re.compile(r"\s*[\[,]\s*")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes.

    Raises:
        DataError: the path is a folder, does not exist, or cannot be read.
    """
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder, but a file was expected; give the path of a file in it")
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist, but a file was expected there; check the path and the working folder"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    with handle:
        yield handle


def is_stream(path: Path) -> bool:
    """Tell whether a path is a pipe, a socket or a device, which can be read once at most."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_once(path: Path) -> DataError:
    """Return the error for a pipe or device where the contents are needed more than once."""
    return DataError(
        f"{path} is a pipe or a device, which can be read only once; write its contents to a file, and give that"
    )


def decoded(data: bytes, place: Place) -> str:
    """Bytes as UTF-8 text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at position {error.start}"
        message = f"{place}: the text is not UTF-8 ({found}), but UTF-8 was expected; save the file as UTF-8"
        raise Refused("not UTF-8", message, Occurrence(place, "", found)) from None


class _RepeatedKey(Exception):
    """A key that stands twice in one object, of which a plain parser keeps the last."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey(next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1))
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# Made once: making a decoder costs more than looking at the keys does.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def parsed(text: str, place: Place) -> Value:
    """Text as a JSON value, in no object of which a key is repeated."""
    try:
        return Value(_DECODER.decode(text), place)
    except _RepeatedKey as repeated:
        place = place if place.where else replace(place, where=_item_with_repeat(text))
        message = (
            f"{place}: the key {shown(repeated.key)} stands more than once in one JSON object, but each key was "
            "expected once; keep one of them, or give the others other names"
        )
        raise Refused("repeated key", message, Occurrence(place, "", shown(repeated.key))) from None
    except (ValueError, RecursionError) as error:
        early = isinstance(error, json.JSONDecodeError) and (
            error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        )
        cause = "it ends too early" if early else str(error)
        message = (
            f"{place}: the text {shown(text)} is not valid JSON ({cause}), but a whole JSON value was "
            "expected there; check that the file is complete, and that JSON lines have one record a line"
        )
        raise Refused("not valid JSON", message, Occurrence(place, "", shown(text))) from None


def _item_with_repeat(text: str) -> str:
    """The line on which the item starts that has a repeated key, of a text that is one JSON array; else nothing."""
    at = _BETWEEN_ITEMS.match(text)
    while at is not None and at.end() < len(text):
        try:
            after = _DECODER.raw_decode(text, at.end())[1]
        except _RepeatedKey:
            line = text.count("\n", 0, at.end()) + 1
            return f"line {line}"
        at = _BETWEEN_ITEMS.match(text, after)
    return ""


def numbered(path: Path, handle: IO[bytes]) -> Iterator[tuple[bytes, Place]]:
    """Yield all lines of an open file with their places.

    Raises:
        DataError: the file is damaged, or a line is longer than the limit; the message names the line.
    """
    number, most = 0, max_line_bytes()
    try:
        while line := handle.readline(most + 1):
            number += 1
            if len(line) > most:
                raise DataError(
                    f"{path}, line {number}: the line is longer than {most} bytes; check that the file has one record "
                    f"a line, or raise {LINE_VARIABLE}"
                )
            bare = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            yield bare, Place(str(path), f"line {number}")
    except broken_errors() as error:
        raise broken(path, error, after=f"line {number}") from error


def numbered_lines(path: Path) -> Iterator[tuple[bytes, Place]]:
    """The lines of a file that are not blank, as bytes, with their places; a file without any is refused."""
    empty = True
    with opened(path) as on_disk, unpacked(path, on_disk) as handle:
        for line, place in numbered(path, handle):
            if line.strip():
                empty = False
                yield line, place
    if empty:
        raise empty_file(path)


def empty_file(path: Path) -> DataError:
    """The error for a file in which nothing stands."""
    return DataError(f"{path} is empty, but at least one document was expected; check how it was made")


def json_lines(path: Path, context: ReadContext, read: Callable[[Value, ReadContext], Document]) -> Iterator[Document]:
    """The documents of a file that has one a line, as ``read`` makes them of a line's JSON value."""
    for line, place in numbered_lines(path):
        record = context.attempt("document", json_record, line, place)
        document = None if record is None else context.attempt("document", read, record, context)
        if document is not None:
            yield document


def json_record(line: bytes, place: Place) -> Value:
    """One line as a JSON value."""
    return parsed(decoded(line, place), place)


def whole_json(path: Path) -> Value:
    """Return the JSON value that a file consists of; being one piece, it cannot be skipped in part."""
    data = whole_bytes(path).removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise empty_file(path)
    return strictly(json_record, data, Place(str(path)))


def head_text(path: Path, n_bytes: int = 1 << 20) -> str:
    """Return the beginning of a file as text, for recognising its format; bytes that are not UTF-8 are replaced."""
    with opened(path) as on_disk, unpacked(path, on_disk) as handle:
        try:
            head = handle.read(n_bytes)
        except broken_errors() as error:
            raise broken(path, error) from error
    return head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", errors="replace")


def whole_bytes(path: Path) -> bytes:
    """Return all bytes of a file, decompressed, within the limit for what is held in memory."""
    with opened(path) as on_disk, unpacked(path, on_disk) as handle:
        return read_whole(path, handle)


def stored_json(path: Path, hint: str) -> Any:
    """Return the JSON value of a small file that the package wrote itself; ``hint`` says what to do if it is damaged.

    Raises:
        DataError: the file cannot be read, or is not valid JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); {hint}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); {hint}") from error


def to_json(value: Any) -> str:
    """JSON on one line, readable in any script."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, which replaces ``path`` if the block ends without an error, and else is removed."""
    file = AtomicFile(path)
    try:
        yield file.handle
        file.commit()
    except OSError as error:
        file.discard()
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = str(path)  # a full disk is reported without a path
        raise
    except BaseException:
        file.discard()
        raise


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """As :func:`replacing`, and what is written is compressed where the ending of ``path`` says so."""
    with replacing(path) as on_disk, packing(path, on_disk) as handle:
        yield handle


class DocumentStream:
    """The documents of a path, read while they are iterated over.

    Each iteration opens the path anew and starts a fresh :attr:`report`,
    which is complete when the iteration is.
    """

    def __init__(self, path: Path, format: Format, *, strict: bool, align: Align, segmenter: Segmenter | None) -> None:
        self.path = path
        self.format = format.name
        self.report = ReadReport()
        self._format = format
        self._strict = strict
        self._align: Align = align
        self._segmenter = segmenter
        self._started = False

    def __iter__(self) -> Iterator[Document]:
        if self._started and is_stream(self.path):
            # A second pass over a pipe would wait forever, or find nothing.
            raise read_once(self.path)
        self._started = True
        self.report = ReadReport()
        return self._documents(ReadContext(self._strict, self._align, self._segmenter, self.report))

    def _documents(self, context: ReadContext) -> Iterator[Document]:
        for document in self._format.read(self.path, context):
            context.report.count(document)
            yield document

    def __repr__(self) -> str:
        return (
            f"DocumentStream({str(self.path)!r}, format={self.format!r}, strict={self._strict}, "
            f"align={self._align!r}): iterate to read, then see .report"
        )
