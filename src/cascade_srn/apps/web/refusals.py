"""Errors that the web applications answer with, and their JSON body."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from cascade_srn.errors import CascadeError, did_you_mean

CLIENT_GONE = 499
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class Refusal(CascadeError):
    """A request that is answered with an error.

    ``code`` is a short name of the error for programs. ``problem`` is a phrase, and ``hint`` a sentence that says what
    the client can do about it, both without a final period.
    """

    def __init__(
        self, status: int, code: str, problem: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(problem, hint)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})

    def to_dict(self) -> dict[str, Any]:
        """Return the body of the response."""
        parts = {"code": self.code, "message": self.message(), "problem": self.problem, "hint": self.hint}
        return {"error": parts}


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response that is not cached."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, media_type="application/json")


def refusal_response(refusal: Refusal) -> Response:
    """Make the response of a refusal."""
    return json_response(refusal.to_dict(), refusal.status, refusal.headers)


async def handle_refusal(request: Request, error: Exception) -> Response:
    """Handle a :class:`Refusal` that an operation raised."""
    assert isinstance(error, Refusal)
    return refusal_response(error)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Handle an error of the framework, such as an unknown path."""
    assert isinstance(error, HTTPException)
    problem, hint, headers = str(error.detail), "", dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        problem, hint = "the path does not exist", "See /docs for all operations"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework only names the methods of the first route with this path.
        headers["Allow"] = ", ".join(sorted(_supported_methods(request)))
        problem, hint = f"the path does not support the method {request.method}", f"Use {headers['Allow']}"
    code = HTTPStatus(error.status_code).name.lower()
    return refusal_response(Refusal(error.status_code, code, problem, hint, headers))


def _supported_methods(request: Request) -> set[str]:
    """Return the methods of all routes with the path of a request."""
    found: set[str] = set()
    for method in METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            found.add(method)
    return found


async def handle_invalid_query(request: Request, error: Exception) -> Response:
    """Handle query parameters that do not fit the form of their operation. The values are not quoted."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(next((part for part in first["loc"][1:] if isinstance(part, str)), "query"))[:40]
    if first["type"] == "missing":
        refusal = unprocessable(f"the parameter {name} is missing", "See /docs for all parameters")
    elif first["type"] == "extra_forbidden":
        forms = [field.field_info.annotation for field in request.scope["route"].dependant.query_params]
        known = {field for form in forms for field in form.model_fields}
        refusal = unprocessable(f"there is no parameter {name!r}", did_you_mean(name, known))
    else:
        reason = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
        refusal = unprocessable(f"the parameter {name} is invalid", f"Expected: {reason}")
    return refusal_response(refusal)


def unavailable(code: str, problem: str, hint: str, *, retry_after: int) -> Refusal:
    """Make a refusal with status 503 and a ``Retry-After`` header in seconds."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, code, problem, hint, {"Retry-After": str(retry_after)})


def shutting_down() -> Refusal:
    """Make the refusal of a service that is shutting down; it closes the connection."""
    refusal = unavailable(
        "shutting_down", "the service is shutting down", "Send the request to another instance", retry_after=5
    )
    refusal.headers["Connection"] = "close"
    return refusal


def unprocessable(problem: str, hint: str = "") -> Refusal:
    """Make a refusal with status 422: the body is JSON, but its content is invalid."""
    return Refusal(422, "unprocessable", problem, hint)
