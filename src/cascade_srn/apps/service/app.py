"""The service as an ASGI application: its operations, files and model."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from cascade_srn.apps.service import messages
from cascade_srn.apps.service.engine import ModelEngine
from cascade_srn.apps.service.handler import ANNOTATION_CHARACTERS, RequestHandler
from cascade_srn.apps.service.requests import check_drawable, read_document
from cascade_srn.apps.web.app import StateAnswer, WebPart, create_web_app, error_responses
from cascade_srn.apps.web.assets import page_assets, show_links
from cascade_srn.apps.web.bodies import BodyReader, JsonForm
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import json_response, unprocessable
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing import draw_document, draw_svg
from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.formats.brat import write as write_brat
from cascade_srn.model.card import summarize
from cascade_srn.schema import Schema
from cascade_srn.types import Document
from cascade_srn.version import __version__

M = TypeVar("M", bound=JsonForm)

DESCRIPTION = "Entities and relations from text. Every error has the same form: a code and a message."
BODIES: dict[str, type[JsonForm]] = {
    "/extract": messages.ExtractRequest,
    "/draw": messages.DrawRequest,
    "/convert": messages.ConvertRequest,
}
ERRORS = error_responses(
    {
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
)
GET_ERRORS: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (401, 503)}
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


def create_app(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    metrics: Metrics | None = None,
    *,
    parts: Mapping[str, WebPart] | None = None,
) -> FastAPI:
    """Make the ASGI application of the service.

    The thread of the model starts and ends with the lifespan of the application.

    Args:
        extractor: The extractor to serve, or a function that loads one in the background.
        settings: Settings of the service; the defaults if left out.
        metrics: Where to count; new metrics if left out.
        parts: Other applications by their path, such as the explorer of a graph at ``/graph``.

    Returns:
        The application. ``app.state.engine`` runs the model, ``app.state.handler`` runs all other work.

    Example:
        >>> app = create_app(Extractor.from_pretrained(), ServeSettings(queue_texts=500))
    """
    settings = ServeSettings() if settings is None else settings
    metrics = Metrics() if metrics is None else metrics
    engine = ModelEngine(extractor, settings, metrics)
    handler = RequestHandler(engine)
    assets = page_assets("service/page")
    if parts:
        assets["/index.html"] = show_links(assets["/index.html"])

    def close() -> None:
        engine.close()
        handler.close()

    own = WebPart(_operations(handler), assets, BODIES, engine.start, close)
    app = create_web_app(own, settings, metrics, title="cascade-srn", description=DESCRIPTION, parts=parts)
    app.state.engine = engine
    app.state.handler = handler
    return app


def _operations(handler: RequestHandler) -> APIRouter:
    """Make the routes of the operations."""
    router = APIRouter()
    settings, engine = handler.settings, handler.engine
    reader = BodyReader(settings, engine.metrics)

    def read_body(request: Request, form: type[M]) -> AbstractAsyncContextManager[M]:
        request.state.deadline = asyncio.get_running_loop().time() + settings.request_seconds
        return reader.read_json(request, form, lambda work: handler.run(request, LARGE, work))

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

    @router.get("/ready", responses={200: {"model": StateAnswer}, 503: ERRORS[503]})
    async def ready() -> Response:
        """Check whether the model is loaded and warm."""
        handler.extractor()
        return json_response({"status": "ready"})

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
