"""Typed access to the values of a record, each failure a sentence that says where, what, and the mend."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cascade_srn.data.formats.base import ReadContext, Refused
from cascade_srn.data.reports import Occurrence, Place
from cascade_srn.errors import CascadeError, DataError, shown


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a record, with its place in the input and its path in the record (``entities[2].start``)."""

    raw: Any
    place: Place
    path: str = ""

    def refuse(self, kind: str, problem: str, *, error: type[CascadeError] = DataError) -> Refused:
        """The refusal of this value; ``problem`` goes on from "<place>: <path> is <value>, "."""
        message = f"{self.place}: {self.path or 'the record'} is {shown(self.raw)}, {problem}"
        return self.refuse_saying(kind, message, error=error)

    def refuse_saying(self, kind: str, message: str, *, error: type[CascadeError] = DataError) -> Refused:
        """The refusal of this value in words of the caller's own, which must name the place."""
        return Refused(kind, message, self.example(), error)

    def example(self) -> Occurrence:
        """This value as a report shows it."""
        return Occurrence(self.place, self.path, shown(self.raw))

    def identified(self, name: str) -> Value:
        """This record, named in messages by the id in its field ``name`` where it has one."""
        value = self.get(name)
        return replace(self, place=replace(self.place, document="" if value is None else value.identifier()))

    def get(self, name: str) -> Value | None:
        """The field ``name`` of this object; None where it is absent or null."""
        if type(self.raw) is not dict:
            raise self.refuse(
                "wrong type",
                "but a JSON object was expected; write one as the format's documentation shows",
            )
        raw = self.raw.get(name)
        return None if raw is None else Value(raw, self.place, f"{self.path}.{name}" if self.path else name)

    def field(self, name: str) -> Value:
        """The field ``name`` of this object, which must be there."""
        value = self.get(name)
        if value is None:
            owner = self.path or "the record"
            raise self.refuse_saying(
                "missing field",
                f"{self.place}: {owner} is {shown(self.raw)}, without the field {name!r}, which is expected "
                "there; add it, or pass the format that the file is in",
            )
        return value

    def note_unread(self, known: Iterable[str], context: ReadContext) -> None:
        """Note the fields of this object that the format does not read, in their order."""
        read = set(known)
        for name in self.raw:
            if name not in read:
                context.report.note(f"field {shown(name)} not read", self.at(name).example())

    def at(self, key: int | str) -> Value:
        """An item of this list or object that is known to be there."""
        path = f"{self.path}[{key}]" if type(key) is int else f"{self.path}.{key}".lstrip(".")
        return Value(self.raw[key], self.place, path)

    def length(self) -> int:
        """The count of this list's items."""
        if type(self.raw) not in (list, tuple):
            raise self.refuse("wrong type", "but a list was expected; write one in square brackets")
        return len(self.raw)

    def items(self, fewest: int = 0, most: int | None = None) -> list[Value]:
        """The items of this list, with the count of them checked."""
        n_items = self.length()
        if n_items < fewest or (most is not None and n_items > most):
            counts = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise self.refuse("wrong length", f"a list of {n_items}, but {counts} items were expected; mend the list")
        return [self.at(number) for number in range(n_items)]

    def string(self) -> str:
        """A string that can be encoded."""
        if type(self.raw) is not str:
            raise self.refuse("wrong type", "but a string was expected; write one in quotes")
        if not encodable(self.raw):
            raise self.refuse(
                "lone surrogate",
                "which holds half a surrogate pair; write the whole character or leave it out",
            )
        return self.raw

    def identifier(self) -> str:
        """An id: a string, or an integer, which is taken as the string of its digits."""
        return str(self.raw) if type(self.raw) is int else self.string()

    def label(self) -> str:
        """The name of an entity type or a relation type."""
        if not self.string().strip():
            raise self.refuse("blank label", "but the name of a type was expected; name the type")
        return self.string()

    def words(self) -> list[str]:
        """A list of words, none of them empty."""
        self.length()
        if all(type(word) is str and word for word in self.raw) and encodable(" ".join(self.raw)):
            return list(self.raw)  # the check of all at once; what follows finds the one to name
        for item in self.items():
            if not item.string():
                raise item.refuse("empty word", "but a word of one character or more was expected; remove it")
        return list(self.raw)

    def integer(self) -> int:
        """An integer; neither a boolean nor a number with a decimal point."""
        if type(self.raw) is not int:
            raise self.refuse("wrong type", "but an integer was expected; write it without quotes or a decimal point")
        return self.raw

    def number(self) -> float:
        """A finite number."""
        try:
            number = float(self.raw) if type(self.raw) in (int, float) else math.nan
        except OverflowError:  # an integer that is larger than any of them
            number = math.inf
        if not math.isfinite(number):
            raise self.refuse("wrong type", "but a finite number was expected; write one, or leave it out")
        return number

    def score(self) -> float:
        """A score of a model: a number from 0 to 1."""
        score = self.number()
        if not 0 <= score <= 1:
            raise self.refuse("score out of range", "but a score from 0 to 1 was expected; mend it, or leave it out")
        return score

    def half_open(self, start: int, end: int, size: int, unit: str) -> None:
        """Refuse this span unless ``0 <= start < end <= size``."""
        if end <= start:
            raise self.refuse(
                "end before start",
                f"which ends at {end}, not after its start {start}; give half-open offsets with start < end",
            )
        if start < 0 or end > size:
            raise self.refuse(
                "index out of range",
                f"but offsets from 0 to {size} were expected, there being {size} {unit}; mend start or end",
            )

    def index(self, size: int, what: str) -> int:
        """The index of one of ``size`` things."""
        index = self.integer()
        if not 0 <= index < size:
            known = f"one of 0 to {size - 1}" if size else "none, there being none"
            raise self.refuse(
                f"missing {what}",
                f"but an index of one of the {size} listed was expected ({known}); add the {what} or mend the index",
            )
        return index


def encodable(text: str) -> bool:
    """Whether a string has no lone surrogates, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
