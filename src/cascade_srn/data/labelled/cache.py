"""The folder of labels: what it was made with, how far it is, and whether it is still what was written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cascade_srn.data.formats.files import replacing
from cascade_srn.data.labelled.shards import ShardFiles
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.storage.files import checksum
from cascade_srn.storage.lock import LOCK, FolderLock

RECORD = "labels.json"
FORMAT_VERSION = 1


class LabelFolder:
    """A folder of labels, known by its ``labels.json``, which is written first, and again at the end.

    Shards are whole or not there, so that labelling can be killed at any moment.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def is_begun(self) -> bool:
        """Whether labelling was begun here."""
        return (self.path / RECORD).is_file()

    def record(self) -> dict[str, Any]:
        """What the folder says of itself."""
        path = self.path / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version = record["format_version"]
        except FileNotFoundError:
            raise DataError(
                f"there are no labels in {str(self.path)!r}: {RECORD} is missing; give a folder that cascade-srn "
                "distil wrote labels to"
            ) from None
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            raise DataError(
                f"{str(path)!r} does not describe labels ({type(error).__name__}: {error}); label the text again"
            ) from error
        if version != FORMAT_VERSION:
            raise DataError(
                f"the labels in {str(self.path)!r} have format version {version}, and this release reads "
                f"{FORMAT_VERSION}; use the release that wrote them, or label the text again"
            )
        return dict(record)

    @property
    def is_finished(self) -> bool:
        """Whether all shards are there."""
        return self.is_begun and bool(self.record().get("finished"))

    def is_whole(self) -> bool:
        """Whether all shards are there and are what was written; all of them are read."""
        if not self.is_finished:
            return False
        known = self.record().get("shards", [])
        shards = [ShardFiles.of(self.path, number) for number in range(len(known))]
        # Files that are missing are seen before any is read.
        return all(files.is_there for files in shards) and [_checksums(files) for files in shards] == known

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Refuse a folder that must not be written to; nothing in it is changed."""
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite were both given; choose whether to go on or to start over")
        self._refuse_other_things()

    def lock(self) -> FolderLock:
        """Keep other processes out, before anything else is done; what must not be written to at all is refused."""
        self._refuse_other_things()
        with self._writing():
            return FolderLock(self.path)

    def _refuse_other_things(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"the labels are to go to {str(self.path)!r}, which is a file; give another --output")
        others = [member.name for member in self._contents() if not _is_temporary(member)]
        if others and not self.is_begun:
            raise ConfigError(
                f"the labels are to go to {str(self.path)!r}, which holds something else ({others[0]!r}, for one); "
                "give another --output"
            )

    def refuse_other(self, made_with: Mapping[str, Any]) -> None:
        """Labels that were made with anything else are not these."""
        before = self.record()["made_with"]
        for key, new in made_with.items():
            if before.get(key) != new:
                raise ConfigError(
                    f"the labels in {str(self.path)!r} were made with other {_NAMES.get(key, key)}; use them as they "
                    "are by data.labels in a recipe, replace them by --overwrite, or give another --output"
                )

    def begin(self, made_with: Mapping[str, Any], described: Mapping[str, Any], *, overwrite: bool) -> None:
        """Make a folder ready that passed :meth:`check`; whole shards stay, unless they are to be replaced."""
        if overwrite and self.is_begun:
            # Broken off from here on, the folder must neither say that it is finished nor be gone on with.
            self._write({"made_with": {}, "finished": False})
        with self._writing():
            for member in self._contents():
                # What others put there stays.
                if _is_temporary(member) or (overwrite and ShardFiles.are_these(member)):
                    shutil.rmtree(member) if member.is_dir() and not member.is_symlink() else member.unlink()
        self._write({"made_with": dict(made_with), **described, "finished": False})

    def finish(self, n_shards: int, described: Mapping[str, Any]) -> None:
        """Record that all shards are there, and the checksums that they were written with."""
        shards = [ShardFiles.of(self.path, number) for number in range(n_shards)]
        before = {key: value for key, value in self.record().items() if key != "format_version"}
        recorded = [files.checksums() for files in shards]
        self._write({**before, **described, "finished": True, "shards": recorded})
        with self._writing():
            for files in shards:
                files.sums.unlink(missing_ok=True)

    def _contents(self) -> list[Path]:
        members = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [member for member in members if member.name != LOCK]

    def _write(self, values: Mapping[str, Any]) -> None:
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            with replacing(self.path / RECORD) as handle:
                text = json.dumps({"format_version": FORMAT_VERSION, **values}, indent=2, ensure_ascii=False)
                handle.write(text.encode() + b"\n")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What goes wrong while writing, in one sentence."""
        try:
            yield
        except OSError as error:
            raise CascadeError(
                f"the labels in {str(self.path)!r} cannot be written ({error.strerror}); mend that and go on with "
                "--resume, or give another --output"
            ) from error


def _checksums(files: ShardFiles) -> dict[str, str]:
    return {"sentences": checksum(files.sentences), "arrays": checksum(files.arrays)}


def _is_temporary(member: Path) -> bool:
    """A file that was to become another."""
    return member.name.startswith(".") and member.name.endswith(".tmp")


_NAMES = {"teachers": "teachers", "texts": "text", "holdout": "held-out data", "settings": "settings"}
