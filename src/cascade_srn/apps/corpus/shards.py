"""Inputs, shards and rows of a corpus job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.apps.corpus.tables import TABLES


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the input.

    Files are equal if their names, formats and contents are, wherever they lie.

    Attributes:
        address: Absolute path, or an fsspec address.
        format: "jsonl", "parquet", "csv", "tsv" or "text".
        n_rows: Number of records; 1 for a text file.
        n_bytes: Size on disk, compressed where the file is.
        sha256: Checksum of the bytes on disk.
        name: Path below the folder that all files of the input share. It is part of ids, and written to the tables.
        blocks: Rows that go into the same shard. For each block, and for the end of the file: the row, the offset in
            the decompressed content and the number of lines before. Parquet counts the bytes of texts instead.
        version: What the file system says about the version of the file, such as its time. It shows a later change.
    """

    address: str = field(compare=False)
    format: str
    n_rows: int
    n_bytes: int
    sha256: str
    name: str = ""
    blocks: tuple[tuple[int, int, int], ...] = ()
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
        return sum(stop - first for _, first, stop in self.parts)


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the input.

    Attributes:
        id: Value of the id field, or the name of the file and the row; only the name for a text file.
        input: Name of the file.
        row: Zero-based position in the file.
        text: The text; None if the record cannot be read.
        kept: Values of the columns that are carried along.
        problem: Why the record cannot be read; empty if it can.
    """

    id: str
    input: str
    row: int
    text: str | None
    kept: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What a worker wrote for a shard.

    Attributes:
        shard: Id of the shard.
        rows: Number of rows by table.
        sha256: Checksum by file name, relative to the output folder.
        n_words: Number of words of the documents.
        n_sentences: Number of sentences of the documents.
        seconds: Time from reading to renaming.
        attempts: Number of tries, this one included.
    """

    shard: str
    rows: Mapping[str, int]
    sha256: Mapping[str, str]
    n_words: int
    n_sentences: int
    seconds: float
    attempts: int = 1


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
