"""Find the files of a corpus, count their rows, and read the rows of a shard."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.corpus.counting import CountedFile, count_file
from cascade_srn.apps.corpus.shards import InputFile, InputRow, InputSettings, Shard
from cascade_srn.errors import DataError
from cascade_srn.inputs.fields import DEFAULT_ID, BadValueError, convert, read_id, read_text, suggest_field
from cascade_srn.inputs.find import RECORD_FORMATS, find_files, is_remote, names_below, real_address
from cascade_srn.inputs.open import file_version
from cascade_srn.inputs.records import Records
from cascade_srn.inputs.tables import ParquetRows, open_records
from cascade_srn.storage.files import encodable_names

if TYPE_CHECKING:
    import pyarrow

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
