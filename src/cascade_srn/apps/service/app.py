"""The service as an ASGI application."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.graph.explorer.queries import handle_invalid_query
from cascade_srn.apps.graph.explorer.routes import api_paths, graph_routes, page_routes
from cascade_srn.apps.service.engine import Engine
from cascade_srn.apps.service.handler import RequestHandler
from cascade_srn.apps.service.routes import api_routes, describe_api, render_operations
from cascade_srn.apps.web.assets import CONTENT_TYPES, Asset, add_assets, page_assets, show_links
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.middleware import (
    PROTECTED,
    AccessLogMiddleware,
    HostCheck,
    KeyCheck,
    SecurityHeaders,
)
from cascade_srn.apps.web.refusals import Refusal, handle_http_error, handle_refusal
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.render import environment
from cascade_srn.extractor import Extractor
from cascade_srn.version import __version__

# Where the explorer of a graph is.
GRAPH_PATH = "/graph"


def file_routes(app: FastAPI, *, has_graph: bool = False) -> APIRouter:
    """Make the routes of static files: the page, the library that draws graphs, the style of drawings, and /docs."""
    router = APIRouter()
    assets = page_assets("service/page")
    index = assets.pop("/index.html")
    assets["/"] = show_links(index) if has_graph else index
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), CONTENT_TYPES[".css"])
    assets["/docs"] = Asset(render_operations(app.openapi()).encode(), CONTENT_TYPES[".html"])
    add_assets(router, assets)
    return router


def graph_page(graph: APIRouter) -> APIRouter:
    """Make the routes of the explorer as a part of the service: its questions, its page, and the path without slash."""
    router = APIRouter(prefix=GRAPH_PATH)
    router.include_router(graph)
    router.include_router(page_routes())

    # Relative, because a proxy may add a prefix.
    async def add_slash() -> Response:
        return RedirectResponse(f"{GRAPH_PATH.removeprefix('/')}/", status_code=308)

    router.add_api_route("", add_slash, methods=["GET", "HEAD"], include_in_schema=False)
    return router


def create_app(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    metrics: Metrics | None = None,
    *,
    graph: Explorer | None = None,
) -> FastAPI:
    """Make the ASGI application of the service.

    The thread of the model starts and ends with the lifespan of the application. A graph is closed with it.

    Args:
        extractor: The extractor to serve, or a function that loads one in the background.
        settings: Settings of the service; the defaults if left out.
        metrics: Where to count; new metrics if left out.
        graph: A graph to explore at ``/graph/``; none if left out.

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
    graph_api = None if graph is None else graph_routes(graph)
    protected = PROTECTED | {f"{GRAPH_PATH}{path}" for path in api_paths(graph_api)}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()
        handler.close()
        if graph is not None:
            graph.close()

    app = FastAPI(
        title="cascade-srn",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=middleware_layers(settings, metrics, protected),
        exception_handlers={
            Refusal: handle_refusal,
            HTTPException: handle_http_error,
            RequestValidationError: handle_invalid_query,
        },
    )
    app.include_router(api_routes(handler))
    if graph_api is not None:
        app.include_router(graph_page(graph_api))
    description = describe_api(app)
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.include_router(file_routes(app, has_graph=graph is not None))
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
