"""Read and validate the bodies of requests, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVar, get_args

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import CLIENT_GONE, Refusal, unavailable, unprocessable
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import did_you_mean

# Longer bodies are parsed in a thread, because all requests share the event loop.
INLINE_BYTES = 50_000
# More validation errors than this are only counted, because a body can have hundreds of thousands.
MAX_ERRORS = 100
# The first bytes of a body are read without a reservation, so that long bodies never keep out short ones.
FREE_BYTES = 64 << 10
# Upper bound of the average memory of a JSON value while it is parsed and validated.
VALUE_BYTES = 250
# Longest name or value that a message quotes.
MAX_QUOTED = 40
UNSUPPORTED = "unsupported_media_type"
FORM_HINT = "See /docs for the request format"

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', flags=re.DOTALL)

T = TypeVar("T")
Position = Annotated[int, Field(ge=0)]
# Validation stops at the first invalid item: a long list of invalid items would otherwise have an error for each.
Several = Annotated[list[T], Field(fail_fast=True)]


class JsonForm(BaseModel):
    """Base class of the models of requests and responses: strict types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


M = TypeVar("M", bound=JsonForm)


@dataclass
class _Reservation:
    n_bytes: int = 0


class BodyReader:
    """Reads bodies within limits of size, time and memory. Use it in the event loop only.

    A body longer than ``FREE_BYTES`` waits until there is room for all of it, and is read then. Therefore bodies that
    never end cannot keep each other from ending, and room is free again as soon as their clients leave.

    Attributes:
        n_bytes: Memory reserved for the bodies of all requests in progress.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self.limits = settings.limits
        self.seconds = settings.request_seconds
        self.max_bytes = settings.bodies_bytes
        self.n_bytes = 0
        self._freed = asyncio.Event()
        metrics.add_gauge("cascade_srn_bodies_bytes", "Memory reserved for request bodies.", lambda: self.n_bytes)

    @asynccontextmanager
    async def read_json(
        self, request: Request, form: type[M], run_in_thread: Callable[[Callable[[], M]], Awaitable[M]]
    ) -> AsyncIterator[M]:
        """Read and validate a JSON body, and reserve its memory until the block ends."""
        _check_type(request)
        with self._reservation() as held:
            body = await self._read(request, held, self.limits.body_bytes, "Send fewer or shorter texts")
            n_values = _count_values(body)
            if n_values > self.limits.values:
                # Counted again without strings, before memory is reserved: a refused body must not keep others out.
                await asyncio.to_thread(check_values, body, self.limits.values)
            self._reserve(held, len(body) + VALUE_BYTES * min(n_values, self.limits.values))
            if len(body) <= INLINE_BYTES:
                yield parse_body(body, form)
            else:
                yield await run_in_thread(lambda: parse_body(body, form))

    @asynccontextmanager
    async def read_file(self, request: Request, max_bytes: int, hint: str) -> AsyncIterator[bytes]:
        """Read a body that is a file, and reserve its memory until the block ends."""
        with self._reservation() as held:
            body = await self._read(request, held, max_bytes, hint)
            self._reserve(held, len(body))
            yield body

    async def _read(self, request: Request, held: _Reservation, max_bytes: int, hint: str) -> bytes:
        """Read the whole body; refuse it as soon as its declared or received length is too large."""
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            problem = f"the content encoding is {encoding[:100]!r}"
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED, problem, "Send the body without compression")
        declared = request.headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else max_bytes
        if size > max_bytes:
            raise _too_large(f"{size:,}", max_bytes, hint)
        loop = asyncio.get_running_loop()
        chunks, n_bytes, is_waiting = [], 0, False
        try:
            async with asyncio.timeout(self.seconds) as limit:
                async for chunk in request.stream():
                    n_bytes += len(chunk)
                    if n_bytes > max_bytes:
                        raise _too_large(f"more than {max_bytes:,}", max_bytes, hint)
                    chunks.append(chunk)
                    if n_bytes > FREE_BYTES and not held.n_bytes:
                        is_waiting = True
                        while self.n_bytes and self.n_bytes + size > self.max_bytes:
                            self._freed.clear()
                            await self._freed.wait()
                        self._reserve(held, size)
                        is_waiting = False
                        limit.reschedule(loop.time() + self.seconds)
        except TimeoutError:
            if is_waiting:
                raise _bodies_full() from None
            problem = f"the body did not arrive within {self.seconds:g} s"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", problem, "Send the request again") from None
        except ClientDisconnect:
            raise Refusal(CLIENT_GONE, "client_gone", "the client disconnected") from None
        return b"".join(chunks)

    @contextmanager
    def _reservation(self) -> Iterator[_Reservation]:
        held = _Reservation()
        try:
            yield held
        finally:
            self.n_bytes -= held.n_bytes
            self._freed.set()

    def _reserve(self, held: _Reservation, n_bytes: int) -> None:
        """Change a reservation. Refuse with 413 if the body can never fit, with 503 if it does not fit at present."""
        if n_bytes > self.max_bytes:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "body_too_large",
                f"the body needs more than the {self.max_bytes:,} bytes of memory for all requests",
                "Send fewer or shorter lists",
            )
        if self.n_bytes - held.n_bytes + n_bytes > self.max_bytes:
            raise _bodies_full()
        self.n_bytes += n_bytes - held.n_bytes
        held.n_bytes = n_bytes
        self._freed.set()


def _bodies_full() -> Refusal:
    return unavailable("bodies_full", "too many large requests are in progress", "Try again soon", retry_after=1)


def _too_large(received: str, max_bytes: int, hint: str) -> Refusal:
    problem = f"the body has {received} bytes, but the limit is {max_bytes:,}"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", problem, hint)


def _check_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            UNSUPPORTED,
            f"the content type is {content_type[:100]!r}",
            "Send JSON with the header Content-Type: application/json",
        )


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


def _refusal(error: ValidationError, form: type[JsonForm]) -> Refusal:
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
    problem, suggestion = _describe(alternatives, form, place)
    where = f"{'.'.join(map(str, place))}: " if place else ""
    return unprocessable(f"{where}{problem}", suggestion or FORM_HINT)


def _place(loc: tuple[int | str, ...]) -> list[int | str]:
    """Return the place in the body, without the names of union alternatives that pydantic adds."""
    return [part for part in loc if isinstance(part, int) or (part.isidentifier() and part == part.lower())]


_EXPECTED = {
    "string_type": "a string",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}


def _describe(errors: Sequence[ErrorDetails], form: type[JsonForm], place: Sequence[int | str]) -> tuple[str, str]:
    """Return problem and hint for the validation errors of one value, one for each alternative of a union."""
    first = errors[0]
    match first["type"]:
        case "value_error":
            return str(first["ctx"]["error"]), ""
        case "missing":
            return "the field is missing", ""
        case "extra_forbidden":
            name = str(first["loc"][-1])
            return f"there is no field {name[:MAX_QUOTED]!r}", did_you_mean(name, set(_field_names(form, place)))
    expected = " or ".join(dict.fromkeys(map(_expected, errors)))
    return f"received {_received(first)}, expected {expected}", ""


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error":
            return str(context["expected"])
        case "too_short":
            return f"{context['min_length']} or more"
        case "too_long":
            return f"{context['max_length']} or fewer"
        case "less_than_equal":
            return f"at most {context['le']:g}"
        case "greater_than_equal":
            return f"at least {context['ge']:g}"
        case other:
            return _EXPECTED.get(other, error["msg"])


def _received(error: ErrorDetails) -> str:
    value: Any = error["input"]
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return f"a list of {len(value)} item{'s' * (len(value) != 1)}"
        case dict():
            return "an object"
        case str() if error["type"] != "literal_error" or len(value) > MAX_QUOTED:
            # Not quoted: it may be a confidential text, and messages may be logged.
            return "a string"
    return repr(value)


def _field_names(form: type[JsonForm], place: Sequence[int | str]) -> Iterator[str]:
    """Yield the names of the fields at a place in a model."""
    forms = [form]
    for part in place:
        if isinstance(part, str):
            inner = [one.model_fields[part].annotation for one in forms if part in one.model_fields]
            forms = [found for annotation in inner for found in _nested_forms(annotation)]
    for one in forms:
        yield from one.model_fields


def _nested_forms(annotation: Any) -> Iterator[type[JsonForm]]:
    if isinstance(annotation, type) and issubclass(annotation, JsonForm):
        yield annotation
    for argument in get_args(annotation):
        yield from _nested_forms(argument)
