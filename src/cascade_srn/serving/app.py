"""The service as an application that any ASGI server runs."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.render import environment
from cascade_srn.extractor import Extractor
from cascade_srn.serving.answering import Answerer
from cascade_srn.serving.engine import Engine
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.middleware import HostCheck, KeyCheck, Observer, SecurityHeaders
from cascade_srn.serving.refusals import Refusal, answer_http, answer_refusal
from cascade_srn.serving.routes import api_routes, describe, operations_page
from cascade_srn.serving.settings import ServeSettings
from cascade_srn.version import __version__

INDEX = "index.html"
# Named here: what the system's table says differs from machine to machine.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True)
class Asset:
    """Bytes that never change while the service runs, their type, and a tag by which browsers know them again."""

    content: bytes
    type: str

    @property
    def tag(self) -> str:
        """The entity tag."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_files() -> Iterator[tuple[str, Asset]]:
    """The files of the page, by name. What is not among them cannot be asked for."""
    folder = files("cascade_srn.serving").joinpath("page")
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        suffix = entry.name[entry.name.rfind(".") :] if "." in entry.name else ""
        if entry.is_file() and not entry.name.startswith((".", "_")) and suffix != ".py":
            kind = TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
            yield entry.name, Asset(entry.read_bytes(), kind)


def file_routes(app: FastAPI) -> APIRouter:
    """The page at /, its files by name, the style of drawings, and the list of operations at /docs."""
    router = APIRouter()
    assets = {f"/{name}": asset for name, asset in page_files()}
    if f"/{INDEX}" in assets:
        assets["/"] = assets.pop(f"/{INDEX}")
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), TYPES[".css"])
    assets["/docs"] = Asset(operations_page(app.openapi()).encode(), TYPES[".html"])
    for path, asset in assets.items():
        router.add_api_route(path, _endpoint(asset), methods=["GET", "HEAD"], include_in_schema=False)
    return router


def _endpoint(asset: Asset) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    # Revalidated each time: names stay the same from release to release.
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}

    async def answer(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if asset.tag in known or known == ["*"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers={**headers, "Content-Type": asset.type})

    return answer


def create_app(extractor: Extractor | Callable[[], Extractor], settings: ServeSettings | None = None) -> FastAPI:
    """The service over an extractor, or over a function that loads one while the service answers already.

    The model's thread lives as long as the application: it starts and ends with the server's lifespan.
    ``app.state.engine`` is what runs the model, ``app.state.answerer`` what does the rest.
    """
    settings = ServeSettings() if settings is None else settings
    environment()  # drawings need a library of the extra: better missed now than at the first drawing
    metrics = Metrics()
    engine = Engine(extractor, settings, metrics)
    metrics.gauge("cascade_srn_queue_texts", "Texts that wait for the model.", lambda: engine.waiting.n_texts)
    metrics.gauge("cascade_srn_queue_words", "Words that wait for the model.", lambda: engine.waiting.n_words)
    metrics.gauge("cascade_srn_ready", "1 once the model is loaded and warm.", lambda: engine.is_ready)
    answerer = Answerer(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()
        answerer.close()

    app = FastAPI(
        title="cascade-srn",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=_middleware(settings, metrics),
        exception_handlers={Refusal: answer_refusal, HTTPException: answer_http},
    )
    app.include_router(api_routes(answerer))
    described = describe(app)
    app.openapi = lambda: described  # type: ignore[method-assign]
    app.include_router(file_routes(app))
    app.state.engine = engine
    app.state.answerer = answerer
    return app


def _middleware(settings: ServeSettings, metrics: Metrics) -> list[Middleware]:
    """From the outside in."""
    layers = [
        Middleware(SecurityHeaders),  # on the answers of the observer, too
        Middleware(Observer, metrics=metrics),
        Middleware(HostCheck, host=settings.host, allowed=settings.allowed_hosts),
    ]
    if settings.cors_origins:
        # Outside the key: browsers ask for permission without it.
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-API-Key"],
                expose_headers=["Retry-After"],
            )
        )
    return [*layers, Middleware(KeyCheck, api_key=settings.api_key)]
