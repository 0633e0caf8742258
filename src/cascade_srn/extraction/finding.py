"""Which files are meant by the arguments of a command, and what the documents in them are called."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cascade_srn.data.text_files import ENDINGS, RECORDS, TEXT, files_in, is_text_file, plain_name
from cascade_srn.errors import DataError

STDIN = "-"


def find_inputs(arguments: Sequence[str]) -> dict[str, Path | None]:
    """The files that are named, those in folders and those that patterns match, by name; None is standard input.

    A file is called by its path below the folder that was given, or by its name alone, without its ending; where
    two would be called the same, by as much of their paths as tells them apart. A file that is named twice is read
    once.
    """
    found: dict[str, tuple[Path, str] | None] = {}
    for argument in arguments:
        if argument == STDIN:
            found.setdefault(STDIN, None)
            continue
        for path, name in _files_of(argument):
            found.setdefault(os.path.realpath(path), (path, _without_ending(name)))
    names = _told_apart({key: value for key, value in found.items() if value is not None})
    return {names.get(key, "stdin"): None if value is None else value[0] for key, value in found.items()}


def _files_of(argument: str) -> list[tuple[Path, str]]:
    """The files of one argument, each with its path as it counts for its name."""
    path = Path(argument)
    if os.path.isdir(path):
        return [(member, member.relative_to(path).as_posix()) for member in files_in(path)]
    if os.path.exists(path):
        if not is_text_file(path):
            raise DataError(
                f"{path} has an ending that is not known here; text is read from files that end in "
                f"{', '.join(ENDINGS)}, and any other by way of standard input: cascade-srn extract - < {path}"
            )
        return [(path, path.name)]
    if glob.has_magic(argument):
        matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
        matches = [match for match in matches if match.is_file() and is_text_file(match)]
        if not matches:
            raise DataError(
                f"no file matches {argument!r}; files that end in {', '.join(ENDINGS)} were expected. Check the "
                "pattern and the working folder"
            )
        return [(match, match.name) for match in matches]
    raise DataError(
        f"{argument} does not exist, but a file, a folder, a pattern or - for standard input was expected; check the "
        "path and the working folder, or give the text itself by --text"
    )


def _without_ending(name: str) -> str:
    plain = plain_name(Path(name))
    return plain.with_suffix("").as_posix() if plain.suffix.lower() in (TEXT, RECORDS) else plain.as_posix()


def _told_apart(files: dict[str, tuple[Path, str]]) -> dict[str, str]:
    """A name for each file, longer ones for those that would share one."""
    names = {key: name for key, (_, name) in files.items()}
    n_parts = 1
    while shared := {name for name, count in Counter(names.values()).items() if count > 1}:
        n_parts += 1
        for key, name in names.items():
            if name in shared:
                whole = Path(key).relative_to(Path(key).anchor)
                # A text and its records can lie side by side under one name; then endings tell them apart.
                plain = whole.as_posix() if n_parts > len(whole.parts) else _without_ending(whole.as_posix())
                names[key] = "/".join(plain.split("/")[-n_parts:])
    return names
