"""ASGI middleware: access log, host check, API key and security headers."""

import asyncio
import hashlib
import hmac
import logging
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import CLIENT_GONE, METHODS, Refusal, refusal_response, shutting_down, unavailable
from cascade_srn.apps.web.settings import ANY_HOST
from cascade_srn.errors import CascadeError

logger = logging.getLogger("cascade_srn.apps.web")
access = logging.getLogger("cascade_srn.apps.web.access")

# Seconds and bytes for which the rest of a body is read before a refusal is sent. A client that is still sending when
# its connection is closed may not see the response.
LINGER_SECONDS = 1.0
LINGER_BYTES = 4 << 20


class AccessLogMiddleware:
    """Logs and counts requests, limits their number, and answers with 500 if the application raises an exception.

    A response that is sent before the whole body was read closes the connection.

    Unknown paths are not logged, because a client may have put a text into the URL by mistake.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, max_requests: int) -> None:
        self.app = app
        self.metrics = metrics
        self.max_requests = max_requests
        self.in_flight = 0
        metrics.add_gauge("cascade_srn_requests_in_flight", "Requests in progress.", lambda: self.in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status, n_in, n_out = 0, 0, 0
        headers = Headers(scope=scope)
        is_read = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"

        async def counting_receive() -> Message:
            nonlocal n_in, is_read
            message = await receive()
            n_in += len(message.get("body", b""))
            is_read = is_read or not message.get("more_body", False)
            return message

        async def read_rest() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while not is_read and n_in < LINGER_BYTES:
                        await counting_receive()

        async def counting_send(message: Message) -> None:
            nonlocal status, n_out
            if message["type"] == "http.response.start":
                if self.in_flight <= self.max_requests and "expect" not in headers:
                    await read_rest()
                status = message["status"]
                if not is_read:
                    MutableHeaders(scope=message)["Connection"] = "close"
            elif scope["method"] != "HEAD":
                n_out += len(message.get("body", b""))
            await send(message)

        self.in_flight += 1
        app = self.app if self.in_flight <= self.max_requests else refusal_response(_too_many())
        try:
            await app(scope, counting_receive, counting_send)
        except Exception as error:
            log_failure(error)
            if not status:
                failure = Refusal(500, "internal_error", "the service failed", "See the log of the service")
                await refusal_response(failure)(scope, receive, counting_send)
        except asyncio.CancelledError:
            # The server cancels requests that are not finished when the shutdown time is over.
            is_read = True
            if not status:
                await refusal_response(shutting_down())(scope, receive, counting_send)
        finally:
            self.in_flight -= 1
            # There is no status if the request was cancelled before a response.
            self._record(scope, status or CLIENT_GONE, time.perf_counter() - started, n_in, n_out)

    def _record(self, scope: Scope, status: int, seconds: float, n_in: int, n_out: int) -> None:
        route = getattr(scope.get("route"), "path", None) or "unknown"
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self.metrics.requests.labels(route, status).inc()
        self.metrics.latency.labels(route).observe(seconds)
        access.info("%s %s %d %.1f ms, %d bytes in, %d out", method, route, status, 1000 * seconds, n_in, n_out)


def _too_many() -> Refusal:
    return unavailable("too_many_requests", "too many requests are in progress", "Try again soon", retry_after=1)


def log_failure(error: BaseException) -> None:
    """Log the type and place of an unexpected error, without its message, which may quote a text."""
    if isinstance(error, CascadeError):
        return
    frames = traceback.extract_tb(error.__traceback__)
    place = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames[-4:]))
    logger.error("%s at %s", type(error).__name__, place or "an unknown place")


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})

# Drawings have inline styles. Scripts are loaded only from files of the service.
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """Adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class Check(ABC):
    """Middleware that refuses some requests."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    @abstractmethod
    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is refused, or None."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        refusal = self.refusal(scope) if scope["type"] == "http" else None
        await (self.app if refusal is None else refusal_response(refusal))(scope, receive, send)


class HostCheck(Check):
    """Refuses requests whose Host header names another host.

    A foreign web page can point its own domain name at this machine (DNS rebinding), and would then have the same
    origin as the service. The names of the loopback interface, of the bound host and those in ``allowed`` are accepted.
    A service that listens on all addresses also accepts the name of this machine and any literal address, because DNS
    rebinding needs a domain name.
    """

    def __init__(self, app: ASGIApp, *, host: str, allowed: tuple[str, ...]) -> None:
        super().__init__(app)
        self.accepts_all = ANY_HOST in allowed
        self.accepts_addresses = host in EVERY_ADDRESS
        own = (socket.gethostname(),) if self.accepts_addresses else (host,)
        self.allowed = frozenset(_host_name(name) for name in (*LOOPBACK_NAMES, *own, *allowed)) - {""}

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return a refusal if the header names another host."""
        given = Headers(scope=scope).getlist("host")
        # None of several Host headers can be trusted.
        name = _host_name(given[0]) if len(given) == 1 else ""
        if self.accepts_all or name in self.allowed or (self.accepts_addresses and _is_address(name)):
            return None
        hint = "Use a host name that the service was started with, or add this one to its allowed hosts"
        return Refusal(421, "unknown_host", "the Host header does not name this service", hint)


def _host_name(given: str) -> str:
    """Return the normalized name in a Host header, without port and brackets; empty if it is invalid."""
    if _is_address(given):
        return str(ip_address(given))
    if given.startswith("["):
        name, bracket, port = given[1:].partition("]")
        port = port.removeprefix(":") if bracket else "none"
    else:
        name, _, port = given.partition(":")
    if port and not port.isdecimal():
        return ""
    return str(ip_address(name)) if _is_address(name) else name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class KeyCheck(Check):
    """Refuses requests without the API key, if the service has one, except those to public paths."""

    def __init__(self, app: ASGIApp, *, api_key: str | None, public: Collection[str]) -> None:
        super().__init__(app)
        self.public = frozenset(public)
        self._digest = None if api_key is None else _digest(api_key.encode())

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return a refusal if the key is needed and missing or wrong."""
        if self._digest is None or _path(scope) in self.public:
            return None
        given = _given_key(Headers(scope=scope))
        # Digests have a fixed length, so the time of the comparison does not reveal the length of the key.
        if given is not None and hmac.compare_digest(_digest(given), self._digest):
            return None
        problem = "the API key is missing" if given is None else "the API key is wrong"
        hint = "Send it as Authorization: Bearer KEY or X-API-Key: KEY"
        return Refusal(401, "unauthorized", problem, hint, {"WWW-Authenticate": "Bearer"})


def _path(scope: Scope) -> str:
    """Return the path without the prefix of a proxy or a mount, by the same rule as the router."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", ""))
    rest = path.removeprefix(prefix)
    return rest if rest.startswith("/") or path == prefix else path


def _given_key(headers: Headers) -> bytes | None:
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and bearer.strip():
        return bearer.strip().encode("latin-1")
    key = headers.get("x-api-key", "").strip()
    return key.encode("latin-1") if key else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
