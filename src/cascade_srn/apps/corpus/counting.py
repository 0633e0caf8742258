"""Count the rows of an input file and compute its checksum, in one pass."""

import tempfile
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, cast

from cascade_srn.apps.corpus.shards import InputFile, InputSettings
from cascade_srn.errors import DataError
from cascade_srn.inputs.fields import DEFAULT_ID, BadValueError, check_columns
from cascade_srn.inputs.find import FORMATS, RECORD_FORMATS, is_remote, split_suffixes
from cascade_srn.inputs.open import OpenFile, RawFile, file_version
from cascade_srn.inputs.records import JsonLines, LineRecords, Records
from cascade_srn.inputs.tables import PARQUET_MAGIC, ParquetRows, read_records

# In a folder, a file that ends in .json is more often a description of the data.
_FORMATS = {suffix: format for suffix, format in FORMATS.items() if format in RECORD_FORMATS} | {".json": "jsonl"}
_FORMATS |= {suffix: "text" for suffix, format in FORMATS.items() if format == "markup"}
_CHUNK = 1 << 20
_MAX_SEEN = 100


@dataclass
class CountedFile:
    """An input file, and what its records have."""

    file: InputFile  # The file
    found: set[str] = field(default_factory=set)  # Names of the settings that at least one record has
    seen: set[str] = field(default_factory=set)  # Names of other fields, for suggestions
    types: dict[str, Any] = field(default_factory=dict)  # Arrow types of the columns, in Parquet


class _Cutter:
    """Cuts the rows of a file into blocks within the bounds of a unit."""

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        self.blocks: list[tuple[int, int, int]] = []
        self._rows = 0
        self._bytes = 0

    def add(self, row: int, offset: int, line: int, n_bytes: int) -> None:
        """Add a row that starts at an offset, after a number of lines."""
        settings = self._settings
        full = self._rows == settings.max_documents or self._bytes + n_bytes > settings.unit_bytes
        if not self.blocks or full:
            self.blocks.append((row, offset, line))
            self._rows = self._bytes = 0
        self._rows += 1
        self._bytes += n_bytes


def count_file(address: str, name: str, settings: InputSettings) -> CountedFile:
    """Read a file once: recognise its format, count and measure its rows, and compute its checksum."""
    version = file_version(address)
    with OpenFile(address, hashed=True, encoding=settings.encoding) as file:
        format = _recognise(file, settings.format)
        if format == "parquet":
            counted, blocks = _count_parquet(file, settings)
        else:
            counted, blocks = _count_records(file, format, settings)
        file.raw.read_rest()
        if file_version(address) != version:
            raise DataError(f"{address}: the file changed while it was read", "Wait until it is complete")
        counted.file = InputFile(
            address, format, blocks[-1][0], file.raw.n_bytes, file.raw.sha256, name, tuple(blocks), version
        )
    return counted


def _recognise(file: OpenFile, format: str | None) -> str:
    """Return the format of a file by its suffix, then by its content."""
    head = file.peek()
    found = format or _FORMATS.get(split_suffixes(file.address)[0]) or _guess(file.address, head)
    is_parquet = head.startswith(PARQUET_MAGIC)
    if is_parquet != (found == "parquet") and head:
        kind = "a Parquet file" if is_parquet else "not a Parquet file"
        raise DataError(f"{file.address}: the file is {kind}", "Rename it, or name its format", option="input_format")
    if found == "parquet" and (file.compression or not head):
        problem = "is compressed as a whole" if head else "is empty"
        raise DataError(f"{file.address}: the Parquet file {problem}", "Decompress it" if head else "Write it again")
    return found


def _guess(address: str, head: bytes) -> str:
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return "jsonl"
    known = ", ".join(_FORMATS)
    raise DataError(
        f"{address}: the format of the file is not known",
        f"Name the format, or use a file that ends in {known}, compressed or not",
        option="input_format",
    )


def _count_records(
    file: OpenFile, format: str, settings: InputSettings
) -> tuple[CountedFile, list[tuple[int, int, int]]]:
    records = read_records(file, format, settings.field)
    counted = CountedFile(InputFile(file.address, format, 0, 0, ""))
    if records.columns:
        check_columns(file.address, records.columns, {settings.field: "field"}, (*settings.names, DEFAULT_ID))
        counted.found |= set(settings.names) & set(records.columns)
        counted.seen |= set(records.columns)
    elif format == "text":
        counted.found.add(settings.field)
    cutter, (offset, line) = _Cutter(settings), _position(records, 0)
    is_json, first = not isinstance(records, JsonLines), b""
    missing = set(settings.names) if not is_json else set()
    for record in records:
        after = _position(records, offset + record.n_bytes)
        # Blank lines before a record belong to it.
        cutter.add(records.row - 1, offset, line, after[0] - offset)
        offset, line = after
        first = first or (record.value if record.problem is None else b"")
        if missing or not is_json:
            try:
                values = records.parse(record)
            except BadValueError:
                continue
            is_json = True
            counted.found |= missing & values.keys()
            missing -= values.keys()
            if len(counted.seen) < _MAX_SEEN:
                counted.seen |= values.keys()
    if isinstance(records, JsonLines):
        _check_json(file.address, first.strip(), records.row, has_objects=is_json)
    return counted, [*cutter.blocks, (records.row, offset, line)]


def _position(records: Records, offset: int) -> tuple[int, int]:
    """Return the offset and the number of lines before the next record; ``offset`` if the format has no lines."""
    return (records.lines.offset, records.lines.number) if isinstance(records, LineRecords) else (offset, 0)


def _check_json(address: str, first: bytes, n_rows: int, *, has_objects: bool) -> None:
    """Refuse JSON of other kinds, and a file none of whose records looks like a JSON object."""
    if first == b"[" or (first.startswith(b"[") and not has_objects):
        raise DataError(f"{address}: the file is a JSON array", "Write one JSON object per line")
    if first == b"{" and n_rows > 1:
        raise DataError(f"{address}: the file is a JSON object of several lines", "Write one JSON object per line")
    # A single record that is cut off is a bad record rather than a file of another kind.
    if first and not first.startswith(b"{") and not has_objects:
        raise DataError(
            f"{address}: the file is not JSON lines", "Name its format, or check its content", option="input_format"
        )


def _count_parquet(file: OpenFile, settings: InputSettings) -> tuple[CountedFile, list[tuple[int, int, int]]]:
    counted = CountedFile(InputFile(file.address, "parquet", 0, 0, ""))
    with _local_copy(file) as handle:
        rows = ParquetRows(cast(BinaryIO, handle), file.address, (settings.field,))
        _check_text_column(rows, file.address, settings)
        counted.types = rows.types
        counted.seen = set(rows.types)
        counted.found = set(settings.names) & counted.seen
        cutter, offset, row = _Cutter(settings), 0, 0
        for n_bytes in rows.lengths(settings.field):
            cutter.add(row, offset, 0, n_bytes)
            row, offset = row + 1, offset + n_bytes
        rows.close()
    return counted, [*cutter.blocks, (row, offset, 0)]


def _check_text_column(rows: ParquetRows, address: str, settings: InputSettings) -> None:
    """Raise a DataError if there is no column of strings for the text."""
    import pyarrow as pa

    check_columns(address, rows.columns or (), {settings.field: "field"}, (*settings.names, DEFAULT_ID))
    kind = rows.types[settings.field]
    if kind not in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.null()):
        raise DataError(
            f"{address}: the column {settings.field!r} has the type {kind}, not a string",
            "Name the column with the text",
            option="field",
        )


def _local_copy(file: OpenFile) -> IO[bytes]:
    """Return a file that can be read at any place. A remote one is copied, so that it is fetched once."""
    if not is_remote(file.address):
        return cast(IO[bytes], RawFile(file.address, at_random=True))
    copy = tempfile.TemporaryFile()  # noqa: SIM115
    while chunk := file.content.read(_CHUNK):
        copy.write(chunk)
    copy.seek(0)
    return copy
