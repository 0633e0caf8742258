"""Errors that the service answers with, and their JSON body."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from cascade_srn.errors import CascadeError

CLIENT_GONE = 499


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


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response that is not cached."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, media_type="application/json")


def refusal_response(refusal: Refusal) -> Response:
    """Make the response of a refusal."""
    content = {"error": {"code": refusal.code, "message": refusal.message()}}
    return json_response(content, refusal.status, refusal.headers)


async def handle_refusal(request: Request, error: Exception) -> Response:
    """Handle a :class:`Refusal` that an operation raised."""
    assert isinstance(error, Refusal)
    return refusal_response(error)


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Handle an error of the framework, such as an unknown path."""
    assert isinstance(error, HTTPException)
    problem, hint = str(error.detail), ""
    if error.status_code == HTTPStatus.NOT_FOUND:
        problem, hint = "the path does not exist", "See /docs for all operations"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        problem = f"the path does not support the method {request.method}"
        hint = f"Use {(error.headers or {}).get('Allow', 'another method')}"
    code = HTTPStatus(error.status_code).name.lower()
    return refusal_response(Refusal(error.status_code, code, problem, hint, error.headers))


def unavailable(code: str, problem: str, hint: str, *, retry_after: int) -> Refusal:
    """Make a refusal with status 503 and a ``Retry-After`` header in seconds."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, code, problem, hint, {"Retry-After": str(retry_after)})


def not_ready() -> Refusal:
    """Make the refusal of a service that is starting."""
    return unavailable("not_ready", "the model is still being loaded", "Try again soon", retry_after=2)


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
