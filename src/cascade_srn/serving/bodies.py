"""Read the body of a request: within its limits, as JSON, as the form it is meant to have."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from fastapi import Request
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from cascade_srn.serving.messages import Message, said
from cascade_srn.serving.refusals import CLIENT_GONE, Refusal, unavailable, unprocessable
from cascade_srn.serving.settings import Limits

M = TypeVar("M", bound=Message)

# Longer bodies are parsed in a thread, because everyone shares the event loop.
INLINE_BYTES = 50_000
# Beyond that many, errors are counted and not looked at: a body can have hundreds of thousands.
MOST_ERRORS = 100
# Bodies are read at once up to UNPACED_BYTES. What is longer shares this many bytes per second, after a burst.
UNPACED_BYTES = 64 << 10
PACED_BYTES_PER_SECOND, PACED_BURST = 8 << 20, 16 << 20
# Memory that a JSON value takes while it is parsed and validated, at most on average.
VALUE_BYTES = 250

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', flags=re.DOTALL)


class BodyBudget:
    """Memory for the bodies of all requests in progress; used from the event loop only."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self.pace = Pace(PACED_BYTES_PER_SECOND, PACED_BURST)

    @contextmanager
    def reservation(self) -> Iterator[Reservation]:
        """Reserve memory for one request until the block ends."""
        reserved = Reservation(self)
        try:
            yield reserved
        finally:
            self.n_bytes -= reserved.n_bytes


class Pace:
    """Bounds how much happens per second, by delays; used from the event loop only.

    The model reads text far more slowly than large bodies can arrive. A flood of them would only keep the event loop
    busy, and so would a flood of refused requests.

    Args:
        per_second: Amount per second.
        burst: Amount that is not delayed after a quiet time.
        longest: Longest delay in seconds.
    """

    def __init__(self, per_second: int, burst: int, *, longest: float = math.inf) -> None:
        self.per_second = per_second
        self.burst = burst
        self.longest = longest
        self._level = float(burst)
        self._then = 0.0

    def delay(self, amount: int, now: float) -> float:
        """Count an amount, and return how many seconds to wait before the next one."""
        self._level = min(self.burst, self._level + (now - self._then) * self.per_second) - amount
        self._level = max(self._level, -self.longest * self.per_second)
        self._then = now
        return max(0.0, -self._level / self.per_second)


class Reservation:
    """The part of a :class:`BodyBudget` that one request has."""

    def __init__(self, budget: BodyBudget) -> None:
        self.budget = budget
        self.n_bytes = 0

    def add(self, n_bytes: int) -> None:
        """Reserve more, or refuse the request: for good if it could never fit, else for now."""
        if self.n_bytes + n_bytes > self.budget.max_bytes:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "body_too_large",
                f"the body would take more than the {self.budget.max_bytes:,} bytes of memory for all requests; send "
                "fewer or shorter lists",
                {"Connection": "close"},
            )
        if self.budget.n_bytes + n_bytes > self.budget.max_bytes:
            raise unavailable("bodies_full", "too many large requests are in progress; try again soon", retry_after=1)
        self.n_bytes += n_bytes
        self.budget.n_bytes += n_bytes


async def read_message(
    request: Request,
    form: type[M],
    *,
    limits: Limits,
    reservation: Reservation,
    seconds: float,
    aside: Callable[[Callable[[], M]], Awaitable[M]],
) -> M:
    """Read the body of a request as a message.

    Args:
        request: The request, of which nothing has been read.
        form: Class of the message.
        limits: Limits of a request.
        reservation: Where the memory of the body is reserved.
        seconds: Time for the body to arrive.
        aside: Does work in a thread.

    Raises:
        Refusal: The body is too large, too slow, not JSON, or not of this form.
    """
    _require_json(request)
    try:
        async with asyncio.timeout(seconds):
            body = await _read(request, limits.body_bytes, reservation)
    except TimeoutError:
        raise Refusal(
            HTTPStatus.REQUEST_TIMEOUT,
            "request_timeout",
            f"the body did not arrive within {seconds:g} s; send it again",
        ) from None
    except ClientDisconnect:
        raise Refusal(CLIENT_GONE, "client_gone", "the client went away") from None
    # The server ends a body early where it cannot be read any further, or the service is being stopped.
    refusal = getattr(request.state, "refusal", None)
    if refusal is not None:
        raise refusal
    n_marks = _n_marks(body)
    if n_marks > limits.values:
        # Before memory is reserved: a body that is refused must not keep others out.
        await asyncio.to_thread(require_values, body, limits.values)
    reservation.add(VALUE_BYTES * min(n_marks, limits.values))
    return parsed(body, form) if len(body) <= INLINE_BYTES else await aside(lambda: parsed(body, form))


def require_values(body: bytes, most: int) -> None:
    """Refuse a body of too many JSON values before anything is built from it.

    The parser builds all of a body before it is validated, and a list of two bytes takes hundreds then.
    """
    if _n_marks(body) <= most:
        return
    # Brackets and commas within strings do not count; strings are only looked for when it matters.
    n_values = _n_marks(_STRING.sub(b"", body))
    if n_values > most:
        raise unprocessable(
            f"the body has about {n_values:,} JSON values, and {most:,} are taken at most; send fewer or shorter lists"
        )


def _n_marks(body: bytes) -> int:
    """Count what starts a list, an object or a further item: an upper bound of the values, but for one."""
    return body.count(b"[") + body.count(b"{") + body.count(b",")


def parsed(body: bytes, form: type[M]) -> M:
    """Parse a body as a message of this form, or refuse it in one sentence."""
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


async def _read(request: Request, max_bytes: int, reservation: Reservation) -> bytes:
    """Read all of the body; refuse it as soon as its declared or received length is too large."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > max_bytes:
        raise _too_large(f"{int(said):,}", max_bytes)
    chunks, n_bytes = [], 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise _too_large(f"more than {max_bytes:,}", max_bytes)
        reservation.add(len(chunk))
        chunks.append(chunk)
        if n_bytes > UNPACED_BYTES:
            pace, loop = reservation.budget.pace, asyncio.get_running_loop()
            if seconds := pace.delay(len(chunk), loop.time()):
                await asyncio.sleep(seconds)
    return b"".join(chunks)


def _too_large(received: str, max_bytes: int) -> Refusal:
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
