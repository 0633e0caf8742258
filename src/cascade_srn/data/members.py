"""The files in a folder and below it, and names for them that can be written down."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cascade_srn.errors import DataError


def files_below(folder: Path, wanted: Callable[[Path], bool]) -> Iterator[Path]:
    """The ``wanted`` ones of the files in a folder and those below it, hidden ones included, in any order.

    A folder that cannot be read is refused, since nobody would miss what is in it; but for hidden ones. Links to
    folders are followed as those to files are, but for hidden ones too; and no folder is read again below itself.
    """

    def refuse(error: OSError) -> None:
        where = Path(error.filename or folder)
        if not is_hidden(where, folder):
            raise _unreadable(where, error) from error

    for parent, below, names in os.walk(folder, onerror=refuse, followlinks=True):
        below[:] = [name for name in below if not _is_passed_over(Path(parent, name), folder)]
        for path in (Path(parent, name) for name in names):
            if wanted(path) and (is_hidden(path, folder) or _is_file(path)):
                yield path


def is_hidden(path: Path, folder: Path) -> bool:
    """Whether a path below a folder is hidden, or lies in a folder that is."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_passed_over(path: Path, folder: Path) -> bool:
    # What is hidden is at most counted, which is not worth going wherever its links lead.
    return (os.path.islink(path) and is_hidden(path, folder)) or _leads_back(path, folder)


def _leads_back(path: Path, folder: Path) -> bool:
    """Whether a path leads to a folder on the way from ``folder`` to it, so that following it would never end.

    Not only links do: one to a folder above ``folder`` makes a plain folder of it that is below itself.
    """
    way = (parent for parent in path.parents if parent.is_relative_to(folder))
    try:
        found = os.stat(path)
        return any(os.path.samestat(found, os.stat(parent)) for parent in way)
    except OSError:
        return False  # refused when it is to be read


def _is_file(path: Path) -> bool:
    """Whether a path leads to a file; one that cannot be told, as in a folder that may only be listed, is refused."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if not os.path.islink(path) or isinstance(error, PermissionError):
            raise _unreadable(path, error) from error
        return False  # a link that leads nowhere


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be read ({error.strerror}); check its permissions, or move it out of the folder that is read"
    )


def written_names(names: Sequence[str]) -> list[str]:
    """Names of files as they can be written in UTF-8, each another one.

    A name on the disk can be any bytes. What is not UTF-8 in it becomes a replacement character, and where that makes
    a name that there is already, a number tells them apart.
    """
    plain = [os.fsencode(name).decode("utf-8", "replace") if _is_broken(name) else name for name in names]
    taken: set[str] = set()
    written = list(plain)
    # Names that can stay as they are come first, so that they do.
    for at in sorted(range(len(names)), key=lambda at: plain[at] != names[at]):
        number = 1
        while written[at] in taken:
            number += 1
            written[at] = f"{plain[at]}-{number}"
        taken.add(written[at])
    return written


def _is_broken(name: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in name)
