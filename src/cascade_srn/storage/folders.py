"""Folders: whether they can be written to, and how they are written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cascade_srn.errors import ModelError
from cascade_srn.storage.atomic import flush, replace_durably


def try_writing(folder: Path) -> None:
    """Raise the OSError that writing to a folder would meet, which need not be there yet, and leave nothing behind."""
    with leaving_no_folders(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp"):
            pass


@contextmanager
def leaving_no_folders(folder: Path) -> Iterator[None]:
    """Remove the folder and those above it after the block, as far as they were not there before and are empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def replacing_folder(folder: str | Path, *, marker: str, key: str | None = None) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``folder`` when the block ends without an error.

    What is there already is replaced only if it is empty or holds the ``marker`` file, which with a ``key`` must be
    JSON that has it, so that a mistyped path never costs anybody a folder of something else.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{str(target)!r} is a file; give the name of a folder to save to")
    if target.is_dir() and any(target.iterdir()) and not _is_marked(target / marker, key):
        raise ModelError(f"{str(target)!r} holds something else; give an empty or a new folder to save to")
    # Through a link, it is the folder it leads to that is replaced: a link cannot take a folder's place.
    target = Path(os.path.realpath(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ModelError(f"{str(target)!r} cannot be written ({error.strerror}); choose another folder") from error
    try:
        yield fresh
        fresh.chmod(0o777 & ~_umask())
        for written in fresh.iterdir():
            # Some libraries write files that nobody else may read, whatever the user's umask.
            if written.is_file() and not written.is_symlink():
                written.chmod(0o666 & ~_umask())
        _put(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _put(fresh: Path, target: Path) -> None:
    """Rename a folder to ``target`` and remove the folder that was there; if that fails, put the old one back."""
    if not target.is_dir():
        replace_durably(fresh, target)
        return
    # Before the old folder moves, so that its place is empty for as short as possible.
    flush(fresh)
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        os.replace(target, old)
        replace_durably(fresh, target, flushed=True)
    except BaseException as error:
        if target.exists():
            with suppress(OSError):
                old.rmdir()  # which it was not moved to
        else:
            _put_back(old, target, error)
        raise
    shutil.rmtree(old)


def _put_back(old: Path, target: Path, error: BaseException) -> None:
    try:
        replace_durably(old, target)
    except OSError:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise ModelError(
            f"{str(target)!r} could not be replaced ({reason}), nor what was there be put back; it is in {str(old)!r}, "
            f"rename that to {target.name!r}"
        ) from error


def _is_marked(marker: Path, key: str | None) -> bool:
    if key is None or not marker.is_file():
        return marker.is_file()
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and key in found


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
