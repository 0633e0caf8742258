"""What stands before every request and on every answer: hosts, the key, headers for browsers."""

from __future__ import annotations

import hashlib
import hmac
import socket
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cascade_srn.serving.refusals import Refusal, refused
from cascade_srn.serving.settings import ANY_HOST

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
