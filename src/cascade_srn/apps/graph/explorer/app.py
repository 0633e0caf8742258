"""The explorer as an ASGI application: JSON about neighbourhoods of a graph, and a page that draws them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.graph.explorer.queries import handle_invalid_query
from cascade_srn.apps.graph.explorer.routes import api_paths, graph_routes, page_routes
from cascade_srn.apps.service.app import middleware_layers
from cascade_srn.apps.service.routes import LICENSE
from cascade_srn.apps.service.run import serve_app
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import Refusal, handle_http_error, handle_refusal, json_response
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing.render import environment
from cascade_srn.version import __version__

DESCRIPTION = "Neighbourhoods, evidence and rankings of a graph. Every error has the same form: a code and a message."


def create_explorer(explorer: Explorer, settings: ServeSettings | None = None) -> FastAPI:
    """Make the ASGI application that serves a graph.

    The database is closed with the lifespan of the application.

    Args:
        explorer: The graph.
        settings: Settings of the service; those about the model are not used.

    Returns:
        The application. ``app.state.metrics`` counts its requests.

    Example:
        >>> app = create_explorer(Explorer("graph"))  # doctest: +SKIP
    """
    settings = ServeSettings() if settings is None else settings
    environment()  # fails now, and not at the first drawing, if jinja2 is missing
    metrics = Metrics()
    routes = graph_routes(explorer)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        explorer.close()

    app = FastAPI(
        title="cascade-srn graph",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=middleware_layers(settings, metrics, api_paths(routes)),
        exception_handlers={
            Refusal: handle_refusal,
            HTTPException: handle_http_error,
            RequestValidationError: handle_invalid_query,
        },
    )
    app.include_router(routes)

    @app.get("/health")
    def health() -> Response:
        """Check whether the service is alive."""
        return json_response({"status": "alive"})

    description = get_openapi(
        title=app.title, version=__version__, description=DESCRIPTION, routes=app.routes, license_info=LICENSE
    )
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.include_router(page_routes(description))
    app.state.metrics = metrics
    return app


def serve_graph(
    folder: str | Path, settings: ServeSettings | None = None, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve the graph in a folder until SIGINT or SIGTERM.

    Args:
        folder: A folder that :func:`cascade_srn.apps.graph.build` has written.
        settings: Settings of the service; those about the model are not used.
        on_ready: Called with the URL when the service accepts requests.

    Raises:
        DataError: The folder has no graph, or a damaged one.
        ConfigError: The service cannot listen on the address, or an extra is missing.
    """
    settings = ServeSettings() if settings is None else settings
    app = create_explorer(Explorer(folder), settings)
    serve_app(app, settings, app.state.metrics, on_ready=on_ready)
