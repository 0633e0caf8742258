"""Output folder of a corpus job: the manifest, which describes the job, and the records of finished shards."""

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.shards import InputFile, Shard, ShardResult
from cascade_srn.apps.corpus.tables import TABLE_VERSION, TABLES
from cascade_srn.errors import DataError
from cascade_srn.model.folder import model_checksum as model_checksum
from cascade_srn.runs.folder import OutputFolder, differences, remove
from cascade_srn.runs.resources import installed_version
from cascade_srn.storage.atomic import clean_leftovers
from cascade_srn.storage.files import checksum
from cascade_srn.storage.lock import FolderLock
from cascade_srn.version import __version__

MANIFEST, RECORDS = "manifest.json", "shards"
MANIFEST_VERSION = 1
# Packages that decide the bytes of the tables.
_PACKAGES = ("torch", "transformers", "tokenizers", "pyarrow")
_FILE_FIELDS = ("name", "format", "n_rows", "n_bytes", "sha256", "address")
SCRATCH, _ARRAY = ".run-", ".array-"


@dataclass(frozen=True)
class Manifest:
    """Description of a job. Two runs with the same manifest write the same tables."""

    inputs: tuple[Mapping[str, Any], ...]  # For each file: name, format, rows, bytes, SHA-256 and address
    model: str  # Name of the folder of the model
    model_checksum: str  # Checksum of the model
    settings: Mapping[str, Any]  # Settings of the job, as plain values
    software: Mapping[str, Any]  # Versions of packages, and of the columns of the tables
    shards: tuple[Shard, ...]  # The shards
    counts: Mapping[str, int] | None = None  # Rows by table, words and sentences; None until the job is finished

    @classmethod
    def describe(
        cls, files: Sequence[InputFile], model: Path, checksum: str, settings: CorpusSettings, shards: Sequence[Shard]
    ) -> "Manifest":
        """Describe a job with the software of this process."""
        return cls(
            inputs=tuple({name: getattr(file, name) for name in _FILE_FIELDS} for file in files),
            model=model.resolve().name,
            model_checksum=checksum,
            settings=settings.to_dict(),
            software={
                "cascade-srn": __version__,
                "tables": TABLE_VERSION,
                **{name: installed_version(name) for name in _PACKAGES},
            },
            shards=tuple(shards),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows of the input."""
        return sum(shard.n_rows for shard in self.shards)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "version": MANIFEST_VERSION,
            "software": dict(self.software),
            "model": {"name": self.model, "sha256": self.model_checksum},
            "settings": dict(self.settings),
            "inputs": [dict(file) for file in self.inputs],
            "shards": [{"id": shard.id, "parts": [list(part) for part in shard.parts]} for shard in self.shards],
            "counts": None if self.counts is None else dict(self.counts),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Manifest":
        """Make a manifest from the values of :meth:`to_dict`. Damaged values raise KeyError or TypeError."""
        return cls(
            inputs=tuple({name: file[name] for name in _FILE_FIELDS} for file in values["inputs"]),
            model=values["model"]["name"],
            model_checksum=values["model"]["sha256"],
            settings=dict(values["settings"]),
            software=dict(values["software"]),
            shards=tuple(
                Shard(str(shard["id"]), tuple((int(at), int(first), int(stop)) for at, first, stop in shard["parts"]))
                for shard in values["shards"]
            ),
            counts=None if values["counts"] is None else dict(values["counts"]),
        )

    def difference(self, new: "Manifest", settings: CorpusSettings) -> str:
        """Return what is different in the job that shall be continued, in a phrase; empty if nothing is."""
        if self.model_checksum != new.model_checksum:
            return (
                f"the model is {new.model!r} with the checksum {new.model_checksum[:12]}, not {self.model!r} with "
                + (self.model_checksum[:12])
            )
        compared = settings.compared()
        old = {name: value for name, value in self.settings.items() if name in compared}
        for name, before, after in differences(old, compared):
            return f"the setting {name.removeprefix('inputs.')} is {_show(after)}, not {_show(before)}"
        for name, before, after in differences(self.software, new.software):
            return f"the version of {name} is {after}, not {before}"
        if difference := _input_difference(self.inputs, new.inputs):
            return difference
        if self.shards != new.shards:
            return "the input is cut into other shards"
        return ""


def _input_difference(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> str:
    """Compare files by name and content. They may have moved."""
    before, after = ({file["name"]: {**file, "address": ""} for file in files} for files in (old, new))
    for name, file in after.items():
        if name not in before:
            return f"the input {name} is new"
        if file != before[name]:
            return f"the input {name} has changed"
    gone = next((name for name in before if name not in after), None)
    return "" if gone is None else f"the input {gone} is missing"


def _show(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


class JobFolder(OutputFolder):
    """Output folder of a corpus job.

    A shard is done if and only if its record exists and the files match the checksums in it. The record is written
    last.
    """

    marker: ClassVar[str] = MANIFEST
    kind: ClassVar[str] = "a corpus job"

    @property
    def is_finished(self) -> bool:
        """Whether the job ran to its end."""
        return self.is_begun and self.read_manifest().counts is not None

    def read_manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            DataError: If there is none, or it is damaged or of another version.
        """
        values = self.read_json(MANIFEST)
        if values is None:
            raise DataError(f"there is no corpus job in {str(self.path)!r}", "Give the output folder of a job")
        if values.get("version") != MANIFEST_VERSION:
            raise DataError(
                f"the job in {str(self.path)!r} has the version {values.get('version')!r}, but this release reads "
                f"{MANIFEST_VERSION}",
                "Install the release that wrote it, or choose another output folder",
            )
        try:
            return Manifest.from_dict(values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged(MANIFEST, error) from error

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest atomically and durably."""
        self.write_json(MANIFEST, manifest.to_dict())

    def make_folders(self) -> None:
        """Create the folders of the tables and the records, which a killed driver may not have done."""
        with self.writing():
            for name in (RECORDS, *TABLES):
                (self.path / name).mkdir(exist_ok=True)

    def read_record(self, shard: str) -> ShardResult | None:
        """Read the record of a shard, or return None if it does not exist or is damaged."""
        try:
            record = ShardResult(**json.loads((self.path / RECORDS / f"{shard}.json").read_text(encoding="utf-8")))
            numbers = (*(record.rows[table] for table in TABLES), record.n_words, record.n_sentences)
            is_plausible = isinstance(record.sha256, dict) and all(type(number) is int for number in numbers)
            return record if is_plausible and isinstance(record.seconds, int | float) else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def finished(self, shards: Iterable[Shard], *, check: bool = False) -> Iterator[tuple[Shard, ShardResult]]:
        """Yield the shards that have a record, with their records. With ``check``, compare their files as well."""
        for shard in shards:
            record = self.read_record(shard.id)
            if record is not None and (not check or self._matches(shard, record)):
                yield shard, record

    def _matches(self, shard: Shard, record: ShardResult) -> bool:
        """Return whether the files of a shard are there and have the checksums and the counts of its record."""
        known = {**record.rows, "words": record.n_words, "sentences": record.n_sentences}
        try:
            return (
                record.shard == shard.id
                and record.rows["documents"] + record.rows["errors"] == shard.n_rows
                and bool(record.sha256)
                and all(checksum(self.path / name) == sha256 for name, sha256 in record.sha256.items())
                and known.items() >= self.count_rows(record.sha256).items()
            )
        except (OSError, ValueError, KeyError):  # a file is missing, or is no table
            return False

    def count_rows(self, names: Iterable[str]) -> dict[str, int]:
        """Return what the files of a shard have: rows by table, and for Parquet words and sentences.

        Raises:
            OSError: If a file cannot be read.
            ValueError: If a file is not a table.
        """
        counts = {}
        for name in names:
            path, table = self.path / name, name.split("/", maxsplit=1)[0]
            if path.suffix == ".jsonl":
                with path.open("rb") as lines:
                    counts[table] = sum(1 for _ in lines)
                continue
            import pyarrow.compute as pc
            import pyarrow.parquet as pq

            counts[table] = pq.read_metadata(path).num_rows
            if table == "documents":
                columns = pq.read_table(path, columns=["n_words", "sentences"])
                counts["words"] = pc.sum(columns["n_words"]).as_py() or 0
                counts["sentences"] = pc.sum(pc.list_value_length(columns["sentences"])).as_py() or 0
        return counts

    def remove_unfinished(self, shards: Iterable[Shard]) -> None:
        """Remove what killed workers left of shards, so that no reader sees their rows twice or without a record."""
        with self.writing():
            for shard in shards:
                (self.path / RECORDS / f"{shard.id}.json").unlink(missing_ok=True)
                for table in TABLES:
                    for suffix in ("parquet", "jsonl"):
                        (self.path / table / f"{shard.id}.{suffix}").unlink(missing_ok=True)

    def remove_scratch(self, array: str = "") -> None:
        """Remove the temporary files and folders of earlier drivers.

        Workers that outlive their driver write to a folder that is gone, and fail.
        """
        with self.writing():
            for member in self.members():
                if member.name.startswith(f"{SCRATCH}{array}") and self.is_temporary(member):
                    remove(member)
            clean_leftovers(self.path)

    def make_scratch(self, array: str = "") -> str:
        """Make a temporary folder for the workers of this driver, and return its name."""
        name = f"{SCRATCH}{array}{secrets.token_hex(8)}.tmp"
        with self.writing():
            (self.path / name).mkdir()
        return name

    def lock_array(self, array: str) -> FolderLock:
        """Lock the part of one task of an array."""
        with self.writing():
            return FolderLock(self.path / f"{_ARRAY}{array}.tmp")

    def refuse_array(self) -> None:
        """Refuse to go on while tasks of an array are running, and remove what killed tasks left."""
        for member in self.members():
            if member.name.startswith(_ARRAY) and member.is_dir():
                with FolderLock(member):
                    pass
                remove(member)

    def damaged(self, name: str, reason: object) -> DataError:
        """Return the error for a file of the folder that cannot be used."""
        error = super().damaged(name, reason)
        return DataError(error.problem, "Restore it from a copy, or choose another output folder", option="output")

    def clear(self, scratch: str) -> None:
        """Remove a job without finished shards: the manifest, the empty folders and the temporary folder."""
        (self.path / MANIFEST).unlink(missing_ok=True)
        for name in (RECORDS, *TABLES, scratch):
            shutil.rmtree(self.path / name, ignore_errors=True)


def record_text(result: ShardResult) -> str:
    """Return the record of a shard as JSON."""
    return json.dumps(asdict(result), indent=2) + "\n"
