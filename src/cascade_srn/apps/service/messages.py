"""Pydantic models of requests and responses."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from cascade_srn.apps.web.bodies import JsonForm, Position, Several

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ThresholdsForm(JsonForm):
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


class GivenEntity(JsonForm):
    """A known entity: half-open character offsets on word boundaries, and a label."""

    start: Position
    end: Position
    label: str


class EntityForm(JsonForm):
    """An entity of a document. `text` is the text between the half-open character offsets."""

    id: Position
    text: str
    label: str
    start: Position
    end: Position
    score: Probability | None = None


class RelationForm(JsonForm):
    """A relation of a document. `head` and `tail` are ids of entities, and `status` follows from the sentence."""

    head: Position
    tail: Position
    label: str
    score: Probability | None = None
    status: Literal["asserted", "negated", "hedged"] | None = None


Offsets = Annotated[list[Position], Field(min_length=2, max_length=2)]


class DocumentForm(JsonForm):
    """A text with its annotations. `sentences` holds the character offsets of the words of each sentence.

    `clusters` holds the character offsets of the mentions of each coreference cluster.
    """

    id: str = ""
    text: str
    sentences: Several[Several[Offsets]]
    entities: Several[EntityForm] = Field(default=[])
    relations: Several[RelationForm] = Field(default=[])
    clusters: Several[Several[Offsets]] = Field(default=[])
    model: str = Field(default="", description="Checksum of the model, in the output of `extract`.")
    version: str = Field(default="", description="Version of the package, in the output of `extract`.")

    @property
    def n_annotations(self) -> int:
        """Number of entities, relations and mentions of clusters."""
        return len(self.entities) + len(self.relations) + sum(map(len, self.clusters))


_Levels = Annotated[
    ThresholdsForm | Probability | None, Field(description="Thresholds by turn, or one number for all three turns.")
]
_Precision = Annotated[
    dict[str, Probability] | Probability | None,
    Field(
        description="Keep only predictions with this precision, with 95 % confidence: one number, or an object with "
        "`relations`, `entities` or labels. Not with `thresholds`, `overlaps` or `entities`."
    ),
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


class ExtractRequest(JsonForm):
    """One text or several. With `entities`, the model only looks for relations between the given entities."""

    text: str | None = Field(default=None, description="The text. Send this or `texts`.")
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = Field(
        default=None, description="The texts. Send this or `text`."
    )
    thresholds: _Levels = None
    precision: _Precision = None
    overlaps: _Overlaps = None
    entities: _Entities = None
    align: _Align = "exact"
    skip: _Skip = Field(default=[])

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


class DrawRequest(JsonForm):
    """A text to annotate and draw, or a document of an earlier response to draw."""

    text: str | None = Field(default=None, description="The text. Send this or `document`.")
    thresholds: _Levels = None
    precision: _Precision = None
    overlaps: _Overlaps = None
    entities: _Entities = None
    align: _Align = "exact"
    skip: _Skip = Field(default=[])
    document: DocumentForm | None = Field(default=None, description="A document from a response of `/extract`.")
    format: Literal["html", "svg"] = "html"

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.text is None) == (self.document is None):
            raise ValueError("expected either text or document")
        given = [self.thresholds, self.precision, self.entities, self.overlaps] != [None] * 4 or self.skip
        if self.document is not None and given:
            raise ValueError("thresholds, precision, overlaps, entities and skip apply to a text, not to a document")
        return self


class ConvertRequest(JsonForm):
    """A document from a response of `/extract`, to convert to another format."""

    document: DocumentForm
    format: Literal["brat"] = "brat"


class ExtractAnswer(JsonForm):
    """One document per text, in order."""

    documents: list[DocumentForm]


class BratAnswer(JsonForm):
    """Contents of the two files of the brat standoff format."""

    txt: str
    ann: str


class ModelForm(JsonForm):
    """Name and description of the model."""

    name: str
    description: str


class TurnsForm(JsonForm):
    """Default thresholds of the model."""

    entity: Probability
    subject: Probability
    object: Probability
    entity_types: dict[str, Probability]
    relation_types: dict[str, Probability]
    related: Probability | None
    relation: Probability | None


class LimitsForm(JsonForm):
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


class SchemaAnswer(JsonForm):
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
