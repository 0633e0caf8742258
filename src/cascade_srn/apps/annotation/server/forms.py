"""Bodies and query parameters of the annotation service."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, RelationMark
from cascade_srn.apps.annotation.project import MAX_NAME
from cascade_srn.apps.service.messages import Message, Position, Several

MAX_TEXT, MAX_NOTE, MAX_MARKS = 1_000, 20_000, 20_000
DEFAULT_ANNOTATOR = "annotator"

Short = Annotated[str, Field(max_length=MAX_TEXT)]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Origin = Literal["person", "model"]
Annotator = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Name of the annotator.")]


class EntityBody(Message):
    """An entity: half-open character offsets on word boundaries, and a label."""

    id: Id
    start: Position
    end: Position
    label: Short
    origin: Origin = "person"


class RelationBody(Message):
    """A relation. `head` and `tail` are ids of entities."""

    id: Id
    head: Id
    tail: Id
    label: Short
    origin: Origin = "person"


class AnnotationBody(Message):
    """The complete annotation of a document. `version` is that of the stored one it is based on."""

    version: Position
    state: Literal["new", "started", "done"]
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    entities: Annotated[Several[EntityBody], Field(max_length=MAX_MARKS)] = Field(default_factory=list)
    relations: Annotated[Several[RelationBody], Field(max_length=MAX_MARKS)] = Field(default_factory=list)
    rejected: Annotated[Several[Short], Field(max_length=MAX_MARKS)] = Field(default_factory=list)

    def to_annotation(self) -> Annotation:
        """Return the annotation."""
        return Annotation(
            self.version,
            self.state,
            self.note,
            tuple(EntityMark(**one.model_dump()) for one in self.entities),
            tuple(RelationMark(**one.model_dump()) for one in self.relations),
            tuple(dict.fromkeys(self.rejected)),
        )


class Query(BaseModel):
    """Base class of query parameters: no unknown ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnnotatorQuery(Query):
    """Whose annotation."""

    annotator: Annotator = DEFAULT_ANNOTATOR


class ProjectQuery(Query):
    """Whose documents are counted as done. Default: those of anyone."""

    annotator: Annotator | None = None


class QueueQuery(AnnotatorQuery):
    """A part of the list of documents."""

    state: Literal["", "new", "started", "done"] = ""
    search: Short = ""
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50


class AgreementQuery(Query):
    """Two annotators."""

    first: Annotator
    second: Annotator


class ExportQuery(Query):
    """Format of the file, and whose annotations; default: the adjudicated or last ones of each document."""

    format: Short = "jsonl"
    annotator: Annotator | None = None


class ImportQuery(Query):
    """Format of the body, and the name to store its annotations under."""

    format: Short = "jsonl"
    annotator: Annotator = "imported"


QUERIES = (AnnotatorQuery, ProjectQuery, QueueQuery, AgreementQuery, ExportQuery, ImportQuery)
