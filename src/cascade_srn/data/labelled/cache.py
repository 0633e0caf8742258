"""Folder of labels: its settings, its state, and its integrity."""

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
from cascade_srn.storage.lock import LOCK, FolderLock

RECORD = "labels.json"
FORMAT_VERSION = 1


class LabelFolder:
    """Folder of labels with a ``labels.json``, which is written at the beginning and at the end.

    Shards are written atomically, so that labelling can be killed at any time.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def is_begun(self) -> bool:
        """Whether labelling was started in this folder."""
        return (self.path / RECORD).is_file()

    def record(self) -> dict[str, Any]:
        """Read ``labels.json``.

        Raises:
            DataError: It is missing, damaged, or of another format version.
        """
        path = self.path / RECORD
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version = record["format_version"]
        except FileNotFoundError:
            raise DataError(
                f"the folder {str(self.path)!r} has no {RECORD}", "Pass a folder of labels written by distil"
            ) from None
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            raise DataError(
                f"{str(path)!r} does not describe labels ({type(error).__name__}: {error})", "Label the text again"
            ) from error
        if version != FORMAT_VERSION:
            raise DataError(
                f"the labels in {str(self.path)!r} have format version {version}, but this release reads version "
                f"{FORMAT_VERSION}",
                "Use the release that wrote them, or label the text again",
            )
        return dict(record)

    @property
    def is_finished(self) -> bool:
        """Whether all shards are written."""
        return self.is_begun and bool(self.record().get("finished"))

    def is_whole(self) -> bool:
        """Return whether all shards are written and unchanged. All files are read."""
        if not self.is_finished:
            return False
        known = self.record().get("shards", [])
        shards = [ShardFiles.of(self.path, number) for number in range(len(known))]
        # Look for missing files before reading any.
        return all(files.is_there for files in shards) and [files.compute_checksums() for files in shards] == known

    def check(self, *, resume: bool, overwrite: bool) -> None:
        """Raise a :class:`ConfigError` if the folder must not be written to."""
        if resume and overwrite:
            raise ConfigError("resume and overwrite are both set", "Choose one of them")
        self._refuse_other_files()

    def lock(self) -> FolderLock:
        """Lock the folder. Raise a :class:`ConfigError` if it contains other files."""
        self._refuse_other_files()
        with self._writing():
            return FolderLock(self.path)

    def _refuse_other_files(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(
                f"the folder for the labels, {str(self.path)!r}, is a file", "Choose another folder", option="output"
            )
        others = [member.name for member in self._contents() if not _is_temporary(member)]
        if others and not self.is_begun:
            raise ConfigError(
                f"the folder for the labels, {str(self.path)!r}, contains other files, such as {others[0]!r}",
                "Choose another folder",
                option="output",
            )

    def refuse_other(self, made_with: Mapping[str, Any]) -> None:
        """Raise a :class:`ConfigError` if the labels were made with other inputs or settings."""
        before = self.record()["made_with"]
        for key, new in made_with.items():
            if before.get(key) != new:
                raise ConfigError(
                    f"the labels in {str(self.path)!r} were made with other {_NAMES.get(key, key)}",
                    "Train with them as data.labels of a recipe, overwrite them, or choose another folder",
                    option="overwrite",
                )

    def begin(self, made_with: Mapping[str, Any], described: Mapping[str, Any], *, overwrite: bool) -> None:
        """Prepare a folder that passed :meth:`check`. Complete shards are kept unless ``overwrite`` is set."""
        if overwrite and self.is_begun:
            # If the process is killed from here on, the folder must be neither finished nor resumable.
            self._write({"made_with": {}, "finished": False})
        with self._writing():
            for member in self._contents():
                # Other files are kept.
                if _is_temporary(member) or (overwrite and ShardFiles.is_shard_file(member)):
                    shutil.rmtree(member) if member.is_dir() and not member.is_symlink() else member.unlink()
        self._write({"made_with": dict(made_with), **described, "finished": False})

    def finish(self, n_shards: int, described: Mapping[str, Any]) -> None:
        """Record that all shards are written, and their checksums."""
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
        """Convert errors of the file system."""
        try:
            yield
        except OSError as error:
            raise CascadeError(
                f"the labels in {str(self.path)!r} cannot be written ({error.strerror})",
                "Fix that and resume, or choose another folder",
                option="resume",
            ) from error


def _is_temporary(member: Path) -> bool:
    return member.name.startswith(".") and member.name.endswith(".tmp")


_NAMES = {"teachers": "teachers", "texts": "text", "holdout": "held-out data", "settings": "settings"}
