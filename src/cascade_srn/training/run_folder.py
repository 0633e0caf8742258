"""The folder of a training run: what is in it, and how it is written without ever being half written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.evaluation.summary import Spread
from cascade_srn.storage.atomic import open_without_links, replace_durably
from cascade_srn.storage.folders import try_writing
from cascade_srn.storage.lock import LOCK, FolderLock
from cascade_srn.training.recipe import Recipe, load_recipe

# What is scored, and how tables call it.
TASKS = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}
FIGURES = ("precision", "recall", "f1")
SPLITS = ("dev", "test")

Summary = Mapping[str, Any]


def spreads(summaries: Sequence[Summary]) -> dict[str, Any]:
    """By split, task and figure: the mean and the deviation over runs, micro."""
    return {
        split: {
            "symmetric": summaries[0][split]["symmetric"],
            **{
                task: {
                    figure: Spread.of(summary[split][task]["micro"][figure] for summary in summaries).to_dict()
                    for figure in FIGURES
                }
                for task in TASKS
            },
        }
        for split in SPLITS
        if all(split in summary for summary in summaries)
    }


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """A table of the scores, of one run or over several: each row opening with the split and the protocol."""
    found = []
    for split in SPLITS:
        if not all(split in summary for summary in summaries):
            continue
        policy = summaries[0][split]["symmetric"]
        for task, name in TASKS.items():
            protocol = f"{name}, micro" if task == "ner" else f"{name}, {policy}, micro"
            figures = [Spread.of(s[split][task]["micro"][figure] for s in summaries) for figure in FIGURES]
            found.append((split, protocol, *map(str, figures)))
    return found


def found_nothing(summary: Summary) -> bool:
    """Whether a run was scored on dev, and nothing that it predicted there is right."""
    return "dev" in summary and not any(summary["dev"][task]["micro"]["f1"] for task in TASKS)


RECIPE, ENVIRONMENT, DATA, PREFLIGHT = "recipe.yaml", "environment.json", "data.json", "preflight.json"
LOG, CURVES, SUMMARY = "log.jsonl", "curves.png", "summary.json"
BEST, LAST, TRACKERS = "best", "last", "tensorboard"
# Labelled text may stand in the folder of the run that learns from it, and is no part of that run.
LABELS, LABELS_FILE = "labels", "labels.json"
# What the teachers of a student reach is.
TEACHER = "teacher.json"

# What a run writes into its folder: all that is ever removed from it.
_OWN = (RECIPE, ENVIRONMENT, DATA, PREFLIGHT, LOG, CURVES, SUMMARY, TEACHER, BEST, LAST, TRACKERS)
# Predictions on test documents that were kept with the run.
_PREDICTIONS = "test-*.jsonl"

# Log, curves and trackers' files, in bytes: little beside the weights.
_SMALL_FILES = 64 << 20


class RunFolder:
    """The folder of one run, known by its ``recipe.yaml``, which is written first.

    Files are replaced as a whole, and the log only grows, so that a process that is killed leaves nothing that
    cannot be read. What it was writing at that moment is cleared away when the run is resumed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def best(self) -> Path:
        """The model with the best weights."""
        return self.path / BEST

    @property
    def last(self) -> Path:
        """The state to resume from."""
        return self.path / LAST

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here: anybody may have a file called ``recipe.yaml`` beside others."""
        if not (self.path / RECIPE).is_file():
            return False
        begun = any((self.path / name).is_file() for name in (ENVIRONMENT, DATA, LOG))
        return begun or all(_is_own(member) for member in self._contents())

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / SUMMARY).is_file()

    def lock(self) -> FolderLock:
        """Keep other processes out, before anything else is done; what must not be written to at all is refused."""
        self._refuse_other_things()
        with self.writing():
            return FolderLock(self.path)

    def check(self, recipe: Recipe, *, resume: bool = False, overwrite: bool = False) -> None:
        """Refuse in one sentence a folder that the run must not or cannot go to; nothing in it is changed."""
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite were both given; choose whether to go on or to start over")
        self._refuse_other_things()
        if self.is_run and resume:
            self._refuse_other(recipe)
        elif self.is_run and not overwrite:
            raise ConfigError(
                f"there is a run in {str(self.path)!r} already; go on with it by --resume, replace it by --overwrite, "
                "or give another folder by output=…"
            )
        with self.writing():
            try_writing(self.path)

    def _refuse_other_things(self) -> None:
        """What is there and is no run is somebody else's."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"output is {str(self.path)!r}, which is a file; give the name of a folder to write to")
        others = [member.name for member in self._contents() if not _is_temporary(member.name)]
        if others and not self.is_run:
            raise ConfigError(
                f"output is {str(self.path)!r}, which holds something else than a run ({others[0]!r}, for one); give "
                "an empty or a new folder"
            )

    def begin(self, recipe: Recipe, *, overwrite: bool = False) -> None:
        """Make a folder that passed :meth:`check` ready to be written to."""
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            if overwrite:
                self._clear()
            self._recover()
            self.write_text(RECIPE, recipe.to_yaml())

    def _refuse_other(self, recipe: Recipe) -> None:
        """Resuming is going on with the same recipe."""
        before = load_recipe(self.path / RECIPE)
        for key, old, new in differences(before.to_dict(), recipe.to_dict()):
            if key != "output":
                raise ConfigError(
                    f"the run in {str(self.path)!r} was started with {key}={old!r}, and is to be resumed with "
                    f"{key}={new!r}; resume it with the recipe it was started with, or give another output"
                )

    def refuse_other_data(self, checksums: Mapping[str, tuple[str, str]]) -> None:
        """Refuse data, by path and checksum, that are not what the run was started with."""
        before = self.read_json(DATA)
        if before is None:
            return
        for name, (path, sha256) in checksums.items():
            described = before.get(name)
            if not isinstance(described, dict) or not isinstance(described.get("sha256"), str):
                raise self._damaged(DATA, f"no checksum of data.{name}")
            if described["sha256"] != sha256:
                raise DataError(
                    f"data.{name}, {path!r}, has changed since the run was started; resume with the data it was "
                    "started with, or start over with --overwrite"
                )

    def _contents(self) -> list[Path]:
        members = sorted(self.path.iterdir()) if self.path.is_dir() else []
        return [member for member in members if member.name != LOCK and not _is_labels(member)]

    def _clear(self) -> None:
        # The summary first: what is broken off must not be taken for finished. The recipe last: until then the folder
        # is still known as a run. What others put there stays.
        own = [member for member in self._contents() if _is_own(member)]
        for member in sorted(own, key=lambda path: (path.name == RECIPE, path.name != SUMMARY)):
            shutil.rmtree(member) if member.is_dir() and not member.is_symlink() else member.unlink()

    def _recover(self) -> None:
        """After a kill: put back a model folder that was about to be replaced, and remove what is half written."""
        if not self.best.exists():
            for old in self.path.glob(f".{BEST}-old-*"):
                if (old / "config.json").is_file():
                    replace_durably(old, self.best)
                    break
        unfinished = [*self._contents(), *(self.last.iterdir() if self.last.is_dir() else ())]
        for member in unfinished:
            if _is_temporary(member.name):
                shutil.rmtree(member) if member.is_dir() else member.unlink()

    def check_space(self, *, n_model_bytes: int, n_state_bytes: int) -> None:
        """Refuse a run that the disk cannot hold; old and new stand side by side while they are replaced."""
        needed = 2 * (n_model_bytes + n_state_bytes) + _SMALL_FILES
        there = sum(f.stat().st_size for part in (self.best, self.last) for f in part.rglob("*") if f.is_file())
        there_already = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        free = shutil.disk_usage(there_already).free
        if free + there < needed:
            raise CascadeError(
                f"the run needs up to {_size(needed - there)} in {str(self.path)!r}, where {_size(free)} are free; "
                "make room, give another output, or do without states to resume from by training.save_every=0"
            )

    def write_text(self, name: str, text: str) -> None:
        """Write a file, which appears or is replaced as a whole."""
        with self.writing(), replacing(self.path / name) as handle:
            handle.write(text.encode())

    def write_json(self, name: str, value: Any) -> None:
        """Write plain values."""
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Read a mapping that :meth:`write_json` wrote; None where there is no such file.

        Raises:
            DataError: if the file is damaged.
        """
        path = self.path / name
        if not path.is_file():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(name, error) from error
        if not isinstance(value, dict):
            raise self._damaged(name, "no mapping")
        return value

    def read_summary(self) -> dict[str, Any]:
        """Read the scores and figures of the finished run."""
        summary = self.read_json(SUMMARY)
        if summary is None:
            raise DataError(f"the run in {str(self.path)!r} has no {SUMMARY}. Finish it with --resume.")
        try:
            rows([summary])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._damaged(SUMMARY, error) from error
        return summary

    def log(self, values: dict[str, Any], *, durable: bool = False) -> int:
        """Add a line to the log and return its size.

        Args:
            values: the line.
            durable: flush it to disk, as a state that relies on it must not outlast it.
        """
        with self.writing(), open_without_links(self.path / LOG, "ab") as handle:
            handle.write(json.dumps(values).encode() + b"\n")
            if durable:
                handle.flush()
                os.fsync(handle.fileno())
            return handle.tell()

    def read_log(self) -> list[dict[str, Any]]:
        """Read all lines of the log."""
        path = self.path / LOG
        if not path.is_file():
            return []
        try:
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(LOG, error) from error
        if not all(isinstance(line, dict) and type(line.get("step")) is int for line in lines):
            raise self._damaged(LOG, "a line without a step")
        return lines

    def check_log(self, n_bytes: Any) -> None:
        """Refuse a log that has fewer bytes than it had when the state was saved.

        Args:
            n_bytes: the size that the state recorded.
        """
        path = self.path / LOG
        size = path.stat().st_size if path.is_file() else 0
        if type(n_bytes) is not int or not 0 <= n_bytes <= size:
            raise self._damaged(LOG, f"{size} bytes, where the state to resume from expects {n_bytes!r}")
        self.read_log()

    def _damaged(self, name: str, reason: object) -> DataError:
        told = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        return DataError(
            f"{str(self.path / name)!r} is damaged ({told}). Restore it from a copy, or start over with --overwrite."
        )

    def cut_log(self, n_bytes: int) -> None:
        """Forget what was logged after a state was saved: it is about to happen again."""
        path = self.path / LOG
        if path.is_file() and path.stat().st_size > n_bytes:
            os.truncate(path, n_bytes)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What goes wrong while writing, in one sentence."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CascadeError(
                f"the run folder {str(self.path)!r} cannot be written ({reason}); mend that and go on with --resume, "
                "or give another output"
            ) from error


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The dotted keys at which nested settings differ, with both values."""
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from differences(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key}", before, after


def _is_own(member: Path) -> bool:
    return member.name in _OWN or _is_temporary(member.name) or member.match(_PREDICTIONS)


def _is_temporary(name: str) -> bool:
    """Folders that were to become the best model, and files that were to become others."""
    return name.startswith(f".{BEST}-") or (name.startswith(".") and name.endswith(".tmp"))


def _is_labels(member: Path) -> bool:
    """Labelled text, or what a process left that was killed when it was about to begin with it."""
    if member.name != LABELS or not member.is_dir():
        return False
    names = [inner.name for inner in member.iterdir()]
    return LABELS_FILE in names or all(name == LOCK or _is_temporary(name) for name in names)


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"
