"""The service as an ASGI application: its operations, files and model.

:class:`RequestHandler` processes requests within their time limit: it prepares the texts, queues them for the model and
waits for the result.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from cascade_srn.apps.service import messages
from cascade_srn.apps.service.engine import ModelEngine
from cascade_srn.apps.service.messages import DrawRequest, ExtractRequest
from cascade_srn.apps.service.queue import QueueClosed, QueueFull, RequestTooLarge
from cascade_srn.apps.service.requests import (
    check_drawable,
    check_lengths,
    count_given,
    prepare_items,
    read_document,
    refuse_text,
    request_texts,
)
from cascade_srn.apps.web.app import StateAnswer, WebPart, create_web_app, error_responses, page_assets, show_links
from cascade_srn.apps.web.bodies import BodyReader, JsonForm, wait_for_disconnect
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import CLIENT_GONE, Refusal, json_response, shutting_down, unavailable, unprocessable
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing import draw_document, draw_svg
from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.formats.brat import write as write_brat
from cascade_srn.model.card import summarize
from cascade_srn.schema import Schema
from cascade_srn.types import Document
from cascade_srn.version import __version__

T = TypeVar("T")

# Longer texts are processed in a thread, because all requests share the event loop.
INLINE_CHARACTERS = 4_000
# Still longer texts are processed in a second thread.
LARGE_CHARACTERS = 50_000
# Size of an entity, a relation or a sentence in characters, to decide where to process it.
ANNOTATION_CHARACTERS = 50


class RequestHandler:
    """Runs the work of requests: the model's in the engine, other work in the event loop or in background threads."""

    def __init__(self, engine: ModelEngine) -> None:
        self.engine = engine
        self.settings = engine.settings
        # One thread for large work and one for the rest, so that the rest does not wait behind it. More threads would
        # compete with the model for the interpreter.
        self._pools = [
            ThreadPoolExecutor(1, thread_name_prefix="cascade-srn-background", initializer=_lower_priority)
            for _ in range(2)
        ]
        self._in_progress: set[Future[Any]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether work in background threads is in progress or waiting."""
        return bool(self._in_progress)

    def extractor(self) -> Extractor:
        """Return the model."""
        if self.engine.extractor is not None:
            return self.engine.extractor
        if self.engine.failure is not None:
            raise unavailable(
                "not_loaded", "the model could not be loaded", "See the log of the service", retry_after=60
            )
        raise unavailable("not_ready", "the model is still being loaded", "Try again soon", retry_after=2)

    async def extract(self, request: Request, body: ExtractRequest | DrawRequest) -> list[Document]:
        """Run the model on the texts of a request."""
        extractor, limits = self.extractor(), self.settings.limits
        texts = request_texts(body)
        check_lengths(texts, limits)
        if self.engine.queue.is_full:
            raise self._queue_full()
        size = sum(map(len, texts)) + ANNOTATION_CHARACTERS * count_given(body)
        try:
            items = await self.run(
                request, size, lambda: prepare_items(body, extractor, limits, max_cost=self.settings.queue_words)
            )
            queued = self.engine.submit(items)
        except QueueFull:
            raise self._queue_full() from None
        except RequestTooLarge:
            self.engine.counted.refused.inc()
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "request_too_large",
                f"the texts cost more than {self.settings.queue_words:,} words, the size of the queue",
                "Send fewer or shorter texts. Long words count by their word pieces",
            ) from None
        except QueueClosed:
            raise shutting_down() from None
        try:
            outcomes = await self._wait(request, queued.future, lambda: queued.progressed)
        except BaseException:
            self.engine.drop(queued)
            raise
        # The response has its own time: a long text has used that of the request.
        now = asyncio.get_running_loop().time()
        request.state.deadline = max(request.state.deadline, now + self.settings.request_seconds)
        return [_require_document(position, outcome) for position, outcome in enumerate(outcomes)]

    async def run(self, request: Request, size: int, work: Callable[[], T]) -> T:
        """Run work in the event loop if its size in characters is small, else in a background thread."""
        if size <= INLINE_CHARACTERS:
            return work()
        future = self._pools[size > LARGE_CHARACTERS].submit(work)
        self._in_progress.add(future)
        future.add_done_callback(self._in_progress.discard)
        try:
            return await self._wait(request, future)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Start no more work. Work in progress continues and is not waited for."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, request: Request, future: Future[T], progressed: Callable[[], float] | None = None) -> T:
        """Return the result of a future, unless the request times out or the client disconnects first.

        ``progressed`` returns the time of the last progress, from which the time limit counts again. The text of a
        request may be long and the machine slow, so that no fixed limit fits both. What must not happen is that a
        client waits for nothing.
        """
        result = asyncio.wrap_future(future)
        disconnected = asyncio.ensure_future(wait_for_disconnect(request))
        waited: set[asyncio.Future[Any]] = {result, disconnected}

        def seconds_left() -> float:
            deadline: float = request.state.deadline
            if progressed is not None:
                deadline = max(deadline, progressed() + self.settings.request_seconds)
            return deadline - asyncio.get_running_loop().time()

        try:
            # At least once, because the result may be there already.
            await asyncio.wait(waited, timeout=max(0.0, seconds_left()), return_when=asyncio.FIRST_COMPLETED)
            while not result.done() and not disconnected.done() and (left := seconds_left()) > 0:
                await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if disconnected.done():
                raise Refusal(CLIENT_GONE, "client_gone", "the client disconnected")
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT,
                "timeout",
                f"there was no progress with the request for {self.settings.request_seconds:g} s",
                "Send less text, or try again later",
            )
        finally:
            disconnected.cancel()
            result.cancel()
            with suppress(asyncio.CancelledError):
                await disconnected

    def _queue_full(self) -> Refusal:
        self.engine.counted.refused.inc()
        return unavailable("queue_full", "the request queue is full", "Try again soon", retry_after=1)


def _lower_priority() -> None:
    """Give the model and the event loop priority over this thread. Linux only."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def _require_document(position: int, outcome: Document | Exception) -> Document:
    if isinstance(outcome, Document):
        return outcome
    if isinstance(outcome, CascadeError):
        raise refuse_text(position, outcome)
    raise Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "model_failed",
        f"text {position}: the model failed on it ({type(outcome).__name__})",
        "Send the other texts without it",
    )


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
