"""Slow, silent, excessive and invalid connections."""

import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.service.live import TEXT, live, until

from cascade_srn.apps.service.run import connection_limits
from cascade_srn.apps.web.connections import BODY_PIECES, HEAD_BYTES, HEAD_LINES, PIPELINED, ConnectionLimiter
from cascade_srn.apps.web.settings import Limits, ServeSettings

pytestmark = pytest.mark.slow

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def head(path="/extract", *lines, method="POST", host="localhost"):
    given = lines or ("Content-Type: application/json", "Content-Length: 1000")
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *given, "", ""]).encode()


def until_closed(connection):
    """Receive data until the service closes the connection."""
    found = b""
    while more := connection.recv(65536):
        found += more
    return found


def refusal(answer, status, code):
    """Check a refusal that closes its connection, and return its message."""
    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"\r\nconnection: close" in top.lower()
    assert b"content-security-policy" in top
    error = json.loads(body)["error"]
    assert error["code"] == code
    return error["message"]


def dropped(service, reason):
    return service.metrics()[f'cascade_srn_connections_dropped_total{{reason="{reason}"}}']


def limiter(service) -> ConnectionLimiter:
    return service.server.config.http.limiter


@pytest.fixture(scope="module")
def locked(extractor):
    with live(extractor, ServeSettings(api_key="abc", limits=Limits(body_bytes=5000))) as running:
        yield running


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (head(), 401, "unauthorized"),
        (head(host="evil.example"), 421, "unknown_host"),
        (head("/nowhere"), 404, "not_found"),
        (head("/health"), 405, "method_not_allowed"),
        (head("/extract", "X-API-Key: abc", "Content-Length: 9"), 415, "unsupported_media_type"),
        (
            head("/extract", "X-API-Key: abc", "Content-Type: application/json", "Content-Length: 5001"),
            413,
            "body_too_large",
        ),
        (head("/nowhere", "Transfer-Encoding: chunked"), 404, "not_found"),
    ],
)
def test_an_early_answer_closes_the_connection(locked, sent, status, code):
    """The service does not wait for the rest of the body."""
    with locked.connect() as connection:
        connection.sendall(sent + b"1\r\n")
        refusal(until_closed(connection), status, code)


def test_a_client_that_goes_on_sending_can_read_the_early_answer(locked):
    with locked.connect() as connection:
        connection.sendall(head("/extract", "Content-Type: application/json", "Content-Length: 1000000"))
        for _ in range(20):
            connection.sendall(b" " * 50_000)
        refusal(until_closed(connection), 401, "unauthorized")


def test_a_request_without_a_body_keeps_its_connection(locked):
    with locked.connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET /schema HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert b"connection: close" not in answer.lower()


@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", f"Content-Length: {10 * BODY_PIECES}"])
def test_a_body_in_tiny_pieces(service, framing):
    with service.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(head("/extract", "Content-Type: application/json", framing))
        if "chunked" in framing:
            connection.sendall(b"1\r\n \r\n" * (2 * BODY_PIECES))
        else:
            # Each byte is sent after the previous one was read, so that it is read alone.
            until(lambda: any(one._in_body and not one.is_closing for one in limiter(service).open))
            (ours,) = [one for one in limiter(service).open if one._in_body and not one.is_closing]
            for number in range(1, BODY_PIECES + 100):
                if ours._ignores_input:
                    break
                connection.sendall(b" ")
                until(lambda number=number: ours._n_pieces >= number or ours._ignores_input)
        message = refusal(until_closed(connection), 400, "bad_request")
    assert "32 bytes" in message


def test_a_body_in_many_lines_is_taken(service):
    """Programs that iterate over a file send one line at a time."""
    lines = [b'{"texts": [\n', *[b'  "A tagger helps parsing in this line.",\n'] * 100, b'"a"]}']
    headers = {"Content-Type": "application/json"}
    assert service.client.post("/extract", content=iter(lines), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        head("/extract", "Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        head("/extract", "Transfer-Encoding: chunked", "Content-Length: 3") + b"0\r\n\r\n",
        head("/extract", "Content-Length: 3", "Content-Length: 4") + b"abcd",
        head("/extract", "Content-Length: -3"),
        head("/extract", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"zz\r\n\r\n",
        head("/extract", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"3\r\nabcdefg\r\n",
        head("/extract", "Content-Type: application/json", "Transfer-Encoding: gzip") + b"abc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_invalid_http(service, caplog, sent):
    with service.connect() as connection, caplog.at_level(logging.WARNING):
        connection.sendall(sent)
        refusal(until_closed(connection), 400, "bad_request")
    assert not caplog.records


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * HEAD_BYTES,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"a" * HEAD_BYTES,
        b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_LINES + 2),
    ],
)
def test_too_long_a_head(service, sent):
    with service.connect() as connection:
        connection.sendall(sent)
        message = refusal(until_closed(connection), 431, "head_too_large")
    assert f"{HEAD_BYTES:,}" in message
    assert str(HEAD_LINES) in message


@pytest.mark.parametrize("tail", [b"0\r\nX: " + b"a" * 2 * HEAD_BYTES, b"1;x=" + b"a" * 2 * HEAD_BYTES])
def test_endless_trailers_and_extensions(service, tail):
    with service.connect() as connection:
        connection.sendall(head("/extract", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        until(lambda: any(one._in_body and not one.is_closing for one in limiter(service).open))
        connection.sendall(tail)
        refusal(until_closed(connection), 400, "bad_request")


def test_upgrades_to_other_protocols_are_ignored(service, caplog):
    with service.connect() as connection, caplog.at_level(logging.WARNING):
        connection.sendall(head("/health", "Connection: Upgrade", "Upgrade: websocket", method="GET"))
        answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert not caplog.records


@pytest.mark.parametrize("number", [3, 200])
def test_pipelined_requests_are_bounded(service, number):
    with service.connect() as connection:
        connection.sendall(HEALTH * (number - 1) + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answers = until_closed(connection)
    n_answered = answers.count(b"HTTP/1.1 200 OK")
    assert n_answered == answers.count(b"HTTP/1.1") == min(number, PIPELINED + 1)


@pytest.mark.parametrize("sent", [b"", b"G", b"\r\n", b"GET /health HTTP/1.1\r\nHost: "])
def test_silent_connections_are_closed(extractor, sent):
    with live(extractor, ServeSettings(head_seconds=0.2)) as service, service.connect() as connection:
        connection.sendall(sent)
        assert until_closed(connection) == b""
        assert dropped(service, "silent") == 1


def test_idle_connections_are_closed(extractor):
    with live(extractor, ServeSettings(keep_alive_seconds=0.1, head_seconds=0.2)) as service:
        for rest in (b"", b"\r\n", b"GET"):
            with service.connect() as connection:
                connection.sendall(HEALTH)
                answer = connection.recv(65536)
                connection.sendall(rest)
                answer += until_closed(connection)
            assert answer.count(b"HTTP/1.1 200 OK") == 1


def test_a_client_that_does_not_read_is_disconnected(extractor):
    with live(extractor, ServeSettings(request_seconds=0.3)) as service, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((service.client.base_url.host, service.client.base_url.port))
        until(lambda: len(limiter(service).open) == 2)
        (ours,) = [one for one in limiter(service).open if one.cycle is None]
        ours._socket.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * (PIPELINED + 1))
        until(lambda: ours not in limiter(service).open)


def test_too_many_connections(extractor, caplog):
    with live(extractor, ServeSettings(max_connections=3)) as service:
        limiter(service).patience = 1000
        with service.connect() as first, service.connect() as second, caplog.at_level(logging.WARNING):
            for one in (first, second):
                one.sendall(HEALTH[:4])
            # The third connection is that of service.client.
            until(lambda: len(limiter(service).open) == 3 and not limiter(service).silent)
            for _ in range(20):
                with service.connect() as another:
                    refusal(until_closed(another), 503, "too_many_connections")
            assert dropped(service, "refused") == 20
            assert service.metrics()["cascade_srn_connections"] == 3
            first.sendall(HEALTH[4:])
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert not caplog.records


def test_silent_connections_make_room_at_once(extractor):
    """Clients with a request send it at once, so silent connections are closed first."""
    with live(extractor, ServeSettings(max_connections=4)) as service:
        limiter(service).patience = 1000
        silent = [service.connect() for _ in range(20)]
        with service.connect() as another:
            another.sendall(HEALTH)
            assert another.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert dropped(service, "evicted") >= 17
        assert dropped(service, "refused") == 0
        for one in silent:
            one.close()


@pytest.mark.parametrize("sent", [b"", b"GET", head()])
def test_connections_that_wait_for_their_client_make_room(held, sent):
    """A client that holds all connections does not block others, and connections at work are kept."""
    with live(held.extractor, ServeSettings(max_connections=4)) as service, ThreadPoolExecutor(1) as pool:
        limiter(service).patience = 0
        held.hold()
        taken = pool.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        silent = [service.connect() for _ in range(10)]
        for one in silent[-3:]:
            one.sendall(sent)
        with service.connect() as another:
            another.sendall(HEALTH)
            assert another.recv(65536).startswith(b"HTTP/1.1 200 ")
        held.let_go()
        assert taken.result().status_code == 200
        assert dropped(service, "evicted") >= 8
        for one in silent:
            one.close()


@pytest.mark.parametrize("n_files", [16, 64, 256, 1024, 65_536])
def test_connections_leave_room_for_files(n_files):
    most, at_once = connection_limits(n_files)
    assert 1 <= at_once <= 16
    assert 1 <= most < n_files
    if n_files >= 256:
        assert n_files - most - 6 * at_once == 48


def test_shutdown_does_not_wait_for_the_rest_of_a_body(extractor, caplog):
    with (
        live(extractor, ServeSettings(shutdown_seconds=1000)) as service,
        service.connect() as stalled,
        service.connect() as chunked,
        service.connect() as silent,
        caplog.at_level(logging.WARNING),
    ):
        stalled.sendall(head() + b"{")
        chunked.sendall(head("/convert", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        until(lambda: service.metrics()["cascade_srn_requests_in_flight"] == 3)
        service.server.handle_exit(15, None)
        for one in (stalled, chunked):
            refusal(until_closed(one), 503, "shutting_down")
        assert until_closed(silent) == b""
    assert not caplog.records


def test_shutdown_refuses_what_cannot_be_finished_in_time(held, caplog):
    with live(held.extractor, ServeSettings(shutdown_seconds=0.1)) as service, service.connect() as connection:
        held.hold()
        body = json.dumps({"text": TEXT}).encode()
        connection.sendall(head("/extract", "Content-Type: application/json", f"Content-Length: {len(body)}") + body)
        until(lambda: held.n_waiting == 1)
        service.server.handle_exit(15, None)
        refusal(until_closed(connection), 503, "shutting_down")
        held.let_go()
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_memory_for_bodies_is_bounded(extractor):
    """While one request holds nearly all memory, others are refused; afterwards they are accepted."""
    settings = ServeSettings(bodies_bytes=4000, limits=Limits(body_bytes=4000))
    with live(extractor, settings) as service:
        with service.connect() as holding:
            holding.sendall(head("/extract", "Content-Type: application/json", "Content-Length: 4000") + b" " * 3990)
            until(lambda: service.metrics()["cascade_srn_bodies_bytes"] == 3990)
            answer = service.post("/extract", {"text": TEXT})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "bodies_full")
            assert answer.headers["retry-after"] == "1"
        until(lambda: service.metrics()["cascade_srn_bodies_bytes"] == 0)
        assert service.post("/extract", {"text": TEXT}).status_code == 200
        assert service.metrics()["cascade_srn_bodies_bytes"] == 0
        answer = service.post("/extract", {"texts": ["a"] * 20})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_memory_is_reserved_until_the_request_is_answered(held):
    with live(held.extractor) as service, ThreadPoolExecutor(1) as pool:
        held.hold()
        taken = pool.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        assert service.metrics()["cascade_srn_bodies_bytes"] > 0
        held.let_go()
        assert taken.result().status_code == 200


def test_a_request_larger_than_the_queue_is_refused_and_a_smaller_one_is_not(extractor):
    with live(extractor, ServeSettings(queue_words=40)) as service:
        answer = service.post("/extract", {"text": "tagger-" * 40})  # one word of many pieces
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"
        assert "40 words" in answer.json()["error"]["message"]
        assert service.post("/extract", {"text": TEXT}).status_code == 200
