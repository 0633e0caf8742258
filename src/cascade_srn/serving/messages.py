"""The forms of requests and answers, for reading the former and describing both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import ErrorDetails

from cascade_srn.errors import did_you_mean

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Position = Annotated[int, Field(ge=0)]
T = TypeVar("T")
# The first item that is wrong ends the check: a long list of wrong ones would else have an error for each of them.
Several = Annotated[list[T], Field(fail_fast=True)]


class Message(BaseModel):
    """What all forms have in common: types are taken at their word, and unknown fields refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ThresholdsForm(Message):
    """What a span's score must reach, by turn; a turn that is left out keeps the model's own.

    `entity_types` and `relation_types` give single labels a threshold of their own, `related` entities that have a
    relation a lower one. `relation` is what the score of a relation as a whole, the one in the answer, must reach.
    """

    entity: Probability | None = None
    subject: Probability | None = None
    object: Probability | None = None
    entity_types: dict[str, Probability] | None = None
    relation_types: dict[str, Probability] | None = None
    related: Probability | None = None
    relation: Probability | None = None


class GivenEntity(Message):
    """An entity that the caller knows: half-open character offsets that fall on words, and a label."""

    start: Position
    end: Position
    label: str


class EntityForm(Message):
    """An entity of a document: `text` is what stands at the half-open character offsets."""

    id: Position
    text: str
    label: str
    start: Position
    end: Position
    score: Probability | None = None


class RelationForm(Message):
    """A relation of a document; `head` and `tail` are the ids of two entities."""

    head: Position
    tail: Position
    label: str
    score: Probability | None = None


class DocumentForm(Message):
    """A text with what was found in it; `sentences` holds the character offsets of the words of each sentence."""

    id: str = ""
    text: str
    sentences: Several[Several[Annotated[list[Position], Field(min_length=2, max_length=2)]]]
    entities: Several[EntityForm] = []
    relations: Several[RelationForm] = []


_Levels = Annotated[
    ThresholdsForm | Probability | None,
    Field(description="Thresholds by turn, or one number for all three turns."),
]
_Entities = Annotated[
    Several[Several[GivenEntity] | None] | Several[GivenEntity] | None,
    Field(description="For each text its entities, or null to have them found. With `text`, a plain list will do."),
]
_Align = Annotated[
    Literal["exact", "expand"],
    Field(description="Whether given entities must fall on words, or all words that they touch are taken."),
]


class ExtractRequest(Message):
    """One text or several; with `entities`, a list for each text, relations are sought between those."""

    text: str | None = Field(default=None, description="The text. Give this or `texts`.")
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = Field(
        default=None, description="The texts. Give this or `text`."
    )
    thresholds: _Levels = None
    entities: _Entities = None
    align: _Align = "exact"

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "We train a CRF for named entity recognition."},
                {"texts": ["A first text.", "A second one."], "thresholds": {"entity": 0.7}},
            ]
        }
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise ValueError("give either text or texts")
        return self


class DrawRequest(Message):
    """A text to extract from and draw, or a document that was extracted before."""

    text: str | None = Field(default=None, description="The text. Give this or `document`.")
    thresholds: _Levels = None
    entities: _Entities = None
    align: _Align = "exact"
    document: DocumentForm | None = Field(default=None, description="A document as `/extract` answers it.")
    format: Literal["html", "svg"] = "html"

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.document is None):
            raise ValueError("give either text or document")
        if self.document is not None and (self.thresholds is not None or self.entities is not None):
            raise ValueError("thresholds and entities go with a text, not with a document")
        return self


class ConvertRequest(Message):
    """A document that was extracted before, to be had in another format."""

    document: DocumentForm
    format: Literal["brat"] = "brat"


class ExtractAnswer(Message):
    """A document for each text, in order."""

    documents: list[DocumentForm]


class BratAnswer(Message):
    """The two files of brat standoff."""

    txt: str
    ann: str


class StateAnswer(Message):
    """How the service is."""

    status: str


class ModelForm(Message):
    """Which model answers."""

    name: str
    description: str


class TurnsForm(Message):
    """The thresholds that the model takes unless it is told others."""

    entity: Probability
    subject: Probability
    object: Probability
    entity_types: dict[str, Probability]
    relation_types: dict[str, Probability]
    related: Probability | None
    relation: Probability | None


class LimitsForm(Message):
    """The most that a request may ask for, and the lowest threshold."""

    body_bytes: int
    texts: int
    characters: int
    sentence_words: int
    sentence_entities: int
    annotations: int
    drawn: int
    drawn_characters: int
    sentence_arcs: int
    values: int
    threshold: Probability


class SchemaAnswer(Message):
    """What the model knows, and what may be asked of it."""

    version: str
    model: ModelForm
    entity_types: list[str]
    relation_types: list[str]
    symmetric: list[str]
    thresholds: TurnsForm
    limits: LimitsForm


class ErrorForm(Message):
    """What went wrong: a short code for programs, a sentence for people."""

    code: str
    message: str


class ErrorAnswer(Message):
    """The form of every error."""

    error: ErrorForm


def plain(message: Message) -> dict[str, Any]:
    """A message as plain values."""
    return message.model_dump()


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
