"""The texts of a command: of files, folders, patterns, standard input, or given as they are."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cascade_srn.config import require_choice
from cascade_srn.data.formats.base import Refused
from cascade_srn.data.formats.files import decoded, is_stream, json_record
from cascade_srn.data.formats.records import Value
from cascade_srn.data.raw_text import (
    ENDINGS,
    RECORDS,
    TEXT,
    TextFile,
    files_in,
    holds_records,
    is_text_file,
    opened_text,
    plain_name,
)
from cascade_srn.data.reports import Place
from cascade_srn.errors import CascadeError, DataError, did_you_mean
from cascade_srn.storage.files import written_names
from cascade_srn.text.presplit import given_sentences
from cascade_srn.types import Document

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


PER = ("auto", "file", "line", "record")


@dataclass(frozen=True, slots=True)
class Text:
    """A text to extract from, with the name its document will have, and the place it was read from.

    ``position`` is how many bytes of all input had been read by then. Words and sentences that come with the text
    are kept: then it is a document.
    """

    id: str
    text: str | Document
    place: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that a text was expected from, and why there is none."""

    reason: str
    position: int = 0


class Sources:
    """All texts of a command, in order; what cannot be read is among them as :class:`Unreadable`.

    ``per`` says what a document is: a ``file``, a ``line``, or a ``record`` of JSON lines; ``auto`` is a record in
    ``.jsonl`` files and a file otherwise. A record's text is in ``field``: a string, or a list of sentences, or a
    list of lists of words; its name is in ``id_field``. What the command writes to ``output`` is no text of its own:
    where a folder or a pattern holds it, it is left out and ``tell`` says so.
    """

    def __init__(
        self,
        arguments: Sequence[str] = (),
        texts: Sequence[str] = (),
        *,
        per: str = "auto",
        field: str = "text",
        id_field: str = "id",
        stdin: BinaryIO | None = None,
        output: Path | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        require_choice("--per", per, PER)
        self.inputs = find_inputs(arguments, output=output, tell=tell)
        self._sizes = {path: path.stat().st_size for path in self.inputs.values() if path is not None}
        self.texts = list(texts)
        self.per = per
        self.field = field
        self.id_field = id_field
        self._stdin = stdin

    @property
    def n_bytes(self) -> int | None:
        """The size of all files together; None where standard input is among them."""
        if None in self.inputs.values():
            return None
        return sum(self._sizes.values())

    def __iter__(self) -> Iterator[Text | Unreadable]:
        for number, text in enumerate(self.texts, 1):
            name = "text" if len(self.texts) == 1 else f"text-{number}"
            yield Text(name, text, f"--text {number}")
        before = 0
        for name, path in self.inputs.items():
            try:
                if path is None:
                    handle = sys.stdin.buffer if self._stdin is None else self._stdin
                    yield from self._read(name, TextFile(Path("standard input"), handle, handle), before, seeks=False)
                else:
                    with opened_text(path) as file:
                        yield from self._read(name, file, before, seeks=True)
            except CascadeError as error:
                yield Unreadable(str(error), before)
            before += 0 if path is None else self._sizes[path]

    def _read(self, name: str, file: TextFile, before: int, *, seeks: bool) -> Iterator[Text | Unreadable]:
        per = self.per
        if per == "auto":
            per = "record" if holds_records(file.path) else "file"
        if per == "file":
            data = file.whole()
            place = Place(str(file.path))
            if seeks or data.strip():
                yield self._attempt(name, data, place, before + file.position if seeks else 0, record=False)
            return
        for line, place in file.lines():
            if line.strip():
                number = place.where.removeprefix("line ")
                position = before + file.position if seeks else 0
                yield self._attempt(f"{name}-{number}", line, place, position, record=per == "record")

    def _attempt(self, name: str, data: bytes, place: Place, position: int, *, record: bool) -> Text | Unreadable:
        try:
            if record:
                id, text = self._of_record(json_record(data, place), name)
                return Text(id, text, str(place), position)
            text = decoded(data, place)
            return Text(name, text.rstrip("\r\n") if place.where else text, str(place), position)
        except Refused as refused:
            return Unreadable(str(refused), position)

    def _of_record(self, record: Value, name: str) -> tuple[str, str | Document]:
        """The name and the text of a record."""
        given = record.get(self.id_field)
        id = name if given is None else given.identifier()
        value = record.get(self.field)
        if value is None and self.field in record.raw:
            raise record.refuse_saying(
                "wrong type",
                f"{record.place}: the field {self.field!r} is null, but a text, a list of sentences or a list of lists "
                "of words was expected; write one, or leave the record out",
            )
        if value is None:
            names = [key for key in record.raw if isinstance(key, str)]
            message = (
                f"{record.place}: the record has no field {self.field!r}. {did_you_mean(self.field, names)} Name the "
                "field that holds the text by --field"
            )
            raise record.refuse_saying("missing field", message)
        if isinstance(value.raw, str):
            return id, value.string()
        if not isinstance(value.raw, list):
            raise value.refuse("wrong type", "but a text, a list of sentences or a list of lists of words was expected")
        if all(isinstance(item, list) for item in value.raw):
            return id, Document.from_words([item.words() for item in value.items()], id=id)
        sentences = [item.string() for item in value.items()]
        return id, _of_sentences(sentences, id)


def _of_sentences(sentences: Sequence[str], id: str) -> Document:
    """A document of sentences that are given, one a line."""
    places, at = [], 0
    for sentence in sentences:
        places.append((at, at + len(sentence)))
        at += len(sentence) + 1
    return Document.from_text("\n".join(sentences), id=id, segmenter=given_sentences(places))
