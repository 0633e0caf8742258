"""Operations of the annotation service. See ``docs/annotate.md`` for the whole interface."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cascade_srn.apps.annotation.agreement import measure_agreement
from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.exchange import export_bytes, file_name, import_upload
from cascade_srn.apps.annotation.learning import Learner
from cascade_srn.apps.annotation.project import ADJUDICATED, OutdatedAnnotation, Project
from cascade_srn.apps.annotation.server import forms
from cascade_srn.apps.annotation.suggestions import QueueFilter, list_queue
from cascade_srn.apps.web.bodies import BodyBudget, Reservation, read_message, wait_for_disconnect
from cascade_srn.apps.web.refusals import (
    CLIENT_GONE,
    Refusal,
    handle_http_error,
    json_response,
    unprocessable,
)
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import CascadeError, TrainingError, did_you_mean
from cascade_srn.formats.registry import FORMATS

T = TypeVar("T")

MAX_IMPORT = 64 << 20


def project_routes(project: Project, learner: Learner, settings: ServeSettings) -> APIRouter:
    """Make the routes of a project. Work that reads or writes files runs in threads."""
    router = APIRouter(prefix="/api")
    budget = BodyBudget(settings.bodies_bytes)
    add_document_routes(router, project, learner, settings, budget)
    add_training_routes(router, learner)
    add_exchange_routes(router, project, learner, settings, budget)

    @router.get("/project")
    def overview(form: Annotated[forms.ProjectQuery, Query()]) -> Response:
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
    def agreement(form: Annotated[forms.AgreementQuery, Query()]) -> Response:
        """Compare two annotators on the documents that both have done."""
        return json_response(_ask(lambda: measure_agreement(project, form.first, form.second).to_dict()))

    return router


def add_document_routes(
    router: APIRouter, project: Project, learner: Learner, settings: ServeSettings, budget: BodyBudget
) -> None:
    """Add the routes of documents and their annotations."""

    @router.get("/queue")
    def queue(form: Annotated[forms.QueueQuery, Query()]) -> Response:
        """List documents, the most useful ones first."""
        wanted = QueueFilter(form.annotator, form.state, form.search)
        return json_response(
            _ask(lambda: list_queue(project, learner.suggestions, wanted, offset=form.offset, limit=form.limit))
        )

    @router.get("/documents/{id:path}")
    def document(id: str, form: Annotated[forms.AnnotatorQuery, Query()]) -> Response:
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
        with budget.reservation() as reservation:
            body = await read_message(
                request,
                forms.AnnotationBody,
                limits=settings.limits,
                reservation=reservation,
                seconds=settings.request_seconds,
                run_in_thread=_in_thread,
            )
            annotation = body.to_annotation()
        return await asyncio.to_thread(_store, project, id, annotator, annotation, by)

    @router.put("/documents/{id:path}/annotation")
    async def annotate(id: str, form: Annotated[forms.AnnotatorQuery, Query()], request: Request) -> Response:
        """Store the annotation of a document. It is on disk before the response is sent.

        A change that is based on an older version than the stored one is refused with 409 and the stored annotation.
        """
        if form.annotator == ADJUDICATED:
            raise unprocessable(f"the name {ADJUDICATED!r} is reserved", "Use the operation adjudication")
        return await store(request, id, form.annotator)

    @router.post("/documents/{id:path}/adjudication")
    async def adjudicate(id: str, form: Annotated[forms.AnnotatorQuery, Query()], request: Request) -> Response:
        """Store the agreed annotation of a document. `annotator` is who decided."""
        return await store(request, id, ADJUDICATED, form.annotator)


def add_training_routes(router: APIRouter, learner: Learner) -> None:
    """Add the routes of training."""

    @router.get("/training")
    def training() -> Response:
        """Return the state of training, and the held-out scores of all runs."""
        return json_response(learner.status())

    @router.post("/training")
    def start() -> Response:
        """Start to train in the background with all documents that are done."""
        _ask(learner.start)
        return json_response(learner.status(), HTTPStatus.ACCEPTED)

    @router.delete("/training")
    def cancel() -> Response:
        """Cancel the training. The model and suggestions before it are kept."""
        _ask(learner.cancel)
        return json_response(learner.status(), HTTPStatus.ACCEPTED)


def add_exchange_routes(
    router: APIRouter, project: Project, learner: Learner, settings: ServeSettings, budget: BodyBudget
) -> None:
    """Add the routes of export and import."""
    importing = asyncio.Lock()

    @router.get("/export", response_class=Response)
    def export(form: Annotated[forms.ExportQuery, Query()]) -> Response:
        """Return the documents that are done as a file, or as a ZIP archive for formats that are folders."""
        content = _ask(lambda: export_bytes(project, form.format, form.annotator))
        name = file_name(project, form.format)
        headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, headers=headers, media_type="application/octet-stream")

    @router.post("/import")
    async def import_(form: Annotated[forms.ImportQuery, Query()], request: Request) -> Response:
        """Store the annotations of a file, which is the body. Unknown documents are added to the project."""
        has_left = threading.Event()

        def check() -> None:
            if has_left.is_set():
                raise _client_gone()

        def work() -> dict[str, int]:
            done = import_upload(project, upload, form.format, form.annotator, check)
            if done.documents:
                learner.suggest()
            return {"documents": done.documents, "annotations": done.annotations}

        with budget.reservation() as reservation, TemporaryFile() as upload:
            await _read_file(request, upload, reservation, settings.request_seconds)
            waiting = asyncio.ensure_future(wait_for_disconnect(request))
            waiting.add_done_callback(lambda _: has_left.set())
            try:
                async with importing:  # one at a time, because each takes memory
                    return json_response(await asyncio.to_thread(_ask, work))
            finally:
                # Also if the service is shutting down: the thread ends then, too.
                waiting.cancel()


async def _read_file(request: Request, upload: BinaryIO, reservation: Reservation, seconds: float) -> None:
    """Write a body that is a file to an open file, within limits of size and time."""
    n_bytes = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes > MAX_IMPORT:
                    raise Refusal(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        "body_too_large",
                        f"the file has more than {MAX_IMPORT:,} bytes",
                        "Import it with cascade-srn project import",
                        {"Connection": "close"},
                    )
                reservation.add(len(chunk))
                upload.write(chunk)
    except TimeoutError:
        problem = f"the file did not arrive within {seconds:g} s"
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", problem, "Send it again") from None
    except ClientDisconnect:
        raise _client_gone() from None
    # The connection ends a body early if it is invalid or the service is shutting down.
    refusal = getattr(request.state, "refusal", None)
    if refusal is not None:
        raise refusal
    upload.seek(0)


def _client_gone() -> Refusal:
    return Refusal(CLIENT_GONE, "client_gone", "the client disconnected")


def _find(project: Project, id: str) -> Any:
    if id not in project.documents:
        # The id is not quoted, because it may be a text that was sent by mistake.
        raise Refusal(HTTPStatus.NOT_FOUND, "not_found", "the project has no such document", "See the queue for all")
    return project.documents[id]


def _store(project: Project, id: str, annotator: str, annotation: Annotation, by: str) -> Response:
    try:
        saved = _ask(lambda: project.save(id, annotator, annotation, by=by))
    except OutdatedAnnotation as error:
        content = _error_body(Refusal(HTTPStatus.CONFLICT, "outdated", error.problem, error.hint))
        return json_response(content | {"annotation": error.stored.to_dict()}, HTTPStatus.CONFLICT)
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


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


def _error_body(refusal: Refusal) -> dict[str, Any]:
    parts = {"code": refusal.code, "message": refusal.message(), "problem": refusal.problem, "hint": refusal.hint}
    return {"error": parts}


async def handle_refusal(request: Request, error: Exception) -> Response:
    """Handle a refusal: the response also has problem and hint apart."""
    assert isinstance(error, Refusal)
    return json_response(_error_body(error), error.status, error.headers)


async def handle_invalid_query(request: Request, error: Exception) -> Response:
    """Handle query parameters that do not fit their form. The values are not quoted."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(next((part for part in first["loc"][1:] if isinstance(part, str)), "query"))[:40]
    if first["type"] == "missing":
        refusal = unprocessable(f"the parameter {name} is missing", "See /docs for all parameters")
    elif first["type"] == "extra_forbidden":
        known = {field for form in forms.QUERIES for field in form.model_fields}
        refusal = unprocessable(f"there is no parameter {name!r}", did_you_mean(name, known))
    else:
        reason = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
        refusal = unprocessable(f"the parameter {name} is invalid", f"Expected: {reason}")
    return await handle_refusal(request, refusal)


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    Refusal: handle_refusal,
    HTTPException: handle_http_error,
    RequestValidationError: handle_invalid_query,
}
