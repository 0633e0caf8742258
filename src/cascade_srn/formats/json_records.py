"""Typed access to the values of a record, with errors that name the place, the path and the value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cascade_srn.errors import CascadeError, DataError, short_repr
from cascade_srn.formats.base import MalformedInput, ReadContext
from cascade_srn.formats.reports import Occurrence, Place


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a record, with its place in the input and its path in the record (``entities[2].start``)."""

    raw: Any
    place: Place
    path: str = ""

    def refuse(self, kind: str, problem: str, hint: str = "", *, option: str = "") -> MalformedInput:
        """Return the error of this value. Its message is ``<place>: <path> is <value>, <problem>``."""
        message = f"{self.place}: {self.path or 'the record'} is {short_repr(self.raw)}, {problem}"
        return self.refuse_saying(kind, message, hint, option=option)

    def refuse_saying(
        self, kind: str, problem: str, hint: str = "", *, option: str = "", error: type[CascadeError] = DataError
    ) -> MalformedInput:
        """Return the error of this value with a message of the caller, which must name the place."""
        return MalformedInput(kind, error(problem, hint, option=option), self.example())

    def example(self) -> Occurrence:
        """Return this value for a report."""
        return Occurrence(self.place, self.path, short_repr(self.raw))

    def with_document_id(self, name: str) -> Value:
        """Return this record with the id in its field ``name`` as the document of its place."""
        value = self.get(name)
        return replace(self, place=replace(self.place, document="" if value is None else value.identifier()))

    def get(self, name: str) -> Value | None:
        """Return a field of this object, or None if it is absent or null."""
        if type(self.raw) is not dict:
            raise self.refuse("wrong type", "but a JSON object was expected", "See the documentation of the format")
        raw = self.raw.get(name)
        return None if raw is None else Value(raw, self.place, f"{self.path}.{name}" if self.path else name)

    def field(self, name: str) -> Value:
        """Return a required field of this object."""
        value = self.get(name)
        if value is None:
            raise self.refuse(
                "missing field", f"which has no field {name!r}", "Add the field, or name the format", option="format"
            )
        return value

    def get_items(self, name: str) -> list[Value]:
        """Return the items of a list in an optional field of this object."""
        value = self.get(name)
        return [] if value is None else value.items()

    def note_unread(self, known: Iterable[str], context: ReadContext) -> None:
        """Note the fields of this object that the format does not read."""
        read = set(known)
        for name in self.raw:
            if name not in read:
                context.unread.add(self.raw, name)
                context.report.note(f"field {short_repr(name)} not read", self.at(name).example())

    def at(self, key: int | str) -> Value:
        """Return an existing item of this list or object."""
        path = f"{self.path}[{key}]" if type(key) is int else f"{self.path}.{key}".lstrip(".")
        return Value(self.raw[key], self.place, path)

    def length(self) -> int:
        """Return the number of items of this list."""
        if type(self.raw) not in (list, tuple):
            raise self.refuse("wrong type", "but a list was expected")
        return len(self.raw)

    def items(self, fewest: int = 0, most: int | None = None) -> list[Value]:
        """Return the items of this list, and check their number."""
        n_items = self.length()
        if n_items < fewest or (most is not None and n_items > most):
            counts = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise self.refuse("wrong length", f"a list of {n_items}, but {counts} items were expected")
        return [self.at(number) for number in range(n_items)]

    def string(self) -> str:
        """Return a string that can be encoded as UTF-8."""
        if type(self.raw) is not str:
            raise self.refuse("wrong type", "but a string was expected")
        if not is_encodable(self.raw):
            raise self.refuse("lone surrogate", "which contains half a surrogate pair", "Write the whole character")
        return self.raw

    def identifier(self) -> str:
        """Return an id: a string, or an integer as its digits."""
        return str(self.raw) if type(self.raw) is int else self.string()

    def label(self) -> str:
        """Return the name of an entity type or a relation type."""
        if not self.string().strip():
            raise self.refuse("blank label", "but the name of a type was expected")
        return self.string()

    def words(self) -> list[str]:
        """Return a list of words that are not empty."""
        self.length()
        # All at once, because a corpus has millions of words; the loop then finds the one to name.
        if all(type(word) is str and word for word in self.raw) and is_encodable(" ".join(self.raw)):
            return list(self.raw)
        for item in self.items():
            if not item.string():
                raise item.refuse("empty word", "but a word of at least one character was expected", "Remove it")
        return list(self.raw)

    def integer(self) -> int:
        """Return an integer; booleans and floats are refused."""
        if type(self.raw) is not int:
            raise self.refuse("wrong type", "but an integer was expected", "Write it without quotes and decimal point")
        return self.raw

    def number(self) -> float:
        """Return a finite number."""
        try:
            number = float(self.raw) if type(self.raw) in (int, float) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.refuse("wrong type", "but a finite number was expected", "Fix it, or leave it out")
        return number

    def score(self) -> float:
        """Return the score of a model: a number from 0 to 1."""
        score = self.number()
        if not 0 <= score <= 1:
            raise self.refuse("score out of range", "but a score from 0 to 1 was expected", "Fix it, or leave it out")
        return score

    def optional_score(self) -> float | None:
        """Return the field ``score`` of this object, or None if it is absent."""
        score = self.get("score")
        return None if score is None else score.score()

    def check_half_open(self, start: int, end: int, size: int, unit: str) -> None:
        """Refuse this span unless ``0 <= start < end <= size``."""
        if end <= start:
            raise self.refuse(
                "end before start",
                f"which ends at {end}, not after its start {start}",
                "Use half-open offsets with start < end",
            )
        if start < 0 or end > size:
            raise self.refuse(
                "index out of range", f"but there are {size} {unit} (offsets 0 to {size})", "Fix start or end"
            )

    def index(self, size: int, what: str) -> int:
        """Return the index of one of ``size`` things."""
        index = self.integer()
        if not 0 <= index < size:
            known = f"0 to {size - 1}" if size else "none"
            raise self.refuse(
                f"missing {what}",
                f"but the list has {size} items (indices: {known})",
                f"Add the {what}, or fix the index",
            )
        return index


def number_values(path: object, unit: str, values: Iterable[Any]) -> Iterator[Value]:
    """Yield the values of a file, with places that count them from 1."""
    for number, raw in enumerate(values, 1):
        yield Value(raw, Place(str(path), f"{unit} {number}"))


def is_encodable(text: str) -> bool:
    """Return whether a string has no lone surrogates, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
