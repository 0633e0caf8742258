"""Connections of the service: how many there are, how long they may keep it waiting, what they may buffer.

The ASGI application sees requests only. What a client can do before, between and around them is bounded here: it can
stay silent, send one byte at a time, pipeline requests, never read its answer, or open connections until the process
runs out of file descriptors.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.middleware import HEADERS
from cascade_srn.serving.refusals import Refusal, refused, stopping, unavailable

access = logging.getLogger("cascade_srn.serving.access")

# Bytes and lines of a request's head.
HEAD_BYTES = 32 << 10
HEAD_LINES = 100
# A body may arrive in this many pieces, and one more for each PIECE_BYTES bytes: every piece costs a call.
BODY_PIECES = 256
PIECE_BYTES = 32
# Requests of one connection that may wait for the answer to an earlier one.
PIPELINED = 8
# How long, and for how many bytes, a connection is kept open after an early answer so that the client can read it.
LINGER_SECONDS = 2.0
LINGER_BYTES = 4 << 20


@dataclass
class Gate:
    """Admits connections up to a limit, and makes room by closing those that keep the service waiting.

    Args:
        max_connections: Connections that are open at a time.
        metrics: Where open and dropped connections are counted.
        head_seconds: Time for a request's head to arrive, from the start of the connection or its first byte.
        write_seconds: Time for the client to read some of an answer that waits in the send buffer.
        patience: Seconds that a connection may wait for its client before it is closed in favour of a new one.
    """

    max_connections: int
    metrics: Metrics
    head_seconds: float
    write_seconds: float
    patience: float = 2.0
    open: set[Connection] = field(default_factory=set)
    # Connections whose next step is the client's, longest waiting first, with the time the wait began.
    waiting: dict[Connection, float] = field(default_factory=dict)
    # Connections that have sent nothing yet, oldest first.
    silent: dict[Connection, None] = field(default_factory=dict)

    def admit(self, connection: Connection, now: float) -> bool:
        """Count a new connection, or refuse it when all others are at work."""
        if len(self.open) >= self.max_connections and not self._make_room(now):
            self.metrics.dropped.add(reason="refused")
            return False
        self.open.add(connection)
        self.silent[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)
        self.silent.pop(connection, None)

    def _make_room(self, now: float) -> bool:
        # A client with a request sends it at once, so connections that never sent a byte go first.
        oldest = next(iter(self.silent), None) or next(iter(self.waiting), None)
        if oldest is None or (oldest not in self.silent and now - self.waiting[oldest] < self.patience):
            return False
        self.metrics.dropped.add(reason="evicted")
        self.leave(oldest)
        oldest.abort()
        return True


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with bounds on time, size and number; subclasses set :attr:`gate`."""

    gate: ClassVar[Gate]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it with 503."""
        self._socket = transport
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        # Whether the head of the last request is complete and its body is not.
        self._in_body = False
        # Whether nothing more is parsed, because it cannot be understood or will not be answered.
        self._is_deaf = False
        self._is_closing = False
        self._problem: Refusal | None = None
        self._n_head = self._n_raw = self._n_body = self._n_pieces = self._n_drained = 0
        super().connection_made(cast(asyncio.Transport, _LingeringTransport(self)))
        if not self.gate.admit(self, self.loop.time()):
            # Not kept open for the client to read the answer: there is no descriptor to spare.
            self._answer(
                unavailable("too_many_connections", "too many connections are open; try again soon", retry_after=1)
            )
            return
        self._wait_for_client()
        self._set_timer(self.gate.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._is_closing = True
        self._cancel_timers()
        self.gate.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, within the limits."""
        if self._is_closing:
            self._n_drained += len(data)
            if self._n_drained > LINGER_BYTES:
                self.abort()
            return
        if self._is_deaf:
            return
        self.gate.silent.pop(self, None)
        self._unset_keepalive_if_required()
        if self._in_body:
            self._n_raw += len(data)
        else:
            self._n_head += len(data)
            if self._timer is None and self._is_idle:
                self._set_timer(self.gate.head_seconds)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # No other protocol is spoken here: the request is answered, and the connection is closed.
            self._is_deaf = True
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._give_up(self._problem or _unreadable())
        else:
            if not self._in_body and self._n_head > HEAD_BYTES:
                self._give_up(_head_too_large())
            elif self._in_body and self._n_raw - self._n_body > HEAD_BYTES + PIECE_BYTES * self._n_pieces:
                self._give_up(_bad_request("the chunks of the body have long extensions or trailers; leave them out"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head, and ignore the trailers of a body."""
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
            # The requests before are answered; RFC 9112 lets a client repeat the others on a new connection.
            self._stop_parser(_unreadable())
        super().on_headers_complete()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_body = True
        self._n_head = self._n_raw = self._n_body = self._n_pieces = 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._n_pieces += 1
        self._n_body += len(body)
        if self._n_pieces > BODY_PIECES + self._n_body // PIECE_BYTES:
            self._stop_parser(
                _bad_request(f"the body arrives in pieces of less than {PIECE_BYTES} bytes; send it in larger ones")
            )
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that all of a request has arrived."""
        super().on_message_complete()
        self._in_body = False
        self._n_head = 0
        self.gate.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.pipeline:
            # Nothing more is read before those that were read already are answered.
            self.flow.pause_reading()
        elif self._is_idle:
            self._wait_for_client()
            if self._in_body:
                self.transport.close()

    def shutdown(self) -> None:
        """End the connection: a request that is complete is finished, another one is refused."""
        if self._in_body and not self._is_idle:
            self._give_up(stopping())
        super().shutdown()

    def pause_writing(self) -> None:
        """Give the client some time to read."""
        super().pause_writing()
        self._wait_for_client()
        if self._write_timer is None:
            self._watch_writing()

    def resume_writing(self) -> None:
        """Continue to write."""
        if self._write_timer is not None and not self._is_closing:
            self._write_timer.cancel()
            self._write_timer = None
            self.gate.waiting.pop(self, None)
        super().resume_writing()

    def abort(self) -> None:
        """Close the connection at once, and drop what has not been sent."""
        self._socket.abort()

    def close(self) -> None:
        """Close the connection once the client has had a chance to read what was sent.

        A socket that is closed while unread bytes wait in it resets the connection, and the client may lose an answer
        that it has not read yet. So an early answer is followed by an end of file, and what still arrives is discarded.
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
        if (self._in_body or self._is_deaf) and self._socket.can_write_eof():
            self._socket.write_eof()
            self.flow.resume_reading()
        else:
            self._socket.close()

    @property
    def is_closing(self) -> bool:
        """Whether nothing more will be written."""
        return self._is_closing or self._socket.is_closing()

    @property
    def _is_idle(self) -> bool:
        """Whether every request of this connection is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_client(self) -> None:
        self.gate.waiting.pop(self, None)
        if self in self.gate.open:
            self.gate.waiting[self] = self.loop.time()

    def _stop_parser(self, refusal: Refusal) -> NoReturn:
        """Make the parser, which has called this, raise its own error instead of going on."""
        self._problem = refusal
        raise ValueError(refusal.message)

    def _give_up(self, refusal: Refusal) -> None:
        """Stop parsing. A request that is incomplete is refused, those before it are answered."""
        self._is_deaf = True
        if self._is_idle:
            # In the form of the access log, though method, path and time are unknown.
            n_sent = self._answer(refusal)
            access.info("OTHER unknown %d 0.0 ms, %d bytes in, %d out", refusal.status, self._n_head, n_sent)
            return
        self.cycle.keep_alive = False
        self.flow.pause_reading()
        if self._in_body:
            # The application finds the refusal at the end of the body, and answers it like any other.
            self.cycle.scope["state"]["refusal"] = refusal
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _answer(self, refusal: Refusal) -> int:
        """Answer what never became a request of the application, and close; return the bytes of the body."""
        response = refused(refusal)
        headers = [
            *self.server_state.default_headers,
            *((name.lower().encode(), value.encode()) for name, value in HEADERS.items()),
            *(line for line in response.raw_headers if line[0] != b"connection"),
            (b"connection", b"close"),
        ]
        head = b"".join(b"%s: %s\r\n" % line for line in headers)
        self._socket.write(STATUS_LINE[refusal.status] + head + b"\r\n" + bytes(response.body))
        self.gate.metrics.requests.add(route="unknown", status=str(refusal.status))
        self.transport.close()
        return len(response.body)

    def _watch_writing(self) -> None:
        """Close the connection when the client reads nothing for a while."""
        n_left = self._socket.get_write_buffer_size()

        def check() -> None:
            if 0 < self._socket.get_write_buffer_size() < n_left:
                self._watch_writing()
            else:
                self.abort()

        self._write_timer = self.loop.call_later(self.gate.write_seconds, check)

    def _set_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        """Close a connection that sent no complete head in time."""
        self._timer = None
        self.gate.metrics.dropped.add(reason="silent")
        self.transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._write_timer = None


class _LingeringTransport:
    """The transport of a connection, closed by :meth:`Connection.close`: uvicorn closes it in several places."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._socket = connection._socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        self._connection.close()

    def is_closing(self) -> bool:
        return self._connection.is_closing


def protocol_class(gate: Gate) -> type[Connection]:
    """Make the protocol class of one server."""
    return type("GatedConnection", (Connection,), {"gate": gate})


def _bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message, {"Connection": "close"})


def _unreadable() -> Refusal:
    return _bad_request("the request is not valid HTTP/1.1; check its head and how its body is framed")


def _head_too_large() -> Refusal:
    return Refusal(
        431,
        "head_too_large",
        f"the request line and headers exceed {HEAD_BYTES:,} bytes or {HEAD_LINES} lines; send shorter headers",
        {"Connection": "close"},
    )
