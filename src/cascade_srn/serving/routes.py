"""The operations of the service, each a few lines over the parts that do the work."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from pydantic.json_schema import models_json_schema

from cascade_srn.data.formats.brat import write as write_brat
from cascade_srn.drawing import draw_document, draw_svg
from cascade_srn.errors import CascadeError
from cascade_srn.model.card import summarize
from cascade_srn.schema import Schema
from cascade_srn.serving import messages
from cascade_srn.serving.answering import ITEM, Answerer
from cascade_srn.serving.bodies import BodyBudget, read_message
from cascade_srn.serving.metrics import CONTENT_TYPE
from cascade_srn.serving.refusals import json_answer, stopping, unprocessable
from cascade_srn.serving.requests import document_of, require_drawable
from cascade_srn.types import Document
from cascade_srn.version import __version__

REQUESTS = {
    "/extract": messages.ExtractRequest,
    "/draw": messages.DrawRequest,
    "/convert": messages.ConvertRequest,
}
_REASONS = {
    400: "The body is not JSON.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    422: "Something in the body is not as it should be; the message says what.",
    500: "The service failed.",
    503: "Not ready, full, or being stopped; Retry-After says when to try again.",
    504: "The answer was not there in time.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.ErrorAnswer, "description": reason} for status, reason in _REASONS.items()
}
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
DESCRIPTION = "Entities and relations from text. Every error has the same form: a code and a message."


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of the service."""
    described = get_openapi(
        title="cascade-srn", version=__version__, description=DESCRIPTION, routes=app.routes, license_info=LICENCE
    )
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    forms = [(form, "validation") for form in REQUESTS.values()]
    _, found = models_json_schema(forms, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas |= found.get("$defs", {})
    for path, form in REQUESTS.items():
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form.__name__}"}}}
        described["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    described["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return described


STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;"
    "padding:0 1rem}h2{margin-top:2.5rem}code,pre{font-family:ui-monospace,monospace;font-size:.9em}"
    "pre{overflow-x:auto;padding:.75rem;border:1px solid #8886;border-radius:.4rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}"
)


def operations_page(described: Mapping[str, Any]) -> str:
    """The description as a page to read."""
    info = described["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))}</p>",
        '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, methods in described["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    parts.append("<h2>Forms</h2>")
    for name, form in described["components"]["schemas"].items():
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_shown(form)}')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}: operations</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>"
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    description = "".join(f"<p>{escape(part)}</p>" for part in operation.get("description", "").split("\n\n") if part)
    body = "".join(
        f"<p>Body: <code>{escape(kind)}</code>, {_link(content['schema'])}</p>"
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    rows = "".join(_answer(status, answer) for status, answer in operation["responses"].items())
    return f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>{description}{body}<table>{rows}</table>"


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    kinds = answer.get("content", {})
    forms = ", ".join(
        f"<code>{escape(kind)}</code> {_link(content.get('schema', {}))}" for kind, content in kinds.items()
    )
    return f"<tr><th>{escape(status)}</th><td>{escape(answer['description'])}</td><td>{forms}</td></tr>"


def _link(schema: Mapping[str, Any]) -> str:
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>' if name else ""


def _shown(form: Mapping[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(form, indent=2, ensure_ascii=False))}</pre>"


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
