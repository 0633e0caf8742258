"""Reading the body of a request: within its limits, as JSON, as the form it is meant to have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from cascade_srn.serving.messages import Message
from cascade_srn.serving.refusals import CLIENT_GONE, Refusal, unprocessable
from cascade_srn.serving.wording import said

M = TypeVar("M", bound=Message)

# Bodies longer than this are held against their form beside the event loop, which everyone shares.
INLINE_BYTES = 50_000
# Beyond that many, errors are counted and not looked at: a body can have hundreds of thousands.
MOST_ERRORS = 100


async def read_message(
    request: Request,
    form: type[M],
    *,
    max_bytes: int,
    seconds: float,
    aside: Callable[[Callable[[], M]], Awaitable[M]],
) -> M:
    """The body of a request as a message of that form; ``aside`` does work beside the event loop."""
    _require_json(request)
    try:
        async with asyncio.timeout(seconds):
            body = await _read(request, max_bytes)
    except TimeoutError:
        raise Refusal(
            HTTPStatus.REQUEST_TIMEOUT, "request_timeout", f"the body did not arrive within {seconds:g} s; send it anew"
        ) from None
    except ClientDisconnect:
        raise Refusal(CLIENT_GONE, "client_gone", "the client went away") from None
    if len(body) <= INLINE_BYTES:
        return parsed(body, form)
    return await aside(lambda: parsed(body, form))


def parsed(body: bytes, form: type[M]) -> M:
    """A body that has come as a message of that form, or a refusal in one sentence."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        # Not chained: what pydantic says quotes all of the input.
        raise _refusal(error, form) from None


def _require_json(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            f"the body is said to be {kind[:100]!r}; send JSON with the header Content-Type: application/json",
        )


async def _read(request: Request, max_bytes: int) -> bytes:
    """All of the body, or a refusal as soon as it is known to be too long: by what it says, or by what has come."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > max_bytes:
        raise _too_large(f"{int(said):,}", max_bytes)
    chunks, n_bytes = [], 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise _too_large(f"more than {max_bytes:,}", max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(received: str, max_bytes: int) -> Refusal:
    # What is still on its way is not read: the connection ends with the answer.
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"the body has {received} bytes, and {max_bytes:,} are taken at most; send fewer or shorter texts",
        {"Connection": "close"},
    )


def _refusal(error: ValidationError, form: type[Message]) -> Refusal:
    """One sentence about what lies deepest in the form, where an alternative was meant that failed for its value."""

    def telling(one: ErrorDetails) -> tuple[int, bool, bool]:
        # A field that is misspelt is missing, too.
        return len(_place(one["loc"][:-1])), not one["type"].endswith("_type"), one["type"] == "extra_forbidden"

    if error.error_count() > MOST_ERRORS:
        return unprocessable(
            f"the body has {error.error_count():,} fields that are unknown or have a wrong value; /docs shows the form "
            "of a request"
        )
    errors = error.errors(include_url=False)
    found = max(errors, key=telling)
    if found["type"] == "json_invalid":
        return Refusal(
            HTTPStatus.BAD_REQUEST,
            "invalid_json",
            f"the body is not JSON ({found['msg'].removeprefix('Invalid JSON: ')}); send one JSON object in UTF-8",
        )
    alike = [one for one in errors if _place(one["loc"]) == _place(found["loc"]) and telling(one) == telling(found)]
    # An unknown field is told of where it was looked for, and by its name as it came.
    place = _place(found["loc"][:-1] if found["type"] == "extra_forbidden" else found["loc"])
    where = f"{'.'.join(map(str, place))}: " if place else ""
    phrase = said(alike, form, place)
    return unprocessable(f"{where}{phrase}{' ' if phrase[-1] in '.?' else '; '}/docs shows the form of a request")


def _place(loc: tuple[int | str, ...]) -> list[int | str]:
    """Where in the body, without the names of the alternatives that were tried there."""
    return [part for part in loc if isinstance(part, int) or (part.isidentifier() and part == part.lower())]
