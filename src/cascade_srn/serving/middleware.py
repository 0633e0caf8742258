"""What stands before every request and on every answer: hosts, the key, headers for browsers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import socket
import time
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cascade_srn.serving.bodies import Pace
from cascade_srn.serving.engine import report
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.refusals import CLIENT_GONE, Refusal, refused, stopping
from cascade_srn.serving.settings import ANY_HOST

access = logging.getLogger("cascade_srn.serving.access")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
# Requests refused before their body has arrived are answered at this rate, after a burst; the others wait.
REFUSALS_PER_SECOND, REFUSAL_BURST = 10, 20
REFUSAL_DELAY = 2.0


class Observer:
    """The outermost middleware: access log, metrics, and an answer for exceptions that nobody caught.

    An answer that is sent before all of the body was read closes the connection, so that the rest is never read.
    Such refusals are delayed when there are many of them: a client that sends the same again after each would
    otherwise keep the event loop busy.

    Unknown paths are not logged, because somebody may have put a text into an address by mistake.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics
        self.in_flight = 0
        self._refusals = Pace(REFUSALS_PER_SECOND, REFUSAL_BURST, longest=REFUSAL_DELAY)
        metrics.gauge("cascade_srn_requests_in_flight", "Requests being answered.", lambda: self.in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status, n_in, n_out = 0, 0, 0
        is_read = not _has_body(scope)

        async def counting_receive() -> Message:
            nonlocal n_in, is_read
            message = await receive()
            n_in += len(message.get("body", b""))
            is_read = is_read or (message["type"] == "http.request" and not message.get("more_body", False))
            return message

        async def counting_send(message: Message) -> None:
            nonlocal status, n_out
            if message["type"] == "http.response.start":
                if 400 <= message["status"] < 500 and (not is_read or "refusal" in scope.get("state", {})):
                    await asyncio.sleep(self._refusals.delay(1, asyncio.get_running_loop().time()))
                status = message["status"]
                if not is_read:
                    MutableHeaders(scope=message)["Connection"] = "close"
            elif scope["method"] != "HEAD":
                n_out += len(message.get("body", b""))
            await send(message)

        self.in_flight += 1
        try:
            await self.app(scope, counting_receive, counting_send)
        except Exception as error:
            report(error)
            if not status:
                failure = Refusal(500, "internal_error", "the service failed; its log says where")
                await refused(failure)(scope, receive, counting_send)
        except asyncio.CancelledError:
            # The server cancels what is still in progress when the time to stop is over, and expects nothing more.
            if not status:
                await refused(stopping())(scope, receive, counting_send)
        finally:
            self.in_flight -= 1
            # Nothing was sent where the request was cancelled.
            self._note(scope, status or CLIENT_GONE, time.perf_counter() - started, n_in, n_out)

    def _note(self, scope: Scope, status: int, seconds: float, n_in: int, n_out: int) -> None:
        route = getattr(scope.get("route"), "path", None) or "unknown"
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self.metrics.requests.add(route=route, status=str(status))
        self.metrics.latency.observe(seconds, route=route)
        access.info("%s %s %d %.1f ms, %d bytes in, %d out", method, route, status, 1000 * seconds, n_in, n_out)


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


# What reads texts or tells about the model and its use. All else is the same for everyone: the page, its style, the
# description, and whether the service lives.
PROTECTED = frozenset({"/extract", "/draw", "/convert", "/schema", "/metrics"})

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})

# Drawings have inline styles; scripts come from files of ours alone.
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
    """Puts the headers for browsers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class HostCheck:
    """Refuse requests whose Host header names another host.

    A page elsewhere can point a name of its own at this machine (DNS rebinding) and would then be of the same origin as
    the service. The names of the loopback interface and of the bound host are accepted, and those in ``allowed``. A
    service that listens on every address also accepts the name of this machine and any literal address: a browser
    sends one only if its user has typed or followed it, and no DNS answer can change what it leads to.
    """

    def __init__(self, app: ASGIApp, *, host: str, allowed: tuple[str, ...]) -> None:
        self.app = app
        self.accepts_all = ANY_HOST in allowed
        self.accepts_addresses = host in EVERY_ADDRESS
        own = (socket.gethostname(),) if self.accepts_addresses else (host,)
        self.allowed = frozenset(_host_name(name) for name in (*LOOPBACK_NAMES, *own, *allowed)) - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and not self.accepts_all:
            given = Headers(scope=scope).getlist("host")
            # A request with several Host headers has none that can be relied on.
            name = _host_name(given[0]) if len(given) == 1 else ""
            if name not in self.allowed and not (self.accepts_addresses and _is_address(name)):
                refusal = Refusal(
                    421,
                    "unknown_host",
                    "the Host header names no host of this service; ask by a name it was started with, or start it "
                    "with --allowed-host NAME for this one as well",
                )
                await refused(refusal)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _host_name(given: str) -> str:
    """The name in a Host header, without port and brackets, in one spelling; empty if there is none."""
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


class KeyCheck:
    """Refuses requests without the API key, where there is one, for all that is protected."""

    def __init__(self, app: ASGIApp, *, api_key: str | None) -> None:
        self.app = app
        self._digest = None if api_key is None else _digest(api_key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and self._digest is not None and _path(scope) in PROTECTED:
            given = _given_key(Headers(scope=scope))
            # Digests are of one length, so that not even the length of the key can be told from the time.
            if given is None or not hmac.compare_digest(_digest(given), self._digest):
                told = "no API key was sent" if given is None else "the API key is wrong"
                refusal = Refusal(
                    401,
                    "unauthorized",
                    f"{told}; send it as Authorization: Bearer KEY or X-API-Key: KEY",
                    {"WWW-Authenticate": "Bearer"},
                )
                await refused(refusal)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _path(scope: Scope) -> str:
    """The path as routes have it, without the prefix that a proxy or a mount puts before it.

    As the router does it: a prefix ends where a part of the path does, or it is none.
    """
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
