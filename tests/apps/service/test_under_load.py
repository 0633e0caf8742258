"""Full queues, timeouts, clients that disconnect, and shutdown."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from tests.apps.service.live import TEXT, live, received
from tests.apps.web.live_app import PATIENCE, until
from tests.apps.web.test_refusals import refusal

from cascade_srn.apps.service import handler
from cascade_srn.apps.service.requests import prepare_item
from cascade_srn.apps.web import bodies
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ModelError

pytestmark = pytest.mark.slow

GONE = 'cascade_srn_requests_total{route="/extract",status="499"}'


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def raw_request():
    """Return a request as bytes."""
    body = f'{{"text": "{TEXT}"}}'.encode()
    head = "POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_full_queue_refuses_requests_and_loses_none(held, threads):
    with live(held.extractor, ServeSettings(queue_texts=2)) as service:
        held.hold()
        first = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        waiting = [threads.submit(service.post, "/extract", {"text": TEXT}) for _ in range(2)]
        until(lambda: service.engine.queue.n_texts == 2)
        answer = service.post("/extract", {"text": TEXT})
        refusal(answer, 503, "queue_full")
        assert answer.headers["retry-after"] == "1"
        metrics = service.metrics()
        assert metrics["cascade_srn_queue_texts"] == 2
        assert metrics["cascade_srn_queue_words"] == 2 * sum(prepare_item(held.extractor, TEXT).costs)
        assert metrics["cascade_srn_queue_refused_total"] == 1
        assert service.client.get("/health").status_code == 200
        held.let_go()
        assert [one.result().status_code for one in (first, *waiting)] == [200] * 3
        assert service.post("/extract", {"text": TEXT}).status_code == 200


def test_a_request_that_does_not_fit_is_refused_whole(held, threads):
    with live(held.extractor, ServeSettings(queue_texts=2)) as service:
        held.hold()
        first = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        second = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: service.engine.queue.n_texts == 1)
        refusal(service.post("/extract", {"texts": [TEXT, TEXT]}), 503, "queue_full")
        assert service.engine.queue.n_texts == 1
        held.let_go()
        assert first.result().status_code == second.result().status_code == 200


def test_a_request_that_takes_too_long(held):
    with live(held.extractor, ServeSettings(request_seconds=1)) as service:
        held.hold()
        assert "1 s" in refusal(service.post("/extract", {"text": TEXT}), 504, "timeout")
        until(lambda: held.n_waiting == 1)
        # The model is still busy. Sentences that have not started are dropped.
        refusal(service.post("/extract", {"texts": [TEXT, TEXT]}), 504, "timeout")
        assert service.engine.queue.n_texts == 0
        held.let_go()
        until(lambda: held.n_waiting == 0)
        assert service.post("/extract", {"text": "a tagger"}).status_code == 200
        metrics = service.metrics()
        # The first request timed out while it was in the model, which stopped.
        assert metrics["cascade_srn_texts_total"] == 1
        assert metrics["cascade_srn_abandoned_batches_total"] == 1


def test_a_client_that_disconnects(held):
    with live(held.extractor) as service:
        held.hold()
        with service.connect() as first, service.connect() as second:
            first.sendall(raw_request())
            until(lambda: held.n_waiting == 1)
            second.sendall(raw_request())
            until(lambda: service.engine.queue.n_texts == 1)
        until(lambda: service.engine.queue.n_texts == 0)
        held.let_go()
        until(lambda: service.metrics().get(GONE) == 2)
        assert service.post("/extract", {"text": TEXT}).status_code == 200


def test_a_client_that_disconnects_within_its_body(service):
    before = service.metrics().get(GONE, 0)
    with service.connect() as connection:
        connection.sendall(raw_request()[:-4])
    until(lambda: service.metrics().get(GONE) == before + 1)


def test_not_ready_until_the_model_is_warm(held):
    held.hold()
    with live(lambda: held.extractor, ready=False) as service:
        until(lambda: held.n_waiting == 1)
        assert service.client.get("/health").json() == {"status": "alive"}
        for answer in (
            service.client.get("/ready"),
            service.client.get("/schema"),
            service.post("/extract", {"text": TEXT}),
            service.post("/draw", {"text": TEXT}),
        ):
            refusal(answer, 503, "not_ready")
            assert answer.headers["retry-after"] == "2"
        assert service.metrics()["cascade_srn_ready"] == 0
        held.let_go()
        until(lambda: service.client.get("/ready").status_code == 200)
        assert service.metrics()["cascade_srn_ready"] == 1
        assert service.post("/extract", {"text": TEXT}).status_code == 200


def test_a_model_that_cannot_be_loaded(caplog):
    def load():
        raise ModelError("there is no model here")

    with live(load, ready=False) as service:
        until(lambda: service.engine.failure is not None)
        assert service.client.get("/health").status_code == 200
        for answer in (service.client.get("/ready"), service.post("/extract", {"text": TEXT})):
            refusal(answer, 503, "not_loaded")
    assert "ModelError: there is no model here" in caplog.text


def test_shutdown_finishes_accepted_requests(held, threads):
    """Also one whose body is completed later."""
    with live(held.extractor) as service:
        held.hold()
        with service.connect() as late:
            late.sendall(raw_request()[:-4])
            taken = [threads.submit(service.post, "/extract", {"text": TEXT})]
            until(lambda: held.n_waiting == 1)
            taken += [threads.submit(service.post, "/extract", {"text": TEXT}) for _ in range(2)]
            until(lambda: service.engine.queue.n_texts == 2)
            until(lambda: service.metrics()["cascade_srn_requests_in_flight"] == 5)
            service.stop()
            late.sendall(raw_request()[-4:])
            until(lambda: service.engine.queue.n_texts == 3)
            assert not any(one.done() for one in taken)
            held.let_go()
            assert received(late).startswith(b"HTTP/1.1 200 ")
        assert [one.result().status_code for one in taken] == [200] * 3
        expected = held.extractor.extract(TEXT).to_dict()
        assert [one.result().json()["documents"][0]["sentences"] for one in taken] == [expected["sentences"]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("where", ["parse", "prepare"])
def test_shutdown_finishes_complete_requests(extractor, threads, monkeypatch, where):
    """Also those that are still being parsed or prepared, and have not reached the queue."""
    begun, go_on = Event(), Event()
    module, name = {"parse": (bodies, "parse_body"), "prepare": (handler, "prepare_items")}[where]
    original = getattr(module, name)

    def waiting(*arguments, **named):
        begun.set()
        assert go_on.wait(PATIENCE)
        return original(*arguments, **named)

    monkeypatch.setattr(module, name, waiting)
    text = f"{TEXT} " * (1 + bodies.INLINE_BYTES // len(TEXT))
    with live(extractor, ServeSettings(request_seconds=1000, shutdown_seconds=1000)) as service:
        taken = threads.submit(service.post, "/extract", {"text": text})
        try:
            assert begun.wait(PATIENCE)
            service.stop()
        finally:
            go_on.set()
        answer = taken.result()
        assert answer.status_code == 200, answer.text
        found, expected = answer.json()["documents"][0]["entities"], extractor.extract(text).to_dict()["entities"]
        assert [(e["start"], e["end"], e["label"]) for e in found] == [
            (e["start"], e["end"], e["label"]) for e in expected
        ]


def test_shutdown_refuses_connections(held, threads):
    """Also while earlier requests are still in progress."""
    with live(held.extractor) as service:
        held.hold()
        taken = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        service.stop()

        def refused():
            """For a short time, connections are still accepted."""
            try:
                httpx.get(f"{service.url}/ready")
            except httpx.TransportError:
                return True
            return False

        until(refused)
        assert not taken.done()
        held.let_go()
        assert taken.result().status_code == 200
