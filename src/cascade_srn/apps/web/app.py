"""The ASGI application that all web applications of the package share: security, limits, errors, metrics and files."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse, Response
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from cascade_srn.apps.web.assets import CONTENT_TYPES, Asset, add_assets
from cascade_srn.apps.web.bodies import JsonForm
from cascade_srn.apps.web.metrics import CONTENT_TYPE, Metrics
from cascade_srn.apps.web.middleware import AccessLogMiddleware, Check, HostCheck, KeyCheck, SecurityHeaders
from cascade_srn.apps.web.refusals import (
    Refusal,
    handle_http_error,
    handle_invalid_query,
    handle_refusal,
    json_response,
)
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.render import environment
from cascade_srn.version import __version__

# Paths besides static files that need no API key.
PUBLIC_PATHS = ("/health", "/ready", "/docs", "/openapi.json")
LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}


class StateAnswer(JsonForm):
    """State of the service."""

    status: str


class ErrorForm(JsonForm):
    """An error: a short code for programs, and a message for people, which consists of the problem and a hint."""

    code: str
    message: str
    problem: str
    hint: str


class ErrorAnswer(JsonForm):
    """Body of every error response."""

    error: ErrorForm


def error_responses(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation for the OpenAPI description, by status."""
    return {status: {"model": ErrorAnswer, "description": text} for status, text in descriptions.items()}


@dataclass(frozen=True)
class WebPart:
    """Operations and files that make up an application, or a part of another one.

    Attributes:
        operations: Routes of the operations. All of them need the API key.
        assets: Static files by path. A file ``/index.html`` is served at ``/``.
        bodies: Forms of the JSON bodies of operations, by path, for the OpenAPI description.
        start: Called when the application starts.
        close: Called when the application ends.
    """

    operations: APIRouter
    assets: Mapping[str, Asset]
    bodies: Mapping[str, type[JsonForm]] = field(default_factory=dict)
    start: Callable[[], object] = lambda: None
    close: Callable[[], object] = lambda: None

    def files(self) -> dict[str, Asset]:
        """Return all static files by path, with the style of drawings."""
        found = dict(self.assets)
        found["/"] = found.pop("/index.html")
        return found | {"/stylesheet.css": Asset(stylesheet().encode(), CONTENT_TYPES[".css"])}


def create_web_app(
    own: WebPart,
    settings: ServeSettings,
    metrics: Metrics,
    *,
    title: str,
    description: str,
    parts: Mapping[str, WebPart] | None = None,
    checks: Collection[type[Check]] = (),
) -> FastAPI:
    """Make a web application.

    It has the operations ``/health`` and ``/metrics``, and describes all operations at ``/docs`` and ``/openapi.json``.

    Args:
        own: Its operations and files.
        settings: Its settings.
        metrics: Where to count.
        title: Its name in the description.
        description: What it does.
        parts: Parts with their own paths, such as ``/graph``.
        checks: Further middleware that refuses requests.
    """
    environment()  # fails now, and not at the first drawing, if jinja2 is missing
    placed = {"": own, **(parts or {})}
    assets = {f"{path}{name}": asset for path, part in placed.items() for name, asset in part.files().items()}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for part in placed.values():
            part.start()
        yield
        for part in placed.values():
            part.close()

    app = FastAPI(
        title=title,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=_middleware(settings, metrics, {*assets, *placed, *PUBLIC_PATHS}, checks),
        exception_handlers={
            Refusal: handle_refusal,
            HTTPException: handle_http_error,
            RequestValidationError: handle_invalid_query,
        },
    )
    app.include_router(own.operations)
    app.include_router(_common_operations(metrics))
    for path, part in placed.items():
        if path:
            app.include_router(part.operations, prefix=path)
            app.add_api_route(path, _add_slash(path), methods=["GET", "HEAD"], include_in_schema=False)
    described = _describe(app, description, own.bodies)
    app.openapi = lambda: described  # type: ignore[method-assign]
    router = APIRouter()
    add_assets(router, assets | {"/docs": Asset(_render_operations(described).encode(), CONTENT_TYPES[".html"])})
    app.include_router(router)
    app.state.metrics = metrics
    return app


def _middleware(
    settings: ServeSettings, metrics: Metrics, public: Collection[str], checks: Collection[type[Check]]
) -> list[Middleware]:
    """Return the middleware, outermost first."""
    layers = [
        Middleware(SecurityHeaders),  # outermost, so that error responses of the access log have the headers, too
        Middleware(AccessLogMiddleware, metrics=metrics, max_requests=settings.max_requests),
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
    layers.append(Middleware(KeyCheck, api_key=settings.api_key, public=public))
    return [*layers, *map(Middleware, checks)]


def _common_operations(metrics: Metrics) -> APIRouter:
    router = APIRouter()

    @router.get("/health", responses={200: {"model": StateAnswer}})
    async def health() -> Response:
        """Check whether the service is alive."""
        return json_response({"status": "alive"})

    unauthorized = error_responses({401: "The API key is missing or wrong."})

    @router.get("/metrics", responses=unauthorized | {200: {"content": {"text/plain": {}}}}, response_class=Response)
    async def metrics_() -> Response:
        """Return metrics in the Prometheus text format."""
        return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    return router


def _add_slash(path: str) -> Callable[[], Any]:
    # Relative, because a proxy may add a prefix.
    async def redirect() -> Response:
        return RedirectResponse(f"{path.removeprefix('/')}/", status_code=308)

    return redirect


def _describe(app: FastAPI, text: str, bodies: Mapping[str, type[JsonForm]]) -> dict[str, Any]:
    """Return the OpenAPI description, with the forms of bodies, which the operations read themselves."""
    description = get_openapi(
        title=app.title, version=__version__, description=text, routes=app.routes, license_info=LICENSE
    )
    components = description.setdefault("components", {})
    forms = [(form, "validation") for form in bodies.values()]
    _, found = models_json_schema(forms, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    components.setdefault("schemas", {}).update(found.get("$defs", {}))
    for path, form in bodies.items():
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form.__name__}"}}}
        for method in {"post", "put"} & description["paths"][path].keys():
            description["paths"][path][method]["requestBody"] = {"required": True, "content": content}
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return description


def _render_operations(description: Mapping[str, Any]) -> str:
    """Render the OpenAPI description as an HTML page."""
    template = files("cascade_srn.apps.web").joinpath("shared", "operations.html.jinja").read_text("utf-8")
    return environment().from_string(template).render(description, json=json.dumps)
