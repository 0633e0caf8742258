"""Count and time requests, write one log line for each, and never a word of a text."""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cascade_srn.serving.bodies import Pace
from cascade_srn.serving.engine import report
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.refusals import CLIENT_GONE, Refusal, refused, stopping

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
