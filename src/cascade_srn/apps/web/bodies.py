"""Read and validate the JSON bodies of requests, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from cascade_srn.apps.service.messages import Message, describe_errors
from cascade_srn.apps.web.refusals import CLIENT_GONE, Refusal, unavailable, unprocessable
from cascade_srn.apps.web.settings import Limits

M = TypeVar("M", bound=Message)

# Longer bodies are parsed in a thread, because all requests share the event loop.
INLINE_BYTES = 50_000
# More validation errors than this are only counted, because a body can have hundreds of thousands.
MAX_ERRORS = 100
# The first UNLIMITED_BYTES of a body are read at once. The rest of all bodies shares a rate, after a burst.
UNLIMITED_BYTES = 64 << 10
BYTES_PER_SECOND, BURST_BYTES = 8 << 20, 16 << 20
# Upper bound of the average memory of a JSON value while it is parsed and validated.
VALUE_BYTES = 250
FORM_HINT = "See /docs for the request format"

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', flags=re.DOTALL)


class BodyBudget:
    """Memory for the bodies of all requests in progress. Use it in the event loop only."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self.rate = RateLimiter(BYTES_PER_SECOND, BURST_BYTES)

    @contextmanager
    def reservation(self) -> Iterator[Reservation]:
        """Reserve memory for one request until the block ends."""
        reserved = Reservation(self)
        try:
            yield reserved
        finally:
            self.n_bytes -= reserved.n_bytes


class RateLimiter:
    """Limits a rate by delays. Use it in the event loop only.

    Large bodies can arrive much faster than the model reads text. Without a limit, a flood of them, or of refused
    requests, would keep the event loop busy.
    """

    def __init__(self, per_second: int, burst: int, *, max_delay: float = math.inf) -> None:
        self.per_second = per_second
        self.burst = burst
        self.max_delay = max_delay
        self._level = float(burst)
        self._updated = 0.0

    def delay(self, amount: int, now: float) -> float:
        """Count an amount, and return the seconds to wait before the next one."""
        self._level = min(self.burst, self._level + (now - self._updated) * self.per_second) - amount
        self._level = max(self._level, -self.max_delay * self.per_second)
        self._updated = now
        return max(0.0, -self._level / self.per_second)


class Reservation:
    """Share of a :class:`BodyBudget` that one request holds."""

    def __init__(self, budget: BodyBudget) -> None:
        self.budget = budget
        self.n_bytes = 0

    def add(self, n_bytes: int) -> None:
        """Reserve more memory. Refuse with 413 if the body can never fit, with 503 if it does not fit at present."""
        if self.n_bytes + n_bytes > self.budget.max_bytes:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "body_too_large",
                f"the body needs more than the {self.budget.max_bytes:,} bytes of memory for all requests",
                "Send fewer or shorter lists",
                {"Connection": "close"},
            )
        if self.budget.n_bytes + n_bytes > self.budget.max_bytes:
            raise unavailable("bodies_full", "too many large requests are in progress", "Try again soon", retry_after=1)
        self.n_bytes += n_bytes
        self.budget.n_bytes += n_bytes


async def read_message(
    request: Request,
    form: type[M],
    *,
    limits: Limits,
    reservation: Reservation,
    seconds: float,
    run_in_thread: Callable[[Callable[[], M]], Awaitable[M]],
) -> M:
    """Read and validate the body of a request."""
    _check_content_type(request)
    try:
        async with asyncio.timeout(seconds):
            body = await _read(request, limits.body_bytes, reservation)
    except TimeoutError:
        raise Refusal(
            HTTPStatus.REQUEST_TIMEOUT,
            "request_timeout",
            f"the body did not arrive within {seconds:g} s",
            "Send the request again",
        ) from None
    except ClientDisconnect:
        raise Refusal(CLIENT_GONE, "client_gone", "the client disconnected") from None
    # The connection ends a body early if it is invalid or the service is shutting down.
    refusal = getattr(request.state, "refusal", None)
    if refusal is not None:
        raise refusal
    n_values = _count_values(body)
    if n_values > limits.values:
        # Counted again without strings, before memory is reserved: a refused body must not keep others out.
        await asyncio.to_thread(check_values, body, limits.values)
    reservation.add(VALUE_BYTES * min(n_values, limits.values))
    if len(body) <= INLINE_BYTES:
        return parse_body(body, form)
    return await run_in_thread(lambda: parse_body(body, form))


async def wait_for_disconnect(request: Request) -> None:
    """Return when the client disconnects. The body was read before, so no other message is left."""
    message: dict[str, Any] = {}
    while message.get("type") != "http.disconnect":
        message = dict(await request.receive())


def check_values(body: bytes, max_values: int) -> None:
    """Refuse a body with too many JSON values before it is parsed.

    The parser builds all values before they are validated, and an empty list of two bytes then takes hundreds.
    """
    # Brackets and commas inside strings do not count.
    n_values = _count_values(_STRING.sub(b"", body))
    if n_values > max_values:
        raise unprocessable(
            f"the body has about {n_values:,} JSON values, but the limit is {max_values:,}",
            "Send fewer or shorter lists",
        )


def _count_values(body: bytes) -> int:
    """Return an upper bound of the number of JSON values, minus one."""
    return body.count(b"[") + body.count(b"{") + body.count(b",")


def parse_body(body: bytes, form: type[M]) -> M:
    """Parse and validate a body."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        # Not chained, because pydantic's message quotes the whole input.
        raise _refusal(error, form) from None


def _check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            f"the content type is {content_type[:100]!r}",
            "Send JSON with the header Content-Type: application/json",
        )


async def _read(request: Request, max_bytes: int, reservation: Reservation) -> bytes:
    """Read the whole body; refuse it as soon as its declared or received length is too large."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(f"{int(declared):,}", max_bytes)
    chunks, n_bytes = [], 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise _too_large(f"more than {max_bytes:,}", max_bytes)
        reservation.add(len(chunk))
        chunks.append(chunk)
        if n_bytes > UNLIMITED_BYTES:
            now = asyncio.get_running_loop().time()
            if seconds := reservation.budget.rate.delay(len(chunk), now):
                await asyncio.sleep(seconds)
    return b"".join(chunks)


def _too_large(received: str, max_bytes: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"the body has {received} bytes, but the limit is {max_bytes:,}",
        "Send fewer or shorter texts",
        {"Connection": "close"},
    )


def _refusal(error: ValidationError, form: type[Message]) -> Refusal:
    """Make a refusal from the most specific validation error.

    A value that matches no alternative of a union has an error for each of them. The deepest error belongs to the
    alternative that the client most likely meant.
    """

    def specificity(one: ErrorDetails) -> tuple[int, bool, bool]:
        # A misspelt field also causes an error for the missing one, which says less.
        return len(_place(one["loc"][:-1])), not one["type"].endswith("_type"), one["type"] == "extra_forbidden"

    if error.error_count() > MAX_ERRORS:
        return unprocessable(f"the body has {error.error_count():,} unknown or invalid fields", FORM_HINT)
    errors = error.errors(include_url=False)
    worst = max(errors, key=specificity)
    if worst["type"] == "json_invalid":
        reason = worst["msg"].removeprefix("Invalid JSON: ")
        return Refusal(
            HTTPStatus.BAD_REQUEST, "invalid_json", f"the body is not JSON ({reason})", "Send one JSON object in UTF-8"
        )
    alternatives = [
        one for one in errors if _place(one["loc"]) == _place(worst["loc"]) and specificity(one) == specificity(worst)
    ]
    # The name of an unknown field is part of the message, so its place is that of the object around it.
    place = _place(worst["loc"][:-1] if worst["type"] == "extra_forbidden" else worst["loc"])
    problem, suggestion = describe_errors(alternatives, form, place)
    where = f"{'.'.join(map(str, place))}: " if place else ""
    return unprocessable(f"{where}{problem}", suggestion or FORM_HINT)


def _place(loc: tuple[int | str, ...]) -> list[int | str]:
    """Return the place in the body, without the names of union alternatives that pydantic adds."""
    return [part for part in loc if isinstance(part, int) or (part.isidentifier() and part == part.lower())]
