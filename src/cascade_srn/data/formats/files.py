"""Files in and out: text and JSON with errors that name the line, and writing that is all or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from cascade_srn.data.atomic import AtomicFile
from cascade_srn.data.formats.base import ReadContext, Refused, strictly
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import Occurrence, Place, shown
from cascade_srn.errors import DataError
from cascade_srn.types import Document

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file opened for reading bytes; what goes wrong becomes a :class:`DataError`."""
    if path.is_dir():
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


def decoded(data: bytes, place: Place) -> str:
    """Bytes as UTF-8 text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at position {error.start}"
        message = f"{place}: the text is not UTF-8 ({found}), but UTF-8 was expected; save the file as UTF-8"
        raise Refused("not UTF-8", message, Occurrence(place, "", found)) from None


def parsed(text: str, place: Place) -> Value:
    """Text as a JSON value."""
    try:
        return Value(json.loads(text, parse_constant=_no_constant), place)
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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def numbered_lines(path: Path) -> Iterator[tuple[bytes, Place]]:
    """The lines of a file that are not blank, as bytes, with their places; a file without any is refused."""
    empty = True
    with opened(path) as handle:
        for number, line in enumerate(handle, 1):
            line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if line.strip():
                empty = False
                yield line, Place(str(path), f"line {number}")
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
    """A file that is one JSON value; being one piece, it cannot be skipped in part."""
    with opened(path) as handle:
        data = handle.read().removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise empty_file(path)
    return strictly(json_record, data, Place(str(path)))


def head_text(path: Path, n_bytes: int = 1 << 20) -> str:
    """The beginning of a file as text, for recognising its format; bytes that are not UTF-8 are replaced."""
    with opened(path) as handle:
        return handle.read(n_bytes).removeprefix(BYTE_ORDER_MARK).decode("utf-8", errors="replace")


def to_json(value: Any) -> str:
    """JSON on one line, readable in any script."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write bytes to, which replaces ``path`` when the block ends well, and else is removed."""
    file = AtomicFile(path)
    try:
        yield file.handle
        file.commit()
    except BaseException:
        file.discard()
        raise
