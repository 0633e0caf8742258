"""Which files are meant by the arguments of a command, and what the documents in them are called."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from cascade_srn.data.formats.files import is_stream
from cascade_srn.data.members import written_names
from cascade_srn.data.text_files import ENDINGS, RECORDS, TEXT, files_in, is_text_file, plain_name
from cascade_srn.errors import DataError

STDIN = "-"


def find_inputs(
    arguments: Sequence[str], *, output: Path | None = None, tell: Callable[[str], None] = lambda sentence: None
) -> dict[str, Path | None]:
    """The files that are named, those in folders and those that patterns match, by name; None is standard input.

    A file is called by its path below the folder that was given, or by its name alone, without its ending; where
    two would be called the same, by as much of their paths as tells them apart. What is not UTF-8 in a name is
    replaced. A file that is named twice is read once.

    Where the ``output`` of the command, or a part of it that was kept, lies in a folder or is matched by a pattern,
    it is left out, and ``tell`` says so; an output that is itself named as an input is refused.
    """
    results = None if output is None else _Results(output)
    found: dict[str, tuple[Path, str] | None] = {}
    for argument in arguments:
        if argument == STDIN:
            found.setdefault(STDIN, None)
            continue
        for path, name in _files_of(argument):
            if results is not None and results.holds(path, argument):
                tell(f"{path} is left out, since it is what --output writes, or a part of that from an earlier run")
                continue
            found.setdefault(os.path.realpath(path), (path, _without_ending(name)))
    names = _told_apart(found)
    return {names[key]: None if value is None else value[0] for key, value in found.items()}


def _files_of(argument: str) -> list[tuple[Path, str]]:
    """The files of one argument, each with its path as it counts for its name."""
    path = Path(argument)
    if os.path.isdir(path):
        return [(member, member.relative_to(path).as_posix()) for member in files_in(path)]
    if os.path.exists(path):
        # A pipe such as the shell's <(command) has no ending, and is read as text unless --per says otherwise.
        if not is_text_file(path) and not is_stream(path):
            raise DataError(
                f"{path} has an ending that is not known here; text is read from files that end in "
                f"{', '.join(ENDINGS)}, and any other by way of standard input: cascade-srn extract - < {path}"
            )
        return [(path, path.name)]
    if glob.has_magic(argument):
        matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
        files = [match for match in matches if match.is_file()]
        if not any(map(is_text_file, files)):
            raise _matches_none(argument, files)
        return [(file, file.name) for file in files if is_text_file(file)]
    raise DataError(
        f"{argument} does not exist, but a file, a folder, a pattern or - for standard input was expected; check the "
        "path and the working folder, or give the text itself by --text"
    )


def _matches_none(pattern: str, files: Sequence[Path]) -> DataError:
    """What is wrong with a pattern that matches nothing, or only ``files`` that are not read."""
    if not files:
        return DataError(
            f"no file matches {pattern!r}; files that end in {', '.join(ENDINGS)} were expected. Check the pattern "
            "and the working folder"
        )
    return DataError(
        f"{pattern!r} matches {files[0]}{f' and {len(files) - 1} more' if files[1:] else ''}, but nothing that ends in "
        f"{', '.join(ENDINGS)}, which is what text is read from; rename what is text, or give it by way of standard "
        "input"
    )


class _Results:
    """What a command writes, so that it does not read it."""

    def __init__(self, output: Path) -> None:
        self._output = Path(os.path.realpath(output))
        stem, ending = re.escape(self._output.stem), re.escape(self._output.suffix)
        self._part = re.compile(rf"{stem}\.partial(-[0-9]+)?{ending}")

    def holds(self, path: Path, argument: str) -> bool:
        """Whether a file is the output or a part of it; an output that is the very ``argument`` is refused."""
        real, given = Path(os.path.realpath(path)), Path(os.path.realpath(argument))
        if real == given:
            if real == self._output:
                raise DataError(
                    f"{path} is to be read and is to be written by --output as well; give another path for the output"
                )
            return False
        # A part can be a folder of brat files; one that was itself given is meant to be read.
        below = [folder for folder in real.parents if given in folder.parents]
        return real == self._output or any(self._is_part(place) for place in (real, *below))

    def _is_part(self, path: Path) -> bool:
        return path.parent == self._output.parent and self._part.fullmatch(path.name) is not None


def _without_ending(name: str) -> str:
    plain = plain_name(Path(name))
    return plain.with_suffix("").as_posix() if plain.suffix.lower() in (TEXT, RECORDS) else plain.as_posix()


def _told_apart(files: dict[str, tuple[Path, str] | None]) -> dict[str, str]:
    """A name for each input, longer ones for files that would share one; standard input keeps its own."""
    names = {key: "stdin" if value is None else value[1] for key, value in files.items()}
    wholes = {key: _whole(Path(key)) for key, value in files.items() if value is not None}
    n_parts, most = 1, max((whole.count("/") + 1 for whole in wholes.values()), default=0)
    while n_parts <= most and (shared := {name for name, count in Counter(names.values()).items() if count > 1}):
        n_parts += 1
        for key, whole in wholes.items():
            if names[key] in shared:
                # A text and its records can lie side by side under one name; then endings tell them apart.
                plain = whole if n_parts > whole.count("/") + 1 else _without_ending(whole)
                names[key] = "/".join(plain.split("/")[-n_parts:])
    return dict(zip(names, written_names(list(names.values())), strict=True))


def _whole(path: Path) -> str:
    """A path from its anchor on, with the drive as a folder in front where there are drives."""
    drive = path.drive.replace("\\", "/").replace(":", "").strip("/")
    inside = path.relative_to(path.anchor).as_posix()
    return f"{drive}/{inside}" if drive else inside
