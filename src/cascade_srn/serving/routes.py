"""The operations of the service, each a few lines over the parts that do the work."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response

from cascade_srn.data.formats.brat_writing import write as write_brat
from cascade_srn.drawing import draw_document, draw_svg
from cascade_srn.errors import CascadeError
from cascade_srn.model_card import summarize
from cascade_srn.schema import Schema
from cascade_srn.serving import messages
from cascade_srn.serving.answering import ITEM, Answerer
from cascade_srn.serving.bodies import BodyBudget, read_message
from cascade_srn.serving.description import ERRORS
from cascade_srn.serving.metrics import CONTENT_TYPE
from cascade_srn.serving.orders import document_of, require_drawable
from cascade_srn.serving.refusals import json_answer, stopping, unprocessable
from cascade_srn.types import Document
from cascade_srn.version import __version__

M = TypeVar("M", bound=messages.Message)

ALWAYS = 1 << 30

DRAWINGS: dict[str, tuple[Callable[[Document, Schema], str], str]] = {
    "html": (lambda document, schema: draw_document(document, schema=schema, style=False), "text/html"),
    "svg": (lambda document, schema: draw_svg(document, schema=schema), "image/svg+xml"),
}
DRAWN: dict[str, Any] = {"content": {kind: {} for _, kind in DRAWINGS.values()}, "description": "The drawing."}
READING: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (401, 503)}


def api_routes(answerer: Answerer) -> APIRouter:
    """All operations that answer with data."""
    router = APIRouter()
    settings, engine = answerer.settings, answerer.engine
    budget = BodyBudget(settings.bodies_bytes)
    engine.metrics.gauge("cascade_srn_bodies_bytes", "Memory reserved for request bodies.", lambda: budget.n_bytes)

    @asynccontextmanager
    async def message(request: Request, form: type[M]) -> AsyncIterator[M]:
        """Read the body; its memory is reserved until the block ends."""

        def aside(work: Callable[[], M]) -> Awaitable[M]:
            answerer.arrived(request)  # all of the body has been read
            return answerer.aside(request, ALWAYS, work)

        request.state.deadline = asyncio.get_running_loop().time() + settings.request_seconds
        with budget.reservation() as reservation:
            yield await read_message(
                request,
                form,
                limits=settings.limits,
                reservation=reservation,
                seconds=settings.request_seconds,
                aside=aside,
            )

    async def sent(request: Request, form: messages.DocumentForm) -> Document:
        # Words are counted as well as characters: nothing has held them against the text yet.
        n_items = len(form.sentences) + len(form.entities) + len(form.relations)
        size = len(form.text) + sum(map(len, form.sentences)) + ITEM * n_items
        return await answerer.aside(request, size, lambda: document_of(form, settings.limits))

    @router.post("/extract", responses=ERRORS | {200: {"model": messages.ExtractAnswer}})
    async def extract(request: Request) -> Response:
        """Entities and relations of one text or several.

        Entities that are given with a text are taken as they are, and relations are sought between them.
        """
        async with message(request, messages.ExtractRequest) as asked:
            documents = await answerer.documents(request, asked)
            size = sum(len(document.text) + ITEM * n_found(document) for document in documents)
            return await answerer.aside(
                request, size, lambda: json_answer({"documents": [document.to_dict() for document in documents]})
            )

    @router.post("/draw", responses=ERRORS | {200: DRAWN}, response_class=Response)
    async def draw(request: Request) -> Response:
        """A text, or a document that was extracted before, as a drawing.

        As HTML it is a fragment to stand under /stylesheet.css, as SVG a picture of its own.
        """
        async with message(request, messages.DrawRequest) as asked:
            schema = answerer.extractor().schema
            if asked.document is not None:
                document = await sent(request, asked.document)
            else:
                (document,) = await answerer.documents(request, asked)
            draw_it, kind = DRAWINGS[asked.format]

            def drawn() -> str:
                require_drawable(document, settings.limits)
                return draw_it(document, schema)

            drawing = await answerer.aside(request, ALWAYS, drawn)
            return Response(drawing, headers={"Cache-Control": "no-store"}, media_type=kind)

    @router.post("/convert", responses=ERRORS | {200: {"model": messages.BratAnswer}})
    async def convert(request: Request) -> Response:
        """A document that was extracted before, as the two files of brat standoff."""
        async with message(request, messages.ConvertRequest) as asked:
            document = await sent(request, asked.document)
            return json_answer(await answerer.aside(request, ALWAYS, lambda: brat(document)))  # it goes through files

    @router.get("/schema", responses=READING | {200: {"model": messages.SchemaAnswer}})
    async def schema() -> Response:
        """The labels that the model knows, its thresholds, and the limits of the service."""
        return json_answer(described(answerer))

    @router.get("/health", responses={200: {"model": messages.StateAnswer}})
    async def health() -> Response:
        """Whether the service is alive."""
        return json_answer({"status": "alive"})

    @router.get("/ready", responses={200: {"model": messages.StateAnswer}, 503: READING[503]})
    async def ready() -> Response:
        """Whether the model is loaded and warm, so that texts can be sent."""
        answerer.extractor()
        if engine.is_stopping:
            raise stopping()
        return json_answer({"status": "ready"})

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}, 401: ERRORS[401]}, response_class=Response)
    async def metrics() -> Response:
        """Figures of the running service in the text format of Prometheus."""
        return Response(engine.metrics.text(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    return router


def n_found(document: Document) -> int:
    """How many entities and relations a document has."""
    return sum(len(sentence.entities) + len(sentence.triples) for sentence in document.sentences)


def described(answerer: Answerer) -> dict[str, Any]:
    """What /schema answers."""
    model, settings = answerer.extractor().model, answerer.settings
    return {
        "version": __version__,
        "model": {
            "name": settings.model_name or model.settings.encoder.name.rpartition("/")[2],
            "description": summarize(model.settings, model.schema),
        },
        **model.schema.to_dict(),
        "thresholds": model.settings.thresholds.to_dict(),
        "limits": settings.limits.to_dict(),
    }


def brat(document: Document) -> dict[str, str]:
    """The two files of a document in brat standoff, as their texts."""
    with tempfile.TemporaryDirectory(prefix="cascade-srn-") as folder:
        path = Path(folder) / "document.ann"
        try:
            write_brat([document], path)
        except CascadeError as error:
            raise unprocessable(str(error)) from error
        return {kind: path.with_suffix(f".{kind}").read_bytes().decode() for kind in ("txt", "ann")}
