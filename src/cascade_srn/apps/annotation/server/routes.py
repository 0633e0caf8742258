"""Operations of the annotation service, with their bodies and parameters. See ``docs/annotate.md``."""

import asyncio
import io
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from cascade_srn.apps.annotation.agreement import measure_agreement
from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, RelationMark
from cascade_srn.apps.annotation.exchange import export_bytes, file_name, import_upload
from cascade_srn.apps.annotation.learning import Learner
from cascade_srn.apps.annotation.project import ADJUDICATED, MAX_NAME, TEACHER, OutdatedAnnotation, Project
from cascade_srn.apps.annotation.suggestions import QueueFilter, list_queue
from cascade_srn.apps.web.bodies import (
    BodyReader,
    JsonForm,
    Position,
    Several,
    wait_for_disconnect,
)
from cascade_srn.apps.web.refusals import (
    CLIENT_GONE,
    Refusal,
    json_response,
    unprocessable,
)
from cascade_srn.errors import CascadeError, TrainingError
from cascade_srn.formats.registry import FORMATS

T = TypeVar("T")

MAX_IMPORT = 64 << 20
MAX_TEXT, MAX_NOTE, MAX_MARKS = 1_000, 20_000, 20_000
DEFAULT_ANNOTATOR = "annotator"

Short = Annotated[str, Field(max_length=MAX_TEXT)]
Id = Annotated[str, Field(min_length=1, max_length=100)]
Origin = Literal["person", "model"]
Annotator = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Name of the annotator.")]


class EntityBody(JsonForm):
    """An entity: half-open character offsets on word boundaries, and a label."""

    id: Id
    start: Position
    end: Position
    label: Short
    origin: Origin = "person"


class RelationBody(JsonForm):
    """A relation. `head` and `tail` are ids of entities."""

    id: Id
    head: Id
    tail: Id
    label: Short
    origin: Origin = "person"


class AnnotationBody(JsonForm):
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


class _ProjectForm(BaseModel):
    """Base class of query parameters: no unknown ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnnotatorForm(_ProjectForm):
    """Whose annotation."""

    annotator: Annotator = DEFAULT_ANNOTATOR


class OverviewForm(_ProjectForm):
    """Whose documents are counted as done. Default: those of anyone."""

    annotator: Annotator | None = None


class QueueForm(AnnotatorForm):
    """A part of the list of documents."""

    state: Literal["", "new", "started", "done"] = ""
    search: Short = ""
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50


class TrainingForm(_ProjectForm):
    """Whether to learn from the text of open documents as well, which takes several times as long."""

    raw: bool = False


class AgreementForm(_ProjectForm):
    """Two annotators."""

    first: Annotator
    second: Annotator


class ExportForm(_ProjectForm):
    """Format of the file, and whose annotations; default: the adjudicated or last ones of each document."""

    format: Short = "jsonl"
    annotator: Annotator | None = None


class ImportForm(_ProjectForm):
    """Format of the body, and the name to store its annotations under."""

    format: Short = "jsonl"
    annotator: Annotator = "imported"


def project_routes(project: Project, learner: Learner, reader: BodyReader) -> APIRouter:
    """Make the routes of a project. Work that reads or writes files runs in threads."""
    router = APIRouter(prefix="/api")
    add_document_routes(router, project, learner, reader)
    add_training_routes(router, learner)
    add_exchange_routes(router, project, learner, reader)

    @router.get("/project")
    def overview(form: Annotated[OverviewForm, Query()]) -> Response:
        """Return the labels, guidelines and numbers of the project."""
        documents = list(project.documents.values())
        return json_response(
            {
                "name": project.name,
                "schema": project.labels.to_dict(),
                "guidelines": project.guidelines,
                "annotators": project.annotators,
                "n_documents": len(documents),
                "n_sentences": sum(len(document.sentences) for document in documents),
                "n_done": project.count_done(form.annotator),
                "has_model": learner.has_model,
                "training": learner.status(),
                "formats": sorted(FORMATS, key=lambda name: name != "jsonl"),
            }
        )

    @router.get("/agreement")
    def agreement(form: Annotated[AgreementForm, Query()]) -> Response:
        """Compare two annotators on the documents that both have done."""
        return json_response(_ask(lambda: measure_agreement(project, form.first, form.second).to_dict()))

    return router


def add_document_routes(router: APIRouter, project: Project, learner: Learner, reader: BodyReader) -> None:
    """Add the routes of documents and their annotations."""

    @router.get("/queue")
    def queue(form: Annotated[QueueForm, Query()]) -> Response:
        """List documents, the most useful ones first."""
        wanted = QueueFilter(form.annotator, form.state, form.search)
        return json_response(
            _ask(lambda: list_queue(project, learner.suggestions, wanted, offset=form.offset, limit=form.limit))
        )

    @router.get("/documents/{id:path}")
    def document(id: str, form: Annotated[AnnotatorForm, Query()]) -> Response:
        """Return a document with the annotation of a person and the suggestions of the model."""
        found = _find(project, id)
        learner.suggestions.refresh()
        return json_response(
            {
                "id": found.id,
                "text": found.text,
                "sentences": [
                    {"start": one.start, "end": one.end, "words": [list(pair) for pair in one.offsets]}
                    for one in found.sentences
                ],
                "annotation": project.annotation(id, form.annotator).to_dict(),
                "annotators": list(project.annotations(id)),
                "suggestions": learner.suggestions.get(id).to_dict(),
            }
        )

    async def store(request: Request, id: str, annotator: str, by: str = "") -> Response:
        _find(project, id)
        async with reader.read_json(request, AnnotationBody, asyncio.to_thread) as body:
            annotation = body.to_annotation()
        return await asyncio.to_thread(_store, project, id, annotator, annotation, by)

    @router.put("/documents/{id:path}/annotation")
    async def annotate(id: str, form: Annotated[AnnotatorForm, Query()], request: Request) -> Response:
        """Store the annotation of a document. It is on disk before the response is sent.

        A change that is based on an older version than the stored one is refused with 409 and the stored annotation.
        """
        if form.annotator == ADJUDICATED:
            raise unprocessable(f"the name {ADJUDICATED!r} is reserved", "Use the operation adjudication")
        if form.annotator == TEACHER:
            raise unprocessable(f"the name {TEACHER!r} is reserved for a language model", "Use another name")
        return await store(request, id, form.annotator)

    @router.post("/documents/{id:path}/adjudication")
    async def adjudicate(id: str, form: Annotated[AnnotatorForm, Query()], request: Request) -> Response:
        """Store the agreed annotation of a document. `annotator` is who decided."""
        return await store(request, id, ADJUDICATED, form.annotator)


def add_training_routes(router: APIRouter, learner: Learner) -> None:
    """Add the routes of training."""

    @router.get("/training")
    def training() -> Response:
        """Return the state of training, and the held-out scores of all runs."""
        return json_response(learner.status())

    @router.post("/training")
    def start(form: Annotated[TrainingForm, Query()]) -> Response:
        """Start to train in the background with all documents that are done."""
        _ask(lambda: learner.start(raw=form.raw))
        return json_response(learner.status(), HTTPStatus.ACCEPTED)

    @router.delete("/training")
    def cancel() -> Response:
        """Cancel the training. The model and suggestions before it are kept."""
        _ask(learner.cancel)
        return json_response(learner.status(), HTTPStatus.ACCEPTED)


def add_exchange_routes(router: APIRouter, project: Project, learner: Learner, reader: BodyReader) -> None:
    """Add the routes of export and import."""
    importing = asyncio.Lock()

    @router.get("/export", response_class=Response)
    def export(form: Annotated[ExportForm, Query()]) -> Response:
        """Return the documents that are done as a file, or as a ZIP archive for formats that are folders."""
        content = _ask(lambda: export_bytes(project, form.format, form.annotator))
        name = file_name(project, form.format)
        headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type="application/octet-stream")

    @router.post("/import")
    async def import_(form: Annotated[ImportForm, Query()], request: Request) -> Response:
        """Store the annotations of a file, which is the body. Unknown documents are added to the project."""
        has_left = threading.Event()

        def check() -> None:
            if has_left.is_set():
                raise Refusal(CLIENT_GONE, "client_gone", "the client disconnected")

        async with reader.read_file(request, MAX_IMPORT, "Import it with cascade-srn project import") as data:

            def work() -> dict[str, int]:
                done = import_upload(project, io.BytesIO(data), form.format, form.annotator, check)
                if done.documents:
                    learner.suggest()
                return {"documents": done.documents, "annotations": done.annotations}

            waiting = asyncio.ensure_future(wait_for_disconnect(request))
            waiting.add_done_callback(lambda _: has_left.set())
            try:
                async with importing:  # one at a time, because each takes memory
                    return json_response(await asyncio.to_thread(_ask, work))
            finally:
                # Also if the service is shutting down: the thread ends then, too.
                waiting.cancel()


def _find(project: Project, id: str) -> Any:
    if id not in project.documents:
        # The id is not quoted, because it may be a text that was sent by mistake.
        raise Refusal(HTTPStatus.NOT_FOUND, "not_found", "the project has no such document", "See the queue for all")
    return project.documents[id]


def _store(project: Project, id: str, annotator: str, annotation: Annotation, by: str) -> Response:
    try:
        saved = _ask(lambda: project.save(id, annotator, annotation, by=by))
    except OutdatedAnnotation as error:
        refusal = Refusal(HTTPStatus.CONFLICT, "outdated", error.problem, error.hint)
        return json_response(refusal.to_dict() | {"annotation": error.stored.to_dict()}, refusal.status)
    return json_response({"version": saved.version})


def _ask(work: Callable[[], T]) -> T:
    """Do something with the project. Its errors are those of the request."""
    try:
        return work()
    except (OutdatedAnnotation, Refusal):
        raise
    except TrainingError as error:
        raise Refusal(HTTPStatus.CONFLICT, "conflict", error.problem, error.hint) from error
    except CascadeError as error:
        raise unprocessable(error.problem, error.hint) from error
    except OSError as error:
        problem = f"the change could not be written ({error.strerror})"
        raise Refusal(
            HTTPStatus.INSUFFICIENT_STORAGE, "not_written", problem, "Check the disk and the permissions"
        ) from error
