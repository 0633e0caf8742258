"""The output folder of labelled text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError
from cascade_srn.runs.folder import OutputFolder, remove
from cascade_srn.training.labelled.shards import FORMAT_VERSION, RECORD, ShardFiles, read_record


class LabelFolder(OutputFolder):
    """A folder of labels, identified by its ``labels.json``, which is written first and again at the end.

    A shard is either complete or missing, so labelling can be killed at any moment.
    """

    marker = RECORD
    finished_by = ()
    kind = "labelled text"

    def record(self) -> dict[str, Any]:
        """Read ``labels.json``."""
        return read_record(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether all shards are written."""
        return self.is_begun and bool(self.record().get("finished"))

    def is_own(self, member: Path) -> bool:
        """Return whether a file belongs to the labels."""
        return ShardFiles.is_shard_file(member) or self.is_temporary(member)

    def is_whole(self) -> bool:
        """Return whether all shards are there and match their checksums. All of them are read."""
        if not self.is_finished:
            return False
        known = self.record().get("shards", [])
        shards = [ShardFiles.of(self.path, number) for number in range(len(known))]
        # Look for missing files before any file is read.
        return all(files.is_there for files in shards) and [files.compute_checksums() for files in shards] == known

    def refuse_other(self, made_with: Mapping[str, Any]) -> None:
        """Refuse labels that were made with other teachers, text, held-out data or settings."""
        before = self.record()["made_with"]
        for key, new in made_with.items():
            if before.get(key) != new:
                raise ConfigError(
                    f"the labels in {str(self.path)!r} were made with other {_NAMES.get(key, key)}",
                    "Use them unchanged as data.labels of a recipe, overwrite them, or choose another output folder",
                    option="overwrite",
                )

    def begin(self, made_with: Mapping[str, Any], described: Mapping[str, Any], *, overwrite: bool) -> None:
        """Prepare the folder. Complete shards stay, unless they are overwritten."""
        if overwrite and self.is_begun:
            # If the process is killed from here on, the folder can neither be used nor resumed.
            self._write({"made_with": {}, "finished": False})
        self.prepare(overwrite=overwrite)
        self._write({"made_with": dict(made_with), **described, "finished": False})

    def finish(self, n_shards: int, described: Mapping[str, Any]) -> None:
        """Record that all shards are written, with their checksums."""
        shards = [ShardFiles.of(self.path, number) for number in range(n_shards)]
        before = {key: value for key, value in self.record().items() if key != "format_version"}
        recorded = [files.checksums() for files in shards]
        self._write({**before, **described, "finished": True, "shards": recorded})
        self.clean_up()

    def clean_up(self) -> None:
        """Remove checksum files and temporary files from a finished folder. A kill at the end can leave some."""
        with self.writing():
            for number in range(len(self.record().get("shards", []))):
                ShardFiles.of(self.path, number).sums.unlink(missing_ok=True)
            for member in self.path.iterdir():
                if self.is_temporary(member):
                    remove(member)

    def _write(self, values: Mapping[str, Any]) -> None:
        self.write_json(RECORD, {"format_version": FORMAT_VERSION, **values})


_NAMES = {"texts": "text", "holdout": "held-out data"}
