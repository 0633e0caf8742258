"""A queue that is full, answers that take too long, clients that leave, and the end of the service."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from tests.serving.live import PATIENCE, TEXT, live, received, until
from tests.serving.test_refusals import refusal

from cascade_srn.errors import ModelError
from cascade_srn.serving import ServeSettings, answering, bodies
from cascade_srn.serving.queue import prepare


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def asked(service, text=TEXT):
    """A request as bytes."""
    body = f'{{"text": "{text}"}}'.encode()
    head = "POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_full_queue_refuses_and_forgets_nothing(held, threads):
    with live(held.extractor, ServeSettings(queue_texts=2)) as service:
        held.hold()
        first = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        waiting = [threads.submit(service.post, "/extract", {"text": TEXT}) for _ in range(2)]
        until(lambda: service.engine.waiting.n_texts == 2)
        answer = service.post("/extract", {"text": TEXT})
        assert "too much is waiting for the model already" in refusal(answer, 503, "queue_full")
        assert answer.headers["retry-after"] == "1"
        figures = service.client.get("/metrics").text
        assert "cascade_srn_queue_texts 2\n" in figures
        cost = 2 * sum(prepare(held.extractor, TEXT).costs)
        assert f"cascade_srn_queue_words {cost}\n" in figures
        assert "cascade_srn_queue_refused_total 1\n" in figures
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
        until(lambda: service.engine.waiting.n_texts == 1)
        refusal(service.post("/extract", {"texts": [TEXT, TEXT]}), 503, "queue_full")
        assert service.engine.waiting.n_texts == 1
        held.let_go()
        assert first.result().status_code == second.result().status_code == 200


def test_a_request_that_takes_too_long(held):
    with live(held.extractor, ServeSettings(request_seconds=0.2)) as service:
        held.hold()
        message = refusal(service.post("/extract", {"text": TEXT}), 504, "timeout")
        assert message == "the answer was not there within 0.2 s; send less text, or try later"
        until(lambda: held.n_waiting == 1)
        # The model is still at it; what has not begun is dropped.
        refusal(service.post("/extract", {"texts": [TEXT, TEXT]}), 504, "timeout")
        assert service.engine.waiting.n_texts == 0
        held.let_go()
        until(lambda: held.n_waiting == 0)
        assert service.post("/extract", {"text": "a tagger"}).status_code == 200
        figures = service.client.get("/metrics").text
        # The first request was in the model when its time was over: its work was stopped there.
        assert "cascade_srn_texts_total 1\n" in figures
        assert "cascade_srn_abandoned_batches_total 1\n" in figures


def test_a_client_that_goes_away(held):
    with live(held.extractor) as service:
        held.hold()
        with service.connect() as first, service.connect() as second:
            first.sendall(asked(service))
            until(lambda: held.n_waiting == 1)
            second.sendall(asked(service))
            until(lambda: service.engine.waiting.n_texts == 1)
        until(lambda: service.engine.waiting.n_texts == 0)
        held.let_go()
        until(lambda: 'route="/extract",status="499"} 2' in service.client.get("/metrics").text)
        assert service.post("/extract", {"text": TEXT}).status_code == 200


def test_a_client_that_goes_away_while_it_speaks(service):
    with service.connect() as connection:
        connection.sendall(asked(service)[:-4])
    until(lambda: 'route="/extract",status="499"} 1' in service.client.get("/metrics").text)


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
            message = refusal(answer, 503, "not_ready")
            assert message == "the model is still being loaded; try again soon"
            assert answer.headers["retry-after"] == "2"
        assert "cascade_srn_ready 0\n" in service.client.get("/metrics").text
        held.let_go()
        until(lambda: service.client.get("/ready").status_code == 200)
        assert "cascade_srn_ready 1\n" in service.client.get("/metrics").text
        assert service.post("/extract", {"text": TEXT}).status_code == 200


def test_a_model_that_cannot_be_loaded(caplog):
    def load():
        raise ModelError("there is no model here")

    with live(load, ready=False) as service:
        until(lambda: service.engine.failure is not None)
        assert service.client.get("/health").status_code == 200
        for answer in (service.client.get("/ready"), service.post("/extract", {"text": TEXT})):
            message = refusal(answer, 503, "not_loaded")
            assert message == "the model could not be loaded; the log of the service says why"
    assert "the model could not be loaded: ModelError: there is no model here" in caplog.text


def test_told_to_stop_it_finishes_what_it_took_and_refuses_the_rest(held, threads):
    with live(held.extractor) as service:
        held.hold()
        with service.connect() as late:
            late.sendall(asked(service)[:-4])
            taken = [threads.submit(service.post, "/extract", {"text": TEXT})]
            until(lambda: held.n_waiting == 1)
            taken += [threads.submit(service.post, "/extract", {"text": TEXT}) for _ in range(2)]
            until(lambda: service.engine.waiting.n_texts == 2)
            # All four are being answered, and so is this question.
            until(lambda: "cascade_srn_requests_in_flight 5\n" in service.client.get("/metrics").text)
            service.server.handle_exit(15, None)
            late.sendall(asked(service)[-4:])
            answer = received(late)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"code":"shutting_down"' in answer
        assert not any(one.done() for one in taken)
        held.let_go()
        assert [one.result().status_code for one in taken] == [200] * 3
        expected = held.extractor.extract(TEXT).to_dict()
        assert [one.result().json()["documents"][0]["sentences"] for one in taken] == [expected["sentences"]] * 3


@pytest.mark.parametrize("where", ["read", "split"])
def test_told_to_stop_it_finishes_what_had_come_whole(extractor, threads, monkeypatch, where):
    """Though it was still held against its form, or split into words, and had not reached the queue."""
    begun, go_on = Event(), Event()
    module, name = {"read": (bodies, "parsed"), "split": (answering, "orders_of")}[where]
    whole = getattr(module, name)

    def held_up(*arguments, **named):
        begun.set()
        assert go_on.wait(PATIENCE)
        return whole(*arguments, **named)

    monkeypatch.setattr(module, name, held_up)
    text = f"{TEXT} " * (1 + bodies.INLINE_BYTES // len(TEXT))
    with live(extractor) as service:
        taken = threads.submit(service.post, "/extract", {"text": text})
        try:
            assert begun.wait(PATIENCE)
            service.server.handle_exit(15, None)
        finally:
            go_on.set()
        answer = taken.result()
        assert answer.status_code == 200, answer.text
        found, expected = answer.json()["documents"][0]["entities"], extractor.extract(text).to_dict()["entities"]
        assert [(e["start"], e["end"], e["label"]) for e in found] == [
            (e["start"], e["end"], e["label"]) for e in expected
        ]


def test_told_to_stop_it_takes_no_connections(held, threads):
    """Not even while it still works on what it took."""
    with live(held.extractor) as service:
        held.hold()
        taken = threads.submit(service.post, "/extract", {"text": TEXT})
        until(lambda: held.n_waiting == 1)
        service.server.handle_exit(15, None)

        def refused():
            """At first, for a moment, by an answer."""
            try:
                assert httpx.get(f"{service.url}/ready").json()["error"]["code"] == "shutting_down"
            except httpx.TransportError:
                return True
            return False

        until(refused)
        assert not taken.done()
        held.let_go()
        assert taken.result().status_code == 200
