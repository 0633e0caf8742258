"""Check that folders are writable, and replace a folder as a whole."""

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
    """Raise the OSError that writing to a folder, which may not exist yet, would raise. Leave nothing behind."""
    with leaving_no_folders(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp"):
            pass


@contextmanager
def leaving_no_folders(folder: Path) -> Iterator[None]:
    """After the block, remove the folder and its parents if they are empty and did not exist before."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def replacing_folder(folder: str | Path, *, marker: str, key: str | None = None) -> Iterator[Path]:
    """Yield a new folder to fill, which replaces ``folder`` if the block succeeds.

    The folder must be missing, empty, or contain the file ``marker``, a JSON object with the ``key``, so that a
    mistyped path does not destroy other data.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{str(target)!r} is a file", "Choose a folder to save to")
    if target.is_dir() and any(target.iterdir()) and not _is_marked(target / marker, key):
        raise ModelError(f"{str(target)!r} contains other files", "Choose a new or empty folder to save to")
    # Replace the folder that a link leads to: a folder cannot be renamed to a link.
    target = Path(os.path.realpath(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ModelError(f"{str(target)!r} cannot be written ({error.strerror})", "Choose another folder") from error
    try:
        yield fresh
        fresh.chmod(0o777 & ~_umask())
        for written in fresh.iterdir():
            # Some libraries write files that only their owner can read, regardless of the umask.
            if written.is_file() and not written.is_symlink():
                written.chmod(0o666 & ~_umask())
        _replace(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(fresh: Path, target: Path) -> None:
    """Rename a folder to ``target`` and remove the folder that was there; on failure, restore the old one."""
    if not target.is_dir():
        replace_durably(fresh, target)
        return
    # Flush before the old folder moves, so that its path is empty only briefly.
    flush(fresh)
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        os.replace(target, old)
        replace_durably(fresh, target, flushed=True)
    except BaseException as error:
        if target.exists():
            with suppress(OSError):
                old.rmdir()  # the rename to it failed, so it is empty
        else:
            _restore(old, target, error)
        raise
    shutil.rmtree(old)


def _restore(old: Path, target: Path, error: BaseException) -> None:
    try:
        replace_durably(old, target)
    except OSError:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise ModelError(
            f"{str(target)!r} could not be replaced ({reason}), and its previous content is in {str(old)!r}",
            f"Rename that folder to {target.name!r}",
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
