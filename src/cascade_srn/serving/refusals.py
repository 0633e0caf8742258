"""What a request is answered with when it is not done: one JSON form for every error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

CLIENT_GONE = 499


class Refusal(Exception):
    """A request that is not done: the status, a short code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Plain values as a JSON answer that nobody keeps."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, media_type="application/json")


def refused(refusal: Refusal) -> Response:
    """The answer of a refusal."""
    content = {"error": {"code": refusal.code, "message": refusal.message}}
    return json_answer(content, refusal.status, refusal.headers)


async def answer_refusal(request: Request, error: Exception) -> Response:
    """The handler of :class:`Refusal`."""
    assert isinstance(error, Refusal)
    return refused(error)


async def answer_http(request: Request, error: Exception) -> Response:
    """The handler of what the framework refuses itself: no such path, no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        message = "there is nothing at this path; /docs lists what there is"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"the method {request.method} is not allowed at this path; use {allowed}"
    else:
        message = str(error.detail)
    code = HTTPStatus(error.status_code).name.lower()
    return refused(Refusal(error.status_code, code, message, error.headers))


def unavailable(code: str, message: str, *, retry_after: int) -> Refusal:
    """Not now, but soon."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, code, message, {"Retry-After": str(retry_after)})


def stopping() -> Refusal:
    """Refuse a request because the service is being stopped; its connection is closed."""
    refusal = unavailable("shutting_down", "the service is being stopped; ask another one", retry_after=5)
    refusal.headers["Connection"] = "close"
    return refusal


def unprocessable(message: str) -> Refusal:
    """The form is right, and something in it is not."""
    return Refusal(422, "unprocessable", message)
