"""Settings of a corpus job, and all that a worker needs to know about it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.corpus.shards import InputFile, InputSettings
from cascade_srn.config import CONSTRAINTS, check_overlaps, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.inference.options import PrecisionLike, ThresholdsLike, parse_precision

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("parquet", "jsonl")
# Settings that decide about memory and when to give up. What is written differs at most in the last digits of scores.
_NOT_COMPARED = ("batch_words", "max_attempts", "max_error_share")


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of a corpus job.

    Attributes:
        inputs: Which fields of the input are read, and the size of shards.
        format: "parquet", or "jsonl" for one document per line in the JSON lines of this package.
        thresholds: Minimum scores. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        constraints: Whether to apply the constraints of the schema. See :class:`.Extractor`.
        skip: Parts of the texts to leave out: "references", "code", "tables".
        batch_words: Maximum number of words per batch, padding included. None: as :meth:`.Extractor.stream` chooses.
        device: "auto", "cpu", "cuda" or "cuda:N". "auto" and "cuda" use all GPUs.
        precision: Levels of precision to promise, or the number format of the encoder. See :class:`.Extractor`.
        threads: CPU threads of each worker. None: the cores divided by the workers. With bf16 on a CPU, the number of
            threads can change scores in the fourth decimal. With float32 it does not.
        max_attempts: How often a shard is tried before its documents are written to ``errors``, and how many workers in
            a row may fail to start before the job stops.
        max_error_share: Stop if more than this share of the documents is in ``errors``, once there are 100 documents.
        store_text: Write the texts to the table ``documents``.
    """

    inputs: InputSettings = field(default_factory=InputSettings)
    format: str = "parquet"
    thresholds: ThresholdsLike | None = None
    overlaps: str | None = None
    constraints: str | None = None
    skip: tuple[str, ...] = ()
    batch_words: int | None = None
    device: str = "auto"
    precision: PrecisionLike = "auto"
    threads: int | None = None
    max_attempts: int = 3
    max_error_share: float | None = None
    store_text: bool = True

    def __post_init__(self) -> None:
        require_choice("format", self.format, FORMATS, option="format")
        check_overlaps(self.overlaps)
        parse_precision(self.precision)
        if self.constraints is not None:
            require_choice("constraints", self.constraints, CONSTRAINTS, option="constraints")
        if self.batch_words is not None:
            require_range("batch_words", self.batch_words, 1, option="batch_words")
        require_range("max_attempts", self.max_attempts, 1)
        if self.threads is not None:
            require_range("threads", self.threads, 1)
        if self.max_error_share is not None:
            require_range("max_error_share", self.max_error_share, 0, 1)
        if not self.store_text and self.format == "jsonl":
            raise ConfigError(
                "JSON lines contain the text of each document", "Write Parquet, or store the text", option="format"
            )
        object.__setattr__(self, "skip", tuple(self.skip))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON holds them."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    def compared(self) -> dict[str, Any]:
        """Return the settings that must not change when a job is resumed."""
        return {name: value for name, value in self.to_dict().items() if name not in _NOT_COMPARED}


@dataclass(frozen=True)
class JobSpec:
    """All that a worker needs. It can be pickled."""

    output: str  # Absolute path of the output folder
    # Name of the folder inside the output folder in which shards are written before they are renamed. It belongs to one
    # driver. The next driver removes it first, so that a worker that outlives its driver can no longer change the
    # output.
    scratch: str
    model: str  # Folder of the model
    model_checksum: str  # Checksum of the model. A worker refuses another model.
    files: tuple[InputFile, ...]  # Files of the input
    settings: CorpusSettings  # Settings of the job
    # Arrow types of the columns that are carried along
    kept: Mapping[str, "pyarrow.DataType"] = field(default_factory=dict)

    @property
    def output_path(self) -> Path:
        """The output folder."""
        return Path(self.output)

    @property
    def scratch_path(self) -> Path:
        """Folder for shards that are not complete."""
        return Path(self.output, self.scratch)
