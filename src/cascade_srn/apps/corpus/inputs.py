"""Find the files of a corpus, count their rows with a checksum in one pass, and read the rows of a shard."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.apps.corpus.shards import InputFile, InputRow, InputSettings, Shard
from cascade_srn.errors import DataError
from cascade_srn.inputs.fields import (
    DEFAULT_ID,
    BadValueError,
    check_columns,
    convert,
    read_id,
    read_text,
    suggest_field,
)
from cascade_srn.inputs.find import (
    FORMATS,
    RECORD_FORMATS,
    find_files,
    is_remote,
    names_below,
    real_address,
    split_suffixes,
)
from cascade_srn.inputs.open import OpenFile, RawFile, file_version
from cascade_srn.inputs.records import JsonLines, LineRecords, Records
from cascade_srn.inputs.tables import PARQUET_MAGIC, ParquetRows, open_records, read_records
from cascade_srn.storage.files import encodable_names

if TYPE_CHECKING:
    import pyarrow


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


# Types of Arrow that values of JSON lines and CSV can be converted to.
_ARROW_NAMES = {"string": "string", "large_string": "string", "int64": "int64", "double": "float64", "bool": "bool"}
# Remote files are counted at the same time, because most of the time is spent waiting.
_REMOTE_THREADS = 8


class InputChangedError(DataError):
    """A file changed after the shards were planned, so that its rows can no longer be trusted."""


def find_input_files(
    addresses: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    settings: InputSettings | None = None,
    *,
    skip: str | None = None,
    root: str | None = None,
) -> tuple[InputFile, ...]:
    """Find the files of paths, folders, patterns and fsspec addresses, count their rows and compute their checksums.

    Each file is read once. With a limit, files are counted until there are enough rows.

    Args:
        addresses: Files, folders, which are searched with their subfolders, or patterns.
        settings: What will be read.
        skip: Folder whose files are no input, such as the output.
        root: Folder below which files are named. None: the one that all files share.

    Returns:
        The files, sorted by address, without repeats.

    Example:
        >>> from cascade_srn.apps.corpus.shards import plan_shards
        >>> settings = InputSettings(field="abstract", keep=("year:int64",))
        >>> files = find_input_files(["papers/*.jsonl.gz", "s3://bucket/folder"], settings)  # doctest: +SKIP
        >>> shards = plan_shards(files, settings)  # doctest: +SKIP
    """
    settings = settings or InputSettings()
    given = [addresses] if isinstance(addresses, str | os.PathLike) else list(addresses)
    formats = (*RECORD_FORMATS, "markup") if settings.format is None else None
    skipped = None if skip is None else f"{real_address(skip).rstrip('/')}/"
    files: dict[str, str] = {}
    for address in given:
        for file in find_files(os.fspath(address), formats, hidden=(".", "_")):
            if skipped is None or not f"{real_address(file)}/".startswith(skipped):
                files.setdefault(real_address(file), file if is_remote(file) else os.path.abspath(file))
    found = sorted(files.values())
    if not found:
        raise DataError("there is no input", "Give at least one file, folder or pattern")
    names = names_below(found) if root is None else [os.path.relpath(file, root).replace(os.sep, "/") for file in found]
    counted = _count_files(found, encodable_names(names), settings)
    if not any(one.file.n_rows for one in counted):
        where = f"{found[0]} contains" if len(found) == 1 else f"the {len(found)} input files contain"
        raise DataError(f"{where} no record", "Check the input")
    _check_fields(counted, settings)
    _check_types(counted, settings)
    return tuple(one.file for one in counted)


def _count_files(addresses: list[str], names: list[str], settings: InputSettings) -> list[CountedFile]:
    counted: list[CountedFile] = []
    if settings.limit is None and any(map(is_remote, addresses)):
        with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
            futures = [pool.submit(count_file, *one, settings) for one in zip(addresses, names, strict=True)]
            try:
                return [future.result() for future in futures]
            finally:
                pool.shutdown(cancel_futures=True)
    n_rows = 0
    for address, name in zip(addresses, names, strict=True):
        counted.append(count_file(address, name, settings))
        n_rows += counted[-1].file.n_rows
        if settings.limit is not None and n_rows >= settings.limit:
            break
    return counted


def _check_fields(counted: Sequence[CountedFile], settings: InputSettings) -> None:
    """Raise a DataError if no record of the whole input has one of the fields. Some record has to be readable."""
    with_fields = [one for one in counted if one.file.format != "text" and one.file.n_rows]
    if with_fields and not any(one.seen for one in with_fields):
        return
    for name in settings.names:
        if not any(name in one.found for one in counted):
            option = "field" if name == settings.field else "id_field" if name == settings.id_field else "keep"
            seen = {key for one in counted for key in one.seen}
            raise DataError(f"no record of the input has the field {name!r}", suggest_field(name, seen), option=option)


def _check_types(counted: Sequence[CountedFile], settings: InputSettings) -> None:
    """Raise a DataError if the files disagree about the type of a column to keep."""
    for name in [name for name, declared in settings.kept.items() if declared is None]:
        types: dict[str, str] = {}
        for one in counted:
            kind = str(one.types.get(name, "null"))
            if kind != "null":
                types.setdefault(kind, one.file.address)
        untyped = next((one.file.address for one in counted if name in one.found and not one.types), None)
        if untyped is not None and types and not set(types) <= set(_ARROW_NAMES):
            types.setdefault("none", untyped)
        if len(types) > 1:
            (kind, first), (other, second) = list(types.items())[:2]
            raise DataError(
                f"the column {name!r} has the type {kind} in {first}, but {other} in {second}",
                f"Give its type, such as {name}:string",
                option="keep",
            )


def kept_types(files: Sequence[InputFile], settings: InputSettings) -> "dict[str, pyarrow.DataType]":
    """Return the Arrow types of the columns to keep: the declared one, that of a Parquet file, or string."""
    import pyarrow as pa

    known = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    found = {name: known[kind] for name, kind in settings.kept.items() if kind is not None}
    open_names = [name for name in settings.kept if name not in found]
    for file in files:
        missing = [name for name in open_names if name not in found]
        if missing and file.format == "parquet":
            records = open_records(file.address, file.format, settings.columns)
            assert isinstance(records, ParquetRows)
            found |= {name: records.types[name] for name in missing if str(records.types.get(name, "null")) != "null"}
            records.close()
    return {name: found.get(name, pa.string()) for name in settings.kept}


class RowReader:
    """Reads the rows of shards.

    A file stays open after a shard, so that the next shard of the file continues where the last one ended. A
    compressed file is then decompressed once rather than from its start for each shard.
    """

    def __init__(self, files: Sequence[InputFile], settings: InputSettings) -> None:
        self._files = files
        self._settings = settings
        self._types = _value_types(files, settings)
        self._records: Records | None = None
        self._position = -1

    def read(self, shard: Shard) -> Iterator[InputRow]:
        """Yield the rows of a shard, in order. A record that cannot be read is a row with a problem.

        Ids may repeat, but id and row together are unique in a shard. Where small files share a shard and the same id
        is in the same row of two of them, the second id gets the name of its file.

        Raises:
            InputChangedError: A file changed since it was counted.
            DataError: A file cannot be read.
        """
        seen: set[tuple[str, int]] = set()
        for row in self._read_parts(shard):
            if len(shard.parts) > 1:
                while (row.id, row.row) in seen:
                    row = replace(row, id=f"{row.input}:{row.id}")
                seen.add((row.id, row.row))
            yield row

    def _read_parts(self, shard: Shard) -> Iterator[InputRow]:
        for position, first, stop in shard.parts:
            file = self._files[position]
            records = self._open(position, first)
            is_text = file.format == "text"
            types = self._settings.kept if file.format == "parquet" else self._types
            for row in range(first, stop):
                record = records.read()
                if record is None:
                    raise self._changed(file)
                default_id = file.name if is_text else f"{file.name}:{row}"
                try:
                    values = records.parse(record)
                except BadValueError as error:
                    yield InputRow(default_id, file.name, row, None, problem=f"{record.place}{error.problem}")
                    continue
                empty = InputRow(default_id, file.name, row, None)
                yield self._make_row(values, types, empty, record.place)

    def _make_row(
        self, values: Mapping[str, Any], types: Mapping[str, str | None], empty: InputRow, place: str
    ) -> InputRow:
        """Return the row of a record; a row with a problem if a value cannot be used."""
        id = empty.id
        try:
            id = read_id(values.get(self._settings.id_field or DEFAULT_ID)) or id
            text = read_text(values, self._settings.field)
            kept = {name: convert(values.get(name), kind, name) for name, kind in types.items()}
        except BadValueError as error:
            return replace(empty, id=id, problem=f"{place}{error.problem}")
        return replace(empty, id=id, text=text, kept=kept)

    def _open(self, position: int, row: int) -> Records:
        """Return the records of a file from a row on, and continue in the open file if possible."""
        file = self._files[position]
        if file.version and file_version(file.address) != file.version:
            raise self._changed(file)
        if self._position != position or self._records is None or self._records.row > row:
            self.close()
            columns, encoding = self._settings.columns, self._settings.encoding
            self._records = open_records(file.address, file.format, columns, encoding=encoding)
            self._position = position
        self._records.skip_to(row, file.blocks)
        if self._records.row != row:
            raise self._changed(file)
        return self._records

    def _changed(self, file: InputFile) -> InputChangedError:
        return InputChangedError(
            f"{file.address}: the file changed after its rows were counted", "Restore it, or start the job again"
        )

    def close(self) -> None:
        """Close the open file. The reader can be used again."""
        if self._records is not None:
            self._records.close()
            self._records = None

    def __enter__(self) -> "RowReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _value_types(files: Sequence[InputFile], settings: InputSettings) -> dict[str, str | None]:
    """Return the types of kept values in JSON lines and CSV, which have to match those of Parquet files."""
    types = {name: kind or "string" for name, kind in settings.kept.items()}
    if None in settings.kept.values() and len({file.format == "parquet" for file in files}) == 2:
        found = {name: _ARROW_NAMES.get(str(kind), "string") for name, kind in kept_types(files, settings).items()}
        types |= {name: found[name] for name, kind in settings.kept.items() if kind is None}
    return dict(types)
