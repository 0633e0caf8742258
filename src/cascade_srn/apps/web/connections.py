"""Limits on connections: their number, the time they may wait for the client, and the data they may buffer.

The ASGI application sees only requests. This module handles clients that stay silent, send one byte at a time, pipeline
requests, never read their response, or open connections until the process runs out of file descriptors.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.middleware import HEADERS
from cascade_srn.apps.web.refusals import Refusal, refusal_response, shutting_down, unavailable

access = logging.getLogger("cascade_srn.apps.service.access")

# Largest request head in bytes and lines.
HEAD_BYTES = 32 << 10
HEAD_LINES = 100
# A body may arrive in this number of pieces, plus one for every PIECE_BYTES bytes, because every piece costs a call.
BODY_PIECES = 256
PIECE_BYTES = 32
# Requests of one connection that may wait for the response to an earlier one.
PIPELINED = 8
# Seconds and received bytes for which a connection stays open after an early response, so that the client can read it.
LINGER_SECONDS = 2.0
LINGER_BYTES = 4 << 20


@dataclass
class ConnectionLimiter:
    """Admits connections up to a limit, and closes connections that wait for their client to make room."""

    max_connections: int  # Largest number of open connections
    metrics: Metrics  # Counts dropped connections
    head_seconds: float  # Time for the head of a request to arrive, from the start of the connection or its first byte
    write_seconds: float  # Time for the client to read some of a response that waits in the send buffer
    patience: float = 2.0  # Seconds that a connection may wait for its client before a new one can replace it
    open: set[Connection] = field(default_factory=set)
    # Connections that wait for their client, longest wait first, with the start time of the wait.
    waiting: dict[Connection, float] = field(default_factory=dict)
    # Connections that have sent nothing yet, oldest first.
    silent: dict[Connection, None] = field(default_factory=dict)

    def admit(self, connection: Connection, now: float) -> bool:
        """Add a new connection; return False if there is no room for it."""
        if len(self.open) >= self.max_connections and not self._make_room(now):
            self.metrics.dropped.labels("refused").inc()
            return False
        self.open.add(connection)
        self.silent[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)
        self.silent.pop(connection, None)

    def _make_room(self, now: float) -> bool:
        # Ordinary clients send their request at once, so connections that never sent a byte are closed first.
        oldest = next(iter(self.silent), None) or next(iter(self.waiting), None)
        if oldest is None or (oldest not in self.silent and now - self.waiting[oldest] < self.patience):
            return False
        self.metrics.dropped.labels("evicted").inc()
        self.remove(oldest)
        oldest.abort()
        return True


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on time, size and number. Subclasses set :attr:`limiter`."""

    limiter: ClassVar[ConnectionLimiter]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it with 503."""
        self._socket = transport
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        # Whether the head of the last request is complete but its body is not.
        self._in_body = False
        # Whether further input is ignored, because it is invalid or will not be answered.
        self._ignores_input = False
        self._is_closing = False
        self._refusal: Refusal | None = None
        self._n_head = self._n_raw = self._n_body = self._n_pieces = self._n_drained = 0
        super().connection_made(cast(asyncio.Transport, _LingeringTransport(self)))
        if not self.limiter.admit(self, self.loop.time()):
            # Closed without waiting for the client to read the response, because no descriptor is left.
            self._respond(
                unavailable("too_many_connections", "too many connections are open", "Try again soon", retry_after=1)
            )
            return
        self._wait_for_client()
        self._set_timer(self.limiter.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up."""
        self._is_closing = True
        self._cancel_timers()
        self.limiter.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data, within the limits."""
        if self._is_closing:
            self._n_drained += len(data)
            if self._n_drained > LINGER_BYTES:
                self.abort()
            return
        if self._ignores_input:
            return
        self.limiter.silent.pop(self, None)
        self._unset_keepalive_if_required()
        if self._in_body:
            self._n_raw += len(data)
        else:
            self._n_head += len(data)
            if self._timer is None and self._is_idle:
                self._set_timer(self.limiter.head_seconds)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Other protocols are not supported: the request is answered, and the connection is closed.
            self._ignores_input = True
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._stop_reading(self._refusal or _unreadable())
        else:
            if not self._in_body and self._n_head > HEAD_BYTES:
                self._stop_reading(_head_too_large())
            elif self._in_body and self._n_raw - self._n_body > HEAD_BYTES + PIECE_BYTES * self._n_pieces:
                self._stop_reading(
                    _bad_request("the chunks of the body have long extensions or trailers", "Remove them")
                )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a line to the head; ignore the trailers of a body."""
        if self._in_body:
            return
        if len(self.headers) >= HEAD_LINES:
            self._stop_parser(_head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request, or queue it behind an earlier one."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._stop_parser(_head_too_large())
        if len(self.pipeline) >= PIPELINED:
            # Earlier requests are answered. By RFC 9112, a client can repeat the others on a new connection.
            self._stop_parser(_unreadable())
        super().on_headers_complete()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_body = True
        self._n_head = self._n_raw = self._n_body = self._n_pieces = 0

    def on_body(self, body: bytes) -> None:
        """Count and forward a piece of the body."""
        self._n_pieces += 1
        self._n_body += len(body)
        if self._n_pieces > BODY_PIECES + self._n_body // PIECE_BYTES:
            self._stop_parser(
                _bad_request(f"the body arrives in pieces of less than {PIECE_BYTES} bytes", "Send larger pieces")
            )
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        super().on_message_complete()
        self._in_body = False
        self._n_head = 0
        self.limiter.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.pipeline:
            # No more input is read until the pipelined requests are answered.
            self.flow.pause_reading()
        elif self._is_idle:
            self._wait_for_client()
            if self._in_body:
                self.transport.close()

    def shutdown(self) -> None:
        """End the connection: a complete request is finished, an incomplete one is refused."""
        if self._in_body and not self._is_idle:
            self._stop_reading(shutting_down())
        super().shutdown()

    def pause_writing(self) -> None:
        """Start the time limit for the client to read."""
        super().pause_writing()
        self._wait_for_client()
        if self._write_timer is None:
            self._watch_writing()

    def resume_writing(self) -> None:
        """Continue to write, and stop the time limit."""
        if self._write_timer is not None and not self._is_closing:
            self._write_timer.cancel()
            self._write_timer = None
            self.limiter.waiting.pop(self, None)
        super().resume_writing()

    def abort(self) -> None:
        """Close the connection at once, and drop unsent data."""
        self._socket.abort()

    def close(self) -> None:
        """Close the connection after the client had time to read the response.

        Closing a socket with unread input resets the connection, and the client may lose a response that it has not
        read yet. Therefore an early response is followed by an end of file, and further input is discarded.
        """
        if self._is_closing:
            return
        self._is_closing = True
        self._cancel_timers()
        self._wait_for_client()
        if self._socket.get_write_buffer_size():
            self._watch_writing()
        else:
            self._timer = self.loop.call_later(LINGER_SECONDS, self.abort)
        if (self._in_body or self._ignores_input) and self._socket.can_write_eof():
            self._socket.write_eof()
            self.flow.resume_reading()
        else:
            self._socket.close()

    @property
    def is_closing(self) -> bool:
        """Whether the connection is being closed."""
        return self._is_closing or self._socket.is_closing()

    @property
    def _is_idle(self) -> bool:
        """Whether all requests of this connection are answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_client(self) -> None:
        self.limiter.waiting.pop(self, None)
        if self in self.limiter.open:
            self.limiter.waiting[self] = self.loop.time()

    def _stop_parser(self, refusal: Refusal) -> NoReturn:
        """Make the parser, which calls this method, raise its own error."""
        self._refusal = refusal
        raise ValueError(refusal.problem)

    def _stop_reading(self, refusal: Refusal) -> None:
        """Ignore further input. An incomplete request is refused, earlier ones are answered."""
        self._ignores_input = True
        if self._is_idle:
            # Logged in the format of the access log; method, path and time are unknown.
            n_sent = self._respond(refusal)
            access.info("OTHER unknown %d 0.0 ms, %d bytes in, %d out", refusal.status, self._n_head, n_sent)
            return
        self.cycle.keep_alive = False
        self.flow.pause_reading()
        if self._in_body:
            # The application raises this refusal when it reaches the end of the body.
            self.cycle.scope["state"]["refusal"] = refusal
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _respond(self, refusal: Refusal) -> int:
        """Send a refusal without the application, close the connection, and return the length of the body."""
        response = refusal_response(refusal)
        headers = [
            *self.server_state.default_headers,
            *((name.lower().encode(), value.encode()) for name, value in HEADERS.items()),
            *(line for line in response.raw_headers if line[0] != b"connection"),
            (b"connection", b"close"),
        ]
        head = b"".join(b"%s: %s\r\n" % line for line in headers)
        self._socket.write(STATUS_LINE[refusal.status] + head + b"\r\n" + bytes(response.body))
        self.limiter.metrics.requests.labels("unknown", refusal.status).inc()
        self.transport.close()
        return len(response.body)

    def _watch_writing(self) -> None:
        """Close the connection if the client reads nothing within the time limit."""
        n_left = self._socket.get_write_buffer_size()

        def check() -> None:
            if 0 < self._socket.get_write_buffer_size() < n_left:
                self._watch_writing()
            else:
                self.abort()

        self._write_timer = self.loop.call_later(self.limiter.write_seconds, check)

    def _set_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        """Close a connection that did not send a complete head in time."""
        self._timer = None
        self.limiter.metrics.dropped.labels("silent").inc()
        self.transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None


class _LingeringTransport:
    """A transport that is closed by :meth:`Connection.close`, because uvicorn closes it in several places."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._socket = connection._socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        self._connection.close()

    def is_closing(self) -> bool:
        return self._connection.is_closing


def protocol_class(limiter: ConnectionLimiter) -> type[Connection]:
    """Make the protocol class of one server."""
    return type("LimitedConnection", (Connection,), {"limiter": limiter})


def _bad_request(problem: str, hint: str) -> Refusal:
    return Refusal(400, "bad_request", problem, hint, {"Connection": "close"})


def _unreadable() -> Refusal:
    return _bad_request("the request is not valid HTTP/1.1", "Check its head and the framing of its body")


def _head_too_large() -> Refusal:
    return Refusal(
        431,
        "head_too_large",
        f"the request line and headers exceed {HEAD_BYTES:,} bytes or {HEAD_LINES} lines",
        "Send shorter headers",
        {"Connection": "close"},
    )
