"""The service as an ASGI application."""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.render import environment
from cascade_srn.extractor import Extractor
from cascade_srn.serving.engine import Engine
from cascade_srn.serving.handler import RequestHandler
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.middleware import PROTECTED, AccessLogMiddleware, HostCheck, KeyCheck, SecurityHeaders
from cascade_srn.serving.refusals import Refusal, handle_http_error, handle_refusal
from cascade_srn.serving.routes import api_routes, describe_api, render_operations
from cascade_srn.serving.settings import ServeSettings
from cascade_srn.version import __version__

# Files with other suffixes are not served. The tables of the system are not used, because they differ.
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A static file: its content and content type."""

    content: bytes
    type: str

    @property
    def tag(self) -> str:
        """Entity tag for the cache of browsers."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_files(*folder: str) -> Iterator[tuple[str, Asset]]:
    """Yield the files of a page with their names. No other files are served."""
    place = files("cascade_srn.serving").joinpath(*(folder or ("page",)))
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        content_type = CONTENT_TYPES.get(Path(entry.name).suffix)
        if content_type is not None:
            yield entry.name, Asset(entry.read_bytes(), content_type)


def file_routes(app: FastAPI) -> APIRouter:
    """Make the routes of static files: the page, the style of drawings, and /docs."""
    router = APIRouter()
    assets = {f"/{name}": asset for name, asset in page_files()}
    assets["/"] = assets.pop("/index.html")
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), CONTENT_TYPES[".css"])
    assets["/docs"] = Asset(render_operations(app.openapi()).encode(), CONTENT_TYPES[".html"])
    add_assets(router, assets)
    return router


def add_assets(router: APIRouter, assets: Mapping[str, Asset]) -> None:
    """Add a route for each static file, by its path."""
    for path, asset in assets.items():
        router.add_api_route(path, _endpoint(asset), methods=["GET", "HEAD"], include_in_schema=False)


def _endpoint(asset: Asset) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    # Revalidated on each use, because names stay the same across releases.
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}

    async def respond(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if asset.tag in known or known == ["*"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers={**headers, "Content-Type": asset.type})

    return respond


def create_app(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """Make the ASGI application of the service.

    The thread of the model starts and ends with the lifespan of the application.

    Args:
        extractor: The extractor to serve, or a function that loads one in the background.
        settings: Settings of the service; the defaults if left out.
        metrics: Where to count; new metrics if left out.

    Returns:
        The application. ``app.state.engine`` runs the model, ``app.state.handler`` runs all other work.

    Example:
        >>> app = create_app(Extractor.from_pretrained(), ServeSettings(queue_texts=500))
    """
    settings = ServeSettings() if settings is None else settings
    environment()  # fails now, and not at the first drawing, if jinja2 is missing
    metrics = Metrics() if metrics is None else metrics
    engine = Engine(extractor, settings, metrics)
    metrics.add_gauge("cascade_srn_queue_texts", "Texts that wait for the model.", lambda: engine.queue.n_texts)
    metrics.add_gauge("cascade_srn_queue_words", "Words that wait for the model.", lambda: engine.queue.n_words)
    metrics.add_gauge("cascade_srn_ready", "1 if the model is loaded and warm, else 0.", lambda: engine.is_ready)
    handler = RequestHandler(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()
        handler.close()

    app = FastAPI(
        title="cascade-srn",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=middleware_layers(settings, metrics),
        exception_handlers={Refusal: handle_refusal, HTTPException: handle_http_error},
    )
    app.include_router(api_routes(handler))
    description = describe_api(app)
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.include_router(file_routes(app))
    app.state.engine = engine
    app.state.handler = handler
    return app


def middleware_layers(
    settings: ServeSettings, metrics: Metrics, protected: Collection[str] = PROTECTED
) -> list[Middleware]:
    """Return the middleware, outermost first. ``protected`` are the paths that need the API key."""
    layers = [
        Middleware(SecurityHeaders),  # outermost, so that error responses of the access log have the headers, too
        Middleware(AccessLogMiddleware, metrics=metrics),
        Middleware(HostCheck, host=settings.host, allowed=settings.allowed_hosts),
    ]
    if settings.cors_origins:
        # Before the key check, because browsers send preflight requests without the key.
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-API-Key"],
                expose_headers=["Retry-After"],
            )
        )
    return [*layers, Middleware(KeyCheck, api_key=settings.api_key, protected=protected)]
