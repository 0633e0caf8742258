"""The output folder of a long job: training, adaptation or labelling."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from safetensors import SafetensorError

from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.formats.files import replacing
from cascade_srn.storage.atomic import open_without_links, try_writing
from cascade_srn.storage.lock import LOCK, FolderLock

LOG, SUMMARY, LAST = "log.jsonl", "summary.json", "last"


class OutputFolder:
    """Base class of the folders that jobs write to.

    A job can be killed at any moment. Files are replaced atomically, the log is only appended to, and temporary files
    are removed when the job is resumed. Files that belong to somebody else are never touched.
    """

    marker: ClassVar[str]  # File that identifies the folder. It is written first.
    # Files that are there once the job is finished. They are removed first when it is overwritten.
    finished_by: ClassVar[tuple[str, ...]] = (SUMMARY,)
    kind: ClassVar[str]  # What the folder holds, for messages

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def last(self) -> Path:
        """Folder of the state to resume from."""
        return self.path / LAST

    @property
    def is_begun(self) -> bool:
        """Whether a job was started in this folder."""
        return (self.path / self.marker).is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the job ran to its end."""
        return (self.path / SUMMARY).is_file()

    def is_own(self, member: Path) -> bool:
        """Return whether a file or folder was written by the job, so that overwriting removes it."""
        return self.is_temporary(member)

    def is_temporary(self, member: Path) -> bool:
        """Return whether a file or folder is one that a killed process was writing."""
        return member.name.startswith(".") and member.name.endswith(".tmp")

    def members(self) -> list[Path]:
        """Return the files and folders in the folder, without the lock."""
        members = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [member for member in members if member.name != LOCK]

    def lock(self) -> FolderLock:
        """Keep other processes out. Call this before anything else."""
        self.refuse_foreign()
        with self.writing():
            return FolderLock(self.path)

    def refuse_foreign(self) -> None:
        """Raise a ConfigError if the path is a file, or a folder that is not empty and was not written by a job."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(
                f"the output folder {str(self.path)!r} is a file", "Choose another output folder", option="output"
            )
        others = [member.name for member in self.members() if not self.is_temporary(member)]
        if others and not self.is_begun:
            raise ConfigError(
                f"the output folder {str(self.path)!r} contains {others[0]!r}, which is not part of {self.kind}",
                "Choose an empty or a new folder",
                option="output",
            )

    def refuse_sources(self, sources: Sequence[str | Path]) -> None:
        """Refuse an output folder that is also read from."""
        output = Path(os.path.realpath(self.path))
        for source in sources:
            if Path(source).is_dir() and output.is_relative_to(os.path.realpath(source)):
                raise ConfigError(
                    f"the output folder {str(self.path)!r} is in {str(source)!r}, which is read",
                    "Choose another output folder",
                    option="output",
                )

    def check_options(self, *, resume: bool, overwrite: bool) -> None:
        """Refuse foreign content and contradictory options. Nothing in the folder is changed."""
        if resume and overwrite:
            raise ConfigError(
                "both resume and overwrite were given",
                "Resume the job in the output folder, or overwrite it",
                option="resume",
            )
        self.refuse_foreign()

    def check_writable(self, *, resume: bool, overwrite: bool) -> None:
        """Refuse a folder that holds a job that is neither resumed nor overwritten, or that cannot be written to."""
        if self.is_begun and not resume and not overwrite:
            raise ConfigError(
                f"there is {self.kind} in {str(self.path)!r} already",
                "Resume it, overwrite it, or choose another output folder",
                option="resume",
            )
        with self.writing():
            try_writing(self.path)

    def prepare(self, *, overwrite: bool = False) -> None:
        """Create the folder and remove temporary files and, with ``overwrite``, everything an earlier job wrote.

        The files of ``finished_by`` are removed first, so that an interrupted removal does not look like a finished
        job. The marker is removed last, so that the folder is still recognised.
        """
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            removed = [member for member in self.members() if overwrite and self.is_own(member)]
            for member in sorted(removed, key=lambda m: (m.name == self.marker, m.name not in self.finished_by)):
                remove(member)
            for member in (*self.members(), *(self.last.iterdir() if self.last.is_dir() else ())):
                if self.is_temporary(member):
                    remove(member)

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically."""
        with self.writing(), replacing(self.path / name) as handle:
            handle.write(text.encode())

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file atomically."""
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Read a mapping that :meth:`write_json` wrote, or return None if the file does not exist."""
        path = self.path / name
        if not path.is_file():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self.damaged(name, error) from error
        if not isinstance(value, dict):
            raise self.damaged(name, "not a mapping")
        return value

    def log(self, values: Mapping[str, Any], *, durable: bool = False) -> int:
        """Append a line with a ``step`` to the log, and return the size of the log in bytes.

        ``durable`` flushes the line to disk, which is needed before a state that refers to it is saved.
        """
        with self.writing(), open_without_links(self.path / LOG, "ab") as handle:
            handle.write(json.dumps(values).encode() + b"\n")
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
            return handle.tell()

    def read_log(self, n_bytes: int | None = None) -> list[dict[str, Any]]:
        """Read the lines of the log, or those of its first ``n_bytes``."""
        path = self.path / LOG
        if not path.is_file():
            return []
        try:
            lines = [json.loads(line) for line in path.read_bytes()[:n_bytes].decode().splitlines()]
        except (OSError, ValueError, RecursionError) as error:
            raise self.damaged(LOG, error) from error
        if not all(isinstance(line, dict) and type(line.get("step")) is int for line in lines):
            raise self.damaged(LOG, "a line without a step")
        return lines

    def restore_log(self, state: Mapping[str, Any] | None) -> None:
        """Cut the log back to its size when a state was saved, or to nothing: the steps after it are taken again."""
        path = self.path / LOG
        size = path.stat().st_size if path.is_file() else 0
        n_bytes = 0 if state is None else state.get("log_bytes")
        if type(n_bytes) is not int or not 0 <= n_bytes <= size:
            raise self.damaged(LOG, f"{size} bytes, but the state to resume from expects {n_bytes!r}")
        self.read_log(n_bytes)
        if size > n_bytes:
            with self.writing():
                os.truncate(path, n_bytes)

    def damaged(self, name: str, reason: object) -> DataError:
        """Return the error for a file of the folder that cannot be used."""
        described = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        return DataError(
            f"{str(self.path / name)!r} is damaged ({described})",
            "Restore it from a copy, or start over",
            option="overwrite",
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raise a CascadeError with a hint if the block cannot write."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CascadeError(
                f"the output folder {str(self.path)!r} cannot be written ({reason})",
                "Fix that and resume, or choose another output folder",
                option="resume",
            ) from error


def remove(member: Path) -> None:
    """Remove a file, a link, or a folder with everything in it."""
    shutil.rmtree(member) if member.is_dir() and not member.is_symlink() else member.unlink()


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted keys at which nested settings differ, with both values."""
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from differences(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key}", before, after
