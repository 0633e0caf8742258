"""Work outside the model: what runs in background threads, and what happens to it on shutdown."""

import asyncio
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from tests.apps.service.live import live
from tests.apps.web.live_app import until
from tests.apps.web.test_refusals import DOCUMENT

from cascade_srn.apps.service import app, handler
from cascade_srn.apps.web.refusals import Refusal
from cascade_srn.apps.web.settings import ServeSettings

WORDS = "a " * 80


@pytest.fixture
def record_threads(monkeypatch):
    """Record the threads in which a function runs, by name without number."""
    places = []

    def record(module, name):
        original = getattr(module, name)

        def recording(*arguments, **named):
            places.append(threading.current_thread().name.rpartition("_")[0])
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, recording)
        return places

    return record


def given(number):
    return [{"start": 2 * n, "end": 2 * n + 1, "label": "Task"} for n in range(number)]


def test_given_entities_count_as_work(service, record_threads):
    places = record_threads(handler, "prepare_items")
    for entities in (given(2), given(80), [given(80)]):
        assert service.post("/extract", {"text": WORDS, "entities": entities}).status_code == 200
    assert places == ["", "cascade-srn-background", "cascade-srn-background"]


def test_sentences_count_as_work(service, record_threads):
    """Empty sentences count, too."""
    places = record_threads(app, "read_document")
    for n_sentences in (2, 100):
        document = {"text": "", "sentences": [[]] * n_sentences}
        assert service.post("/convert", {"document": document}).json() == {"txt": "", "ann": ""}
    assert places == ["", "cascade-srn-background"]


def test_words_count_as_work_before_their_offsets_are_checked(service, record_threads):
    places = record_threads(app, "read_document")
    document = {"text": "a", "sentences": [[[0, 1]] * 4_000]}
    assert service.post("/convert", {"document": document}).status_code == 422
    assert places == ["cascade-srn-background"]


def test_the_limits_of_drawings_are_checked_in_a_thread(service, record_threads):
    places = record_threads(app, "check_drawable")
    assert service.post("/draw", {"document": DOCUMENT}).status_code == 200
    assert places == ["cascade-srn-background"]


@pytest.mark.slow
def test_shutdown_does_not_wait_for_background_work(extractor, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def draw(document, schema):
        begun.set()
        go_on.wait()
        return ""

    monkeypatch.setitem(app.DRAWINGS, "html", (draw, "text/html"))
    try:
        with live(extractor, ServeSettings(request_seconds=1, shutdown_seconds=0.05)) as service:
            assert not service.handler.is_busy
            assert service.post("/draw", {"document": DOCUMENT}).status_code == 504
            assert begun.is_set()
        # The service has ended; live() asserts it.
        assert service.handler.is_busy
    finally:
        go_on.set()
    until(lambda: not service.handler.is_busy)


class Waiting:
    """A request whose client waits, and whose time limit of 0.01 s begins now."""

    def __init__(self):
        self.state = SimpleNamespace(deadline=asyncio.get_running_loop().time() + 0.01)

    async def receive(self):
        await asyncio.Event().wait()


def wait_for(service, future, progressed):
    async def wait():
        asyncio.get_running_loop().call_later(0.1, future.set_result, "found")
        return await service.handler._wait(Waiting(), future, progressed)

    return asyncio.run(wait())


def test_the_time_limit_counts_from_the_last_progress(service):
    # Progress is made at every moment, so that the time limit never ends the request.
    assert wait_for(service, Future(), time.monotonic) == "found"
    with pytest.raises(Refusal) as caught:
        wait_for(service, Future(), lambda: time.monotonic() - 2 * service.handler.settings.request_seconds)
    assert caught.value.status == 504


def test_the_model_reports_its_progress_with_a_request(service):
    requests = []
    submit = service.engine.submit

    def record(items):
        requests.append((time.monotonic(), submit(items)))
        return requests[-1][1]

    with patch.object(service.engine, "submit", record):
        assert service.post("/extract", {"text": "a tagger"}).status_code == 200
    ((submitted, request),) = requests
    assert request.progressed > submitted
