"""Slow, excessive and invalid requests: limits of number, time, size and memory."""

import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from tests.apps.service.live import TEXT, live
from tests.apps.web.live_app import until

from cascade_srn.apps.web.bodies import FREE_BYTES
from cascade_srn.apps.web.run import HEAD_BYTES
from cascade_srn.apps.web.settings import Limits, ServeSettings

pytestmark = pytest.mark.slow

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
JSON = "Content-Type: application/json"


def head(path="/extract", *lines, method="POST", host="localhost"):
    given = lines or (JSON, "Content-Length: 1000")
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
    assert b"content-security-policy" in top.lower()
    error = json.loads(body)["error"]
    assert error["code"] == code
    return error["message"]


@pytest.fixture(scope="module")
def locked(extractor):
    with live(extractor, ServeSettings(api_key="abc", limits=Limits(body_bytes=5000))) as running:
        yield running


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (head(), 401, "unauthorized"),
        (head(host="evil.example"), 421, "unknown_host"),
        (head("/nowhere", "X-API-Key: abc", "Content-Length: 9"), 404, "not_found"),
        (head("/health"), 405, "method_not_allowed"),
        (head("/extract", "X-API-Key: abc", "Content-Length: 9"), 415, "unsupported_media_type"),
        (head("/extract", "X-API-Key: abc", JSON, "Content-Length: 5001"), 413, "body_too_large"),
        (head("/nowhere", "X-API-Key: abc", "Transfer-Encoding: chunked"), 404, "not_found"),
    ],
)
def test_an_early_answer_closes_the_connection(locked, sent, status, code):
    """The service does not wait for the rest of the body."""
    with locked.connect() as connection:
        connection.sendall(sent + b"1\r\n")
        refusal(until_closed(connection), status, code)


def test_a_client_that_goes_on_sending_can_read_the_early_answer(locked):
    with locked.connect() as connection:
        connection.sendall(head("/extract", JSON, "Content-Length: 1000000"))
        for _ in range(20):
            connection.sendall(b" " * 50_000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_request_without_a_body_keeps_its_connection(locked):
    with locked.connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET /schema HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert b"connection: close" not in answer.lower()


def test_a_body_in_many_lines_is_taken(service):
    """Programs that iterate over a file send one line at a time."""
    lines = [b'{"texts": [\n', *[b'  "A tagger helps parsing in this line.",\n'] * 100, b'"a"]}']
    headers = {"Content-Type": "application/json"}
    assert service.client.post("/extract", content=iter(lines), headers=headers).status_code == 200


CHUNKED = head("/extract", JSON, "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "sent",
    [
        head("/extract", "Content-Length: 3", "Content-Length: 4") + b"abcd",
        head("/extract", "Content-Length: -3"),
        head("/extract", JSON, "Transfer-Encoding: gzip") + b"abc",
        head("/extract", JSON, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2 * HEAD_BYTES,
        b"GET /" + b"a" * 2 * HEAD_BYTES,
        CHUNKED + b"zz\r\n\r\n",
        CHUNKED + b"3\r\nabcdefg\r\n",
        CHUNKED + b"0\r\nX: " + b"a" * 2 * HEAD_BYTES,
        CHUNKED + b"1;x=" + b"a" * 2 * HEAD_BYTES,
    ],
)
def test_invalid_http_and_endless_heads(service, caplog, sent):
    with service.connect() as connection, caplog.at_level(logging.WARNING):
        connection.sendall(sent)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert not caplog.records


def test_conflicting_lengths_are_no_second_request(service):
    """The chunks are the body. Nothing after them is read as a request of its own."""
    sent = head("/nowhere", "Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + HEALTH
    with service.connect() as connection:
        connection.sendall(sent + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answers = until_closed(connection)
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] in ([b"404", b"200", b"200"], [b"404"], [b"400"])


def test_upgrades_to_other_protocols_are_ignored(service, caplog):
    with service.connect() as connection, caplog.at_level(logging.WARNING):
        connection.sendall(head("/health", "Connection: Upgrade, close", "Upgrade: websocket", method="GET"))
        answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert not caplog.records


def test_pipelined_requests_are_answered_in_turn(service):
    with service.connect() as connection:
        connection.sendall(HEALTH * 199 + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert until_closed(connection).count(b"HTTP/1.1 200 OK") == 200


def test_idle_connections_are_closed(extractor):
    with live(extractor, ServeSettings(keep_alive_seconds=0.1)) as service, service.connect() as connection:
        connection.sendall(HEALTH)
        assert until_closed(connection).count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
def test_a_client_that_does_not_read_is_disconnected(extractor):
    with live(extractor, ServeSettings(request_seconds=0.3)) as service, socket.socket() as connection:
        service.client.close()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((service.client.base_url.host, service.client.base_url.port))
        connection.sendall(b"GET /cytoscape.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        until(lambda: len(service.server.server_state.connections) == 1)
        until(lambda: not service.server.server_state.connections)


def test_too_many_requests(held):
    with live(held.extractor, ServeSettings(max_requests=2)) as service, ThreadPoolExecutor(2) as pool:
        held.hold()
        taken = [pool.submit(service.post, "/extract", {"text": TEXT})]
        until(lambda: held.n_waiting == 1)
        taken.append(pool.submit(service.post, "/extract", {"text": TEXT}))
        until(lambda: service.engine.queue.n_texts == 1)
        for _ in range(20):
            answer = service.client.get("/health")
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_many_requests")
            assert answer.headers["retry-after"] == "1"
        held.let_go()
        assert [one.result().status_code for one in taken] == [200, 200]
        assert service.client.get("/health").status_code == 200


def test_ordinary_requests_are_answered_beside_slow_clients(extractor):
    """Heads and bodies that do not end, below the limit of requests."""
    with live(extractor, ServeSettings(max_requests=110)) as service, ExitStack() as stack:
        slow = [stack.enter_context(service.connect()) for _ in range(100)]
        for number, one in enumerate(slow):
            one.sendall((head(), HEALTH[:-2], CHUNKED, b"")[number % 4])
        until(lambda: service.metrics()["cascade_srn_requests_in_flight"] == 51)
        for _ in range(5):
            for one in slow[::4]:
                one.sendall(b" ")
            assert service.post("/extract", {"text": TEXT}).status_code == 200


BIG_BODY = json.dumps({"texts": ["A tagger helps parsing. " * 4000] * 10}).encode()


def post_large(service):
    """Send about 1 MB. The answer says that there is too much text, which only a reader of the body knows."""
    answer = service.client.post("/extract", content=BIG_BODY, headers={"Content-Type": "application/json"})
    return answer.status_code, answer.json()["error"]["code"]


def test_a_flood_of_incomplete_bodies_does_not_keep_out_large_ones(extractor):
    """300 bodies of 1.9 MB without their last byte, closed at once."""
    assert len(BIG_BODY) > 900_000
    settings = ServeSettings(limits=Limits(texts=5))
    with live(extractor, settings) as service, ThreadPoolExecutor(30) as pool:
        begun = threading.Event()

        def flood(_):
            with service.connect() as connection:
                connection.sendall(head("/extract", JSON, "Content-Length: 1900001") + b" " * 1_900_000)
                begun.set()

        flooding = [pool.submit(flood, number) for number in range(300)]
        assert begun.wait(60)
        during = post_large(service)
        for one in flooding:
            one.result()
        assert during == post_large(service) == (422, "unprocessable")
        until(lambda: service.metrics()["cascade_srn_bodies_bytes"] == 0)


def test_shutdown_refuses_what_cannot_be_finished_in_time(held, caplog):
    """A request in the model, and one whose body is incomplete."""
    with live(held.extractor, ServeSettings(shutdown_seconds=0.1)) as service:
        held.hold()
        body = json.dumps({"text": TEXT}).encode()
        with service.connect() as first, service.connect() as second, service.connect() as silent:
            first.sendall(head("/extract", JSON, f"Content-Length: {len(body)}") + body)
            second.sendall(head() + b"{")
            # The system keeps a connection to itself until its first byte arrives.
            silent.sendall(b"P")
            until(lambda: held.n_waiting == 1 and service.metrics()["cascade_srn_requests_in_flight"] == 3)
            service.stop()
            for one in (first, second):
                refusal(until_closed(one), 503, "shutting_down")
            assert until_closed(silent) == b""
        held.let_go()
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_memory_for_bodies_is_bounded(extractor):
    """While one request holds nearly all memory, a long body waits, and a short one is accepted."""
    size = FREE_BYTES + 5000
    settings = ServeSettings(bodies_bytes=size + 1000, limits=Limits(body_bytes=size))
    with live(extractor, settings) as service, ThreadPoolExecutor(1) as pool:
        with service.connect() as holding:
            holding.sendall(head("/extract", JSON, f"Content-Length: {size}") + b" " * (size - 10))
            until(lambda: service.metrics()["cascade_srn_bodies_bytes"] == size)
            assert service.post("/extract", {"text": "a"}).status_code == 200
            answer = service.post("/extract", {"texts": ["a"] * 20})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "bodies_full")
            assert answer.headers["retry-after"] == "1"
            headers = {"Content-Type": "application/json"}
            long = pool.submit(service.client.post, "/extract", content=b'{"text": 5}'.ljust(size), headers=headers)
            until(lambda: service.metrics()["cascade_srn_requests_in_flight"] == 3)
            assert not long.done()
        assert long.result().status_code == 422
        until(lambda: service.metrics()["cascade_srn_bodies_bytes"] == 0)
        answer = service.post("/extract", {"texts": ["a"] * 128, "entities": [[]] * 200})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_a_body_that_waits_for_memory_too_long_is_refused(extractor):
    size = FREE_BYTES + 5000
    settings = ServeSettings(bodies_bytes=size, limits=Limits(body_bytes=size), request_seconds=0.5)
    with live(extractor, settings) as service, service.connect() as first, service.connect() as second:
        for one in (first, second):
            one.sendall(head("/extract", JSON, f"Content-Length: {size}") + b" " * (size - 10))
        answers = sorted(one.recv(65536)[9:12] for one in (first, second))
        assert answers in ([b"408", b"408"], [b"408", b"503"])


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
