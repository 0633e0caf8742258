"""Operations of the service, their OpenAPI description, and the page that shows it."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic.json_schema import models_json_schema

from cascade_srn.apps.service import messages
from cascade_srn.apps.service.handler import ANNOTATION_CHARACTERS, RequestHandler
from cascade_srn.apps.service.requests import check_drawable, read_document
from cascade_srn.apps.web.bodies import BodyBudget, read_message
from cascade_srn.apps.web.metrics import CONTENT_TYPE
from cascade_srn.apps.web.refusals import json_response, not_ready, shutting_down, unprocessable
from cascade_srn.drawing import draw_document, draw_svg
from cascade_srn.drawing.render import environment
from cascade_srn.errors import CascadeError
from cascade_srn.formats.brat import write as write_brat
from cascade_srn.model.card import summarize
from cascade_srn.schema import Schema
from cascade_srn.types import Document
from cascade_srn.version import __version__

REQUESTS = {"/extract": messages.ExtractRequest, "/draw": messages.DrawRequest, "/convert": messages.ConvertRequest}
_ERROR_DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    422: "The content of the body is invalid; see the message.",
    500: "The service failed.",
    503: "The service is not ready, full or shutting down; see Retry-After.",
    504: "The request was not finished in time.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.ErrorAnswer, "description": text} for status, text in _ERROR_DESCRIPTIONS.items()
}
GET_ERRORS: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (401, 503)}
LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
DESCRIPTION = "Entities and relations from text. Every error has the same form: a code and a message."


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of the service."""
    description = get_openapi(
        title="cascade-srn", version=__version__, description=DESCRIPTION, routes=app.routes, license_info=LICENSE
    )
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    forms = [(form, "validation") for form in REQUESTS.values()]
    _, found = models_json_schema(forms, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas |= found.get("$defs", {})
    for path, form in REQUESTS.items():
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form.__name__}"}}}
        description["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    description["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return description


def render_operations(description: Mapping[str, Any]) -> str:
    """Render the OpenAPI description as an HTML page."""
    template = files("cascade_srn.apps.web").joinpath("shared", "operations.html.jinja").read_text("utf-8")
    return environment().from_string(template).render(description, json=json.dumps)


M = TypeVar("M", bound=messages.Message)

# Size of work that never runs in the event loop.
LARGE = 1 << 30

DRAWINGS: dict[str, tuple[Callable[[Document, Schema], str], str]] = {
    "html": (lambda document, schema: draw_document(document, schema=schema, style=False), "text/html"),
    "svg": (lambda document, schema: draw_svg(document, schema=schema), "image/svg+xml"),
}
DRAWING_RESPONSE: dict[str, Any] = {
    "content": {content_type: {} for _, content_type in DRAWINGS.values()},
    "description": "The drawing.",
}


def api_routes(handler: RequestHandler) -> APIRouter:
    """Make the routes of all operations."""
    router = APIRouter()
    settings, engine = handler.settings, handler.engine
    budget = BodyBudget(settings.bodies_bytes)
    engine.metrics.add_gauge("cascade_srn_bodies_bytes", "Memory reserved for request bodies.", lambda: budget.n_bytes)

    @asynccontextmanager
    async def read_body(request: Request, form: type[M]) -> AsyncIterator[M]:
        """Read the body, and reserve its memory until the block ends."""

        def run_in_thread(work: Callable[[], M]) -> Awaitable[M]:
            handler.mark_arrived(request)  # the whole body was read
            return handler.run(request, LARGE, work)

        request.state.deadline = asyncio.get_running_loop().time() + settings.request_seconds
        with budget.reservation() as reservation:
            yield await read_message(
                request,
                form,
                limits=settings.limits,
                reservation=reservation,
                seconds=settings.request_seconds,
                run_in_thread=run_in_thread,
            )

    async def read_sent(request: Request, form: messages.DocumentForm) -> Document:
        # Words count as well as characters, because their offsets are not checked against the text yet.
        n_items = len(form.sentences) + form.n_annotations
        size = len(form.text) + sum(map(len, form.sentences)) + ANNOTATION_CHARACTERS * n_items
        return await handler.run(request, size, lambda: read_document(form, settings.limits))

    @router.post("/extract", responses=ERRORS | {200: {"model": messages.ExtractAnswer}})
    async def extract(request: Request) -> Response:
        """Find entities and relations in one text or several.

        If entities are sent with a text, the model only looks for relations between them.
        """
        async with read_body(request, messages.ExtractRequest) as body:
            documents = await handler.extract(request, body)
            n_annotations = sum(len(s.entities) + len(s.triples) for document in documents for s in document.sentences)
            size = sum(len(document.text) for document in documents) + ANNOTATION_CHARACTERS * n_annotations
            return await handler.run(
                request, size, lambda: json_response({"documents": [document.to_dict() for document in documents]})
            )

    @router.post("/draw", responses=ERRORS | {200: DRAWING_RESPONSE}, response_class=Response)
    async def draw(request: Request) -> Response:
        """Draw a text, or a document from a response of /extract.

        The HTML drawing is a fragment that needs /stylesheet.css. The SVG drawing stands alone.
        """
        async with read_body(request, messages.DrawRequest) as body:
            schema = handler.extractor().schema
            if body.document is not None:
                document = await read_sent(request, body.document)
            else:
                (document,) = await handler.extract(request, body)
            draw_as, content_type = DRAWINGS[body.format]

            def draw_checked() -> str:
                check_drawable(document, settings.limits)
                return draw_as(document, schema)

            drawing = await handler.run(request, LARGE, draw_checked)
            return Response(drawing, headers={"Cache-Control": "no-store"}, media_type=content_type)

    @router.post("/convert", responses=ERRORS | {200: {"model": messages.BratAnswer}})
    async def convert(request: Request) -> Response:
        """Convert a document from a response of /extract to the two files of the brat standoff format."""
        async with read_body(request, messages.ConvertRequest) as body:
            document = await read_sent(request, body.document)
            # Always in a thread, because it writes files.
            return json_response(await handler.run(request, LARGE, lambda: convert_to_brat(document)))

    @router.get("/schema", responses=GET_ERRORS | {200: {"model": messages.SchemaAnswer}})
    async def schema() -> Response:
        """Return the labels and thresholds of the model, and the limits of the service."""
        extractor = handler.extractor()
        model = extractor.model
        content = {
            "version": __version__,
            "model": {
                "name": settings.model_name or model.settings.encoder.name.rpartition("/")[2],
                "description": summarize(model.settings, model.schema),
            },
            "constraints": {},  # replaced if the schema has some
            **model.schema.to_dict(),
            "thresholds": model.settings.thresholds.to_dict(),
            "overlaps": extractor.overlaps,
            "limits": settings.limits.to_dict(),
        }
        return json_response(content)

    @router.get("/health", responses={200: {"model": messages.StateAnswer}})
    async def health() -> Response:
        """Check whether the service is alive."""
        return json_response({"status": "alive"})

    @router.get("/ready", responses={200: {"model": messages.StateAnswer}, 503: ERRORS[503]})
    async def ready() -> Response:
        """Check whether the model is loaded and the service accepts texts."""
        handler.extractor()
        if engine.is_stopping:
            raise shutting_down()
        if not engine.are_peers_ready():
            # The next request of the client may reach another worker.
            raise not_ready()
        return json_response({"status": "ready"})

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}, 401: ERRORS[401]}, response_class=Response)
    async def metrics() -> Response:
        """Return metrics in the Prometheus text format."""
        return Response(engine.metrics.render(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    return router


def convert_to_brat(document: Document) -> dict[str, str]:
    """Return the contents of the two brat files of a document."""
    with tempfile.TemporaryDirectory(prefix="cascade-srn-") as folder:
        path = Path(folder) / "document.ann"
        try:
            write_brat([document], path)
        except CascadeError as error:
            raise unprocessable(error.problem, error.hint) from error
        return {kind: path.with_suffix(f".{kind}").read_bytes().decode() for kind in ("txt", "ann")}
