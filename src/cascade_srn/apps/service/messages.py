"""Pydantic models of requests and responses, and messages for validation errors."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import ErrorDetails

from cascade_srn.errors import did_you_mean

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Position = Annotated[int, Field(ge=0)]
T = TypeVar("T")
# Validation stops at the first invalid item: a long list of invalid items would otherwise have an error for each.
Several = Annotated[list[T], Field(fail_fast=True)]


class Message(BaseModel):
    """Base class of all models: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ThresholdsForm(Message):
    """Lowest score of a span, by turn. Turns that are left out keep the model's threshold.

    `entity_types` and `relation_types` set the threshold of single labels. `related` is a lower threshold for entities
    that take part in a relation. `relation` is the lowest score of a relation in the response.
    """

    entity: Probability | None = None
    subject: Probability | None = None
    object: Probability | None = None
    entity_types: dict[str, Probability] | None = None
    relation_types: dict[str, Probability] | None = None
    related: Probability | None = None
    relation: Probability | None = None


class GivenEntity(Message):
    """A known entity: half-open character offsets on word boundaries, and a label."""

    start: Position
    end: Position
    label: str


class EntityForm(Message):
    """An entity of a document. `text` is the text between the half-open character offsets."""

    id: Position
    text: str
    label: str
    start: Position
    end: Position
    score: Probability | None = None


class RelationForm(Message):
    """A relation of a document. `head` and `tail` are ids of entities."""

    head: Position
    tail: Position
    label: str
    score: Probability | None = None


Offsets = Annotated[list[Position], Field(min_length=2, max_length=2)]


class DocumentForm(Message):
    """A text with its annotations. `sentences` holds the character offsets of the words of each sentence.

    `clusters` holds the character offsets of the mentions of each coreference cluster.
    """

    id: str = ""
    text: str
    sentences: Several[Several[Offsets]]
    entities: Several[EntityForm] = []
    relations: Several[RelationForm] = []
    clusters: Several[Several[Offsets]] = []

    @property
    def n_annotations(self) -> int:
        """Number of entities, relations and mentions of clusters."""
        return len(self.entities) + len(self.relations) + sum(map(len, self.clusters))


_Levels = Annotated[
    ThresholdsForm | Probability | None, Field(description="Thresholds by turn, or one number for all three turns.")
]
Overlaps = Literal["flat", "nested", "all"]
_Overlaps = Annotated[
    Overlaps | None,
    Field(
        description="Entities that share words. `flat`: keep the best. `nested`: entities may contain each other, but "
        "not cross. `all`: keep all. By default, the choice of the service. Given entities are all kept."
    ),
]
_Entities = Annotated[
    Several[Several[GivenEntity] | None] | Several[GivenEntity] | None,
    Field(description="The known entities of each text, or null to find them. With `text`, a plain list is enough."),
]
_Align = Annotated[
    Literal["exact", "expand"],
    Field(description="`exact`: given entities must match word boundaries. `expand`: extend them to whole words."),
]


_Skip = Annotated[
    Several[Literal["references", "code", "tables"]], Field(description="Parts of the texts to leave out.")
]


class ExtractRequest(Message):
    """One text or several. With `entities`, the model only looks for relations between the given entities."""

    text: str | None = Field(default=None, description="The text. Send this or `texts`.")
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = Field(
        default=None, description="The texts. Send this or `text`."
    )
    thresholds: _Levels = None
    overlaps: _Overlaps = None
    entities: _Entities = None
    align: _Align = "exact"
    skip: _Skip = []

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "We train a CRF for named entity recognition."},
                {"texts": ["A first text.", "A second one."], "thresholds": {"entity": 0.7}},
            ]
        }
    )

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise ValueError("expected either text or texts")
        return self


class DrawRequest(Message):
    """A text to annotate and draw, or a document of an earlier response to draw."""

    text: str | None = Field(default=None, description="The text. Send this or `document`.")
    thresholds: _Levels = None
    overlaps: _Overlaps = None
    entities: _Entities = None
    align: _Align = "exact"
    skip: _Skip = []
    document: DocumentForm | None = Field(default=None, description="A document from a response of `/extract`.")
    format: Literal["html", "svg"] = "html"

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.text is None) == (self.document is None):
            raise ValueError("expected either text or document")
        given = (self.thresholds, self.entities, self.overlaps) != (None, None, None) or self.skip
        if self.document is not None and given:
            raise ValueError("thresholds, overlaps, entities and skip apply to a text, not to a document")
        return self


class ConvertRequest(Message):
    """A document from a response of `/extract`, to convert to another format."""

    document: DocumentForm
    format: Literal["brat"] = "brat"


class ExtractAnswer(Message):
    """One document per text, in order."""

    documents: list[DocumentForm]


class BratAnswer(Message):
    """Contents of the two files of the brat standoff format."""

    txt: str
    ann: str


class StateAnswer(Message):
    """State of the service."""

    status: str


class ModelForm(Message):
    """Name and description of the model."""

    name: str
    description: str


class TurnsForm(Message):
    """Default thresholds of the model."""

    entity: Probability
    subject: Probability
    object: Probability
    entity_types: dict[str, Probability]
    relation_types: dict[str, Probability]
    related: Probability | None
    relation: Probability | None


class LimitsForm(Message):
    """Limits of a request, and the lowest allowed threshold."""

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
    """Labels and thresholds of the model, and defaults and limits of the service."""

    version: str
    model: ModelForm
    entity_types: list[str]
    relation_types: list[str]
    symmetric: list[str]
    constraints: dict[str, dict[str, Any]]
    thresholds: TurnsForm
    overlaps: Overlaps
    limits: LimitsForm


class ErrorForm(Message):
    """An error: a short code for programs, and a message for people."""

    code: str
    message: str


class ErrorAnswer(Message):
    """Body of every error response."""

    error: ErrorForm


# Longest name or value that a message quotes.
MAX_QUOTED = 40

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
# Phrases for bounds, by their name in the context of an error.
_BOUNDS = {"le": "at most {}", "ge": "at least {}"}


def describe_errors(errors: Sequence[ErrorDetails], form: type[Message], place: Sequence[int | str]) -> tuple[str, str]:
    """Return problem and hint for the validation errors of one value, one for each alternative of a union."""
    first = errors[0]
    match first["type"]:
        case "value_error":
            return str(first["ctx"]["error"]), ""
        case "missing":
            return "the field is missing", ""
        case "extra_forbidden":
            name = str(first["loc"][-1])
            return f"there is no field {name[:MAX_QUOTED]!r}", did_you_mean(name, set(_field_names(form, place)))
    expected = " or ".join(dict.fromkeys(map(_expected, errors)))
    return f"received {_received(first)}, expected {expected}", ""


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
    # No current model causes other errors.
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
        case str() if error["type"] != "literal_error" or len(value) > MAX_QUOTED:
            # Not quoted: it may be a confidential text, and messages may be logged.
            return "a string"
    return repr(value)


def _field_names(form: type[Message], place: Sequence[int | str]) -> Iterator[str]:
    """Yield the names of the fields at a place in a model."""
    forms = [form]
    for part in place:
        if isinstance(part, str):
            inner = [one.model_fields[part].annotation for one in forms if part in one.model_fields]
            forms = [found for annotation in inner for found in _nested_forms(annotation)]
    for one in forms:
        yield from one.model_fields


def _nested_forms(annotation: Any) -> Iterator[type[Message]]:
    if isinstance(annotation, type) and issubclass(annotation, Message):
        yield annotation
    for argument in get_args(annotation):
        yield from _nested_forms(argument)
