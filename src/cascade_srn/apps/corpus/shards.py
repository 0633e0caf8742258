"""Inputs, shards and rows of a corpus job, and the plan that cuts the input into shards."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from cascade_srn.apps.corpus.tables import TABLES, column_names
from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.inputs.fields import DEFAULT_ID, KEPT_TYPES
from cascade_srn.inputs.find import RECORD_FORMATS
from cascade_srn.storage.files import check_encoding

MAX_DOCUMENTS = 1000
"""Largest number of documents in a shard, if none is given."""
UNIT_BYTES = 64 << 10
"""Largest size of a unit of records, if the size of shards is measured."""

_Part = tuple[int, int, int]


@dataclass(frozen=True)
class InputSettings(Settings):
    """What to read from the input, and how to cut it into shards.

    Attributes:
        field: Field or column with the text. Text files have none.
        id_field: Field with the id. Without it, ``id`` is used where records have it. A record without an id gets the
            name of its file and its row.
        keep: Fields that are carried along to the table of documents, each a name such as "title", or a name and a
            type such as "year:int64". Types are string, int64, float64 and bool. Without one, columns of Parquet keep
            their type, and others are strings.
        format: Format of all files: "jsonl", "parquet", "csv", "tsv" or "text". Guessed for each file if None.
        shard_documents: Largest number of documents in a shard. None: shards of about 30 seconds, by a measurement.
        shard_bytes: Largest size of the records of a shard, in bytes, unless a single record is larger.
        limit: Number of rows to read from the start of the input; None for all.
        encoding: Encoding of the text; None for UTF-8, or that of a byte-order mark.
    """

    field: str = "text"
    id_field: str | None = None
    keep: tuple[str, ...] = ()
    format: str | None = None
    shard_documents: int | None = None
    shard_bytes: int = 4 << 20
    limit: int | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        object.__setattr__(self, "keep", tuple(self.keep))
        if self.format is not None:
            require_choice("format", self.format, RECORD_FORMATS, option="input_format")
        if self.shard_documents is not None:
            require_range("shard_documents", self.shard_documents, 1, option="shard_documents")
        require_range("shard_bytes", self.shard_bytes, 1, option="shard_bytes")
        if self.limit is not None:
            require_range("limit", self.limit, 1, option="limit")
        taken = {name.casefold() for name in column_names("documents")}
        for name, _ in map(_split_type, self.keep):
            if name.casefold() in taken:
                # Names of columns differ only by case in DuckDB and Spark.
                raise ConfigError(
                    f"keep contains {name!r}, but the table of documents has a column with this name",
                    "Leave it out, or rename it in the input",
                    option="keep",
                )
            taken.add(name.casefold())

    @property
    def max_documents(self) -> int:
        """Largest number of documents in a shard."""
        return MAX_DOCUMENTS if self.shard_documents is None else self.shard_documents

    @property
    def unit_bytes(self) -> int:
        """Largest size of a unit of records, which is the smallest shard. See :func:`plan_shards`."""
        return self.shard_bytes if self.shard_documents is not None else min(UNIT_BYTES, self.shard_bytes)

    @property
    def kept(self) -> dict[str, str | None]:
        """Names of the fields to keep, each with its declared type or None."""
        return dict(_split_type(name) for name in self.keep)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all fields that are read, without the default of the id."""
        given = (self.field, *(() if self.id_field is None else (self.id_field,)), *self.kept)
        return tuple(dict.fromkeys(given))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all fields that are read, with the default of the id."""
        return (*self.names, *((DEFAULT_ID,) if self.id_field is None else ()))


def _split_type(name: str) -> tuple[str, str | None]:
    start, colon, kind = name.rpartition(":")
    return (start, kind) if colon and start and kind in KEPT_TYPES else (name, None)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the input.

    Files are equal if their names, formats and contents are, wherever they lie.
    """

    address: str = field(compare=False)  # Absolute path, or an fsspec address
    format: str  # "jsonl", "parquet", "csv", "tsv" or "text"
    n_rows: int  # Number of records; 1 for a text file
    n_bytes: int  # Size on disk, compressed where the file is
    sha256: str  # Checksum of the bytes on disk
    # Path below the folder that all files of the input share. It is part of ids, and written to the tables.
    name: str = ""
    # Rows that go into the same shard. For each block, and for the end of the file: the row, the offset in the
    # decompressed content and the number of lines before. Parquet counts the bytes of texts instead.
    blocks: tuple[tuple[int, int, int], ...] = ()
    # What the file system says about the version of the file, such as its time. It shows a later change.
    version: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        # A manifest in JSON has lists.
        object.__setattr__(self, "blocks", tuple((row, offset, line) for row, offset, line in self.blocks))


@dataclass(frozen=True, slots=True)
class Shard:
    """A range of rows that one worker processes and writes at once.

    A shard covers a range of one file, or ranges of several files, where files or their last ranges are small.

    Attributes:
        id: Stable name: the position in the plan, and a hash of the fingerprints and ranges, such as "00012-5f3a9c01".
        parts: For each file: its position in the list of inputs, the first row and the row after the last.
    """

    id: str
    parts: tuple[tuple[int, int, int], ...]

    @property
    def n_rows(self) -> int:
        """Number of rows of the input."""
        return _n_rows(self.parts)


@dataclass(frozen=True, slots=True)
class InputRow:
    """One record of the input."""

    id: str  # Value of the id field, or the name of the file and the row; only the name for a text file
    input: str  # Name of the file
    row: int  # Zero-based position in the file
    text: str | None  # The text; None if the record cannot be read
    kept: Mapping[str, Any] = field(default_factory=dict)  # Values of the columns that are carried along
    problem: str = ""  # Why the record cannot be read; empty if it can


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a worker wrote for a shard."""

    shard: str  # Id of the shard
    rows: Mapping[str, int]  # Number of rows by table
    sha256: Mapping[str, str]  # Checksum by file name, relative to the output folder
    n_words: int  # Number of words of the documents
    n_sentences: int  # Number of sentences of the documents
    seconds: float  # Time from reading to renaming
    attempts: int = 1  # Number of tries, this one included


class Totals:
    """Sums over the records of shards."""

    def __init__(self) -> None:
        self.n_shards = self.n_words = self.n_sentences = 0
        self.rows = dict.fromkeys(TABLES, 0)

    @property
    def n_rows(self) -> int:
        """Number of rows of the input."""
        return self.rows["documents"] + self.rows["errors"]

    def add(self, record: ShardResult) -> None:
        """Add a shard."""
        self.n_shards += 1
        self.n_words += record.n_words
        self.n_sentences += record.n_sentences
        for table in TABLES:
            self.rows[table] += record.rows[table]

    def counts(self) -> dict[str, int]:
        """Return the counts of the manifest."""
        return {**self.rows, "words": self.n_words, "sentences": self.n_sentences}


def plan_shards(files: Sequence[InputFile], settings: InputSettings, *, mixed: bool = True) -> tuple[Shard, ...]:
    """Cut the rows of all files into shards within the bounds of the settings.

    The rows stay in order. A file above the bounds is cut by the blocks that were found when it was counted. Files and
    last blocks below the bounds are packed together. The same files and settings always give the same shards.

    If the size of shards is measured, blocks are first packed into units of a fixed size. A shard has one unit, or
    several of one file or of text files. Ids of documents depend on their unit only, and so do scores, because the
    model reads one unit after the other: the tables have the same content with shards of any size.

    Args:
        files: The files.
        settings: The bounds.
        mixed: Pack all files together. Otherwise only text files, whose ids are the names of the files, so that no id
            changes because of another file in the shard.
    """
    units = _pack(_cut(files, settings.limit), settings, lambda *parts: mixed or _may_share(files, *parts))
    shards = list(_pack(units, settings, lambda *parts: _may_share(files, *parts), settings.shard_bytes))
    width = max(5, len(str(len(shards) - 1)))
    return tuple(Shard(f"{at:0{width}}-{_hash(files, parts)}", parts) for at, (parts, _) in enumerate(shards))


def unit_sizes(shard: Shard, files: Sequence[InputFile], settings: InputSettings) -> list[int]:
    """Return the number of rows of each unit of a shard."""
    blocks = (
        (((at, max(row, first), min(after, stop)),), end - start)
        for at, first, stop in shard.parts
        for (row, start, _), (after, end, _) in pairwise(files[at].blocks)
        if row < stop and after > first
    )
    return [_n_rows(parts) for parts, _ in _pack(blocks, settings, lambda *_: True)]


def _pack(
    blocks: Iterable[tuple[Sequence[_Part], int]],
    settings: InputSettings,
    may_share: Callable[[Sequence[_Part], Sequence[_Part]], bool],
    max_bytes: int | None = None,
) -> Iterator[tuple[tuple[_Part, ...], int]]:
    """Join neighbouring ranges of rows, given with their bytes, while they are within the bounds: those of a unit."""
    joined: list[_Part] = []
    n_rows = n_bytes = 0
    for parts, size in blocks:
        rows = _n_rows(parts)
        is_full = n_rows + rows > settings.max_documents or n_bytes + size > (max_bytes or settings.unit_bytes)
        if joined and (is_full or not may_share(joined, parts)):
            yield _join(joined), n_bytes
            joined, n_rows, n_bytes = [], 0, 0
        joined += parts
        n_rows, n_bytes = n_rows + rows, n_bytes + size
    if joined:
        yield _join(joined), n_bytes


def _n_rows(parts: Sequence[_Part]) -> int:
    return sum(stop - first for _, first, stop in parts)


def _may_share(files: Sequence[InputFile], parts: Sequence[_Part], following: Sequence[_Part]) -> bool:
    """Return whether all ranges are of one file, or of text files."""
    first = parts[0][0]
    return all(at == first or files[at].format == files[first].format == "text" for at, _, _ in following)


def _cut(files: Sequence[InputFile], limit: int | None) -> Iterator[tuple[tuple[_Part], int]]:
    """Yield the blocks of all files with their sizes, up to a number of rows."""
    left = sum(file.n_rows for file in files) if limit is None else limit
    for at, file in enumerate(files):
        for (first, start, _), (stop, end, _) in pairwise(file.blocks):
            rows = min(stop - first, left)
            if rows == 0:
                return
            left -= rows
            yield ((at, first, first + rows),), end - start


def _join(parts: list[_Part]) -> tuple[_Part, ...]:
    """Join parts of the same file that follow each other."""
    joined: list[_Part] = []
    for part in parts:
        if joined and joined[-1][0] == part[0]:
            joined[-1] = (part[0], joined[-1][1], part[2])
        else:
            joined.append(part)
    return tuple(joined)


def _hash(files: Sequence[InputFile], parts: tuple[_Part, ...]) -> str:
    ranges = [(files[at].sha256, files[at].name, first, stop) for at, first, stop in parts]
    return hashlib.sha256(json.dumps(ranges).encode()).hexdigest()[:8]
