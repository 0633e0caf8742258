"""The texts of a command: of files, folders, patterns, standard input, or given as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cascade_srn.config import require_choice
from cascade_srn.data.formats.base import Refused
from cascade_srn.data.formats.files import decoded, json_record
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import Place
from cascade_srn.data.text_files import TextFile, holds_records, opened_text
from cascade_srn.errors import CascadeError, did_you_mean
from cascade_srn.extraction.finding import find_inputs
from cascade_srn.presplit import given_sentences
from cascade_srn.types import Document

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
