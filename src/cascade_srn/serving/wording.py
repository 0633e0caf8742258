"""What is wrong with a value of a body, in one phrase: what came, and what is expected there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic_core import ErrorDetails

from cascade_srn.errors import did_you_mean
from cascade_srn.serving.messages import Message

# Names and values are shown up to that many characters.
SHOWN = 40

_EXPECTED = {
    "string_type": "a string",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
# What the context of an error holds, by its name there.
_BOUNDS = {"le": "at most {}", "ge": "at least {}"}


def said(errors: Sequence[ErrorDetails], form: type[Message], place: Sequence[int | str]) -> str:
    """What a value that several alternatives refused would have had to be; the errors are of one place."""
    first = errors[0]
    match first["type"]:
        case "value_error":
            return str(first["ctx"]["error"])
        case "missing":
            return "it is missing"
        case "extra_forbidden":
            name = str(first["loc"][-1])
            return f"there is no field {name[:SHOWN]!r} here. {did_you_mean(name, set(_fields(form, place)))}"
    expected = " or ".join(dict.fromkeys(map(_expected, errors)))
    return f"received {_received(first)}; expected {expected}"


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]]
    if error["type"] == "literal_error":
        return str(context["expected"])
    if error["type"] in ("too_short", "too_long"):
        return f"{context['min_length']} or more" if "min_length" in context else f"{context['max_length']} or fewer"
    for name, bound in _BOUNDS.items():
        if name in context:
            return bound.format(f"{context[name]:g}")
    # A kind of error that no form of ours has by now: pydantic's own words.
    return error["msg"]


def _received(error: ErrorDetails) -> str:
    value: Any = error["input"]
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return f"a list of {len(value)} item{'s' * (len(value) != 1)}"
        case dict():
            return "an object"
        case str() if error["type"] != "literal_error" or len(value) > SHOWN:
            # It may be somebody's text, and messages may be kept.
            return "a string"
    return repr(value)


def _fields(form: type[Message], place: Sequence[int | str]) -> Iterator[str]:
    """The names of the fields there are at a place of a form."""
    forms = [form]
    for part in place:
        if isinstance(part, str):
            inner = [one.model_fields[part].annotation for one in forms if part in one.model_fields]
            forms = [found for annotation in inner for found in _forms(annotation)]
    for one in forms:
        yield from one.model_fields


def _forms(annotation: Any) -> Iterator[type[Message]]:
    if isinstance(annotation, type) and issubclass(annotation, Message):
        yield annotation
    for argument in get_args(annotation):
        yield from _forms(argument)
