"""The annotation service as an ASGI application: JSON about a project, and a page to annotate it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import Scope

from cascade_srn.apps.annotation.learning import Learner
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.server.routes import HANDLERS, project_routes
from cascade_srn.apps.service.app import middleware_layers
from cascade_srn.apps.service.routes import LICENSE, render_operations
from cascade_srn.apps.service.run import serve_app
from cascade_srn.apps.web.assets import CONTENT_TYPES, Asset, add_assets, page_assets
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.middleware import Check
from cascade_srn.apps.web.refusals import Refusal, json_response
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.render import environment
from cascade_srn.version import __version__

DESCRIPTION = "Documents, annotations and training of a project. Every error has a code, a problem and a hint."
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class OriginCheck(Check):
    """Refuses changes that a page of another origin asks for.

    Browsers send some requests of foreign pages, such as a POST without a body, without asking the service first.
    """

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return a refusal if the request is a change and comes from another origin."""
        if scope["method"] in SAFE_METHODS:
            return None
        headers = Headers(scope=scope)
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none")
        else:
            is_own = origin is None or urlsplit(origin).netloc == headers.get("host")
        if is_own:
            return None
        return Refusal(403, "foreign_origin", "the request comes from a page of another site", "Use the page itself")


def page_routes(description: Mapping[str, Any]) -> APIRouter:
    """Make the routes of static files: the page, the style of drawings, and /docs."""
    router = APIRouter()
    assets = page_assets("annotation/page")
    assets["/"] = assets.pop("/index.html")
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), CONTENT_TYPES[".css"])
    assets["/docs"] = Asset(render_operations(description).encode(), CONTENT_TYPES[".html"])
    add_assets(router, assets)
    return router


def create_annotator(project: Project, settings: ServeSettings | None = None) -> FastAPI:
    """Make the ASGI application that serves a project.

    The project is closed with the lifespan of the application. If it has a model and no suggestions, these are computed
    in the background.

    Args:
        project: A project that is open for writing.
        settings: Settings of the service; those about the model are not used.

    Returns:
        The application. ``app.state.learner`` trains models, ``app.state.metrics`` counts requests.

    Example:
        >>> app = create_annotator(Project.open("project"))  # doctest: +SKIP
    """
    settings = ServeSettings() if settings is None else settings
    environment()  # fails now, and not at the first drawing, if jinja2 is missing
    metrics = Metrics()
    learner = Learner(project)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        learner.suggestions.refresh()
        if len(learner.suggestions) < len(project.documents):
            learner.suggest()
        yield
        learner.close()
        project.close()

    layers = middleware_layers(settings, metrics, {"/api/"})
    app = FastAPI(
        title="cascade-srn annotate",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[*layers, Middleware(OriginCheck)],
        exception_handlers=HANDLERS,  # type: ignore[arg-type]
    )
    app.include_router(project_routes(project, learner, settings))

    @app.get("/health")
    def health() -> Response:
        """Check whether the service is alive."""
        return json_response({"status": "alive"})

    description = get_openapi(
        title=app.title, version=__version__, description=DESCRIPTION, routes=app.routes, license_info=LICENSE
    )
    app.openapi = lambda: description  # type: ignore[method-assign]
    app.include_router(page_routes(description))
    app.state.metrics, app.state.learner = metrics, learner
    return app


def serve_project(
    folder: str | Path, settings: ServeSettings | None = None, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve the project in a folder until SIGINT or SIGTERM.

    Args:
        folder: Folder of a project.
        settings: Settings of the service; those about the model are not used.
        on_ready: Called with the URL when the service accepts requests.

    Raises:
        DataError: The folder is no project, or a damaged one.
        ConfigError: Another process has the project open, or the service cannot listen on the address.
    """
    settings = ServeSettings() if settings is None else settings
    with Project.open(folder) as project:
        app = create_annotator(project, settings)
        try:
            serve_app(app, settings, app.state.metrics, on_ready=on_ready)
        finally:
            app.state.learner.close()
