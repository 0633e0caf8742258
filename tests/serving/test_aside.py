"""Work that is not the model's: what of it is done beside the event loop, and what becomes of it in the end."""

import threading

import pytest
from tests.serving.live import live, until
from tests.serving.test_refusals import DOCUMENT

from cascade_srn.serving import ServeSettings, answering, routes

WORDS = "a " * 80


@pytest.fixture
def noted(monkeypatch):
    """Notes where a function runs: the name of its threads, without their numbers."""
    places = []

    def note(module, name):
        whole = getattr(module, name)

        def noting(*arguments, **named):
            places.append(threading.current_thread().name.rpartition("_")[0])
            return whole(*arguments, **named)

        monkeypatch.setattr(module, name, noting)
        return places

    return note


def given(number):
    return [{"start": 2 * n, "end": 2 * n + 1, "label": "Task"} for n in range(number)]


def test_given_entities_count_as_work(service, noted):
    places = noted(answering, "orders_of")
    for entities in (given(2), given(80), [given(80)]):
        assert service.post("/extract", {"text": WORDS, "entities": entities}).status_code == 200
    assert places == ["", "cascade-srn-aside", "cascade-srn-aside"]


def test_sentences_count_as_work(service, noted):
    """Empty ones too, which are allowed."""
    places = noted(routes, "document_of")
    for n_sentences in (2, 100):
        document = {"text": "", "sentences": [[]] * n_sentences}
        assert service.post("/convert", {"document": document}).json() == {"txt": "", "ann": ""}
    assert places == ["", "cascade-srn-aside"]


def test_words_count_as_work_before_they_are_held_against_the_text(service, noted):
    places = noted(routes, "document_of")
    document = {"text": "a", "sentences": [[[0, 1]] * 4_000]}
    assert service.post("/convert", {"document": document}).status_code == 422
    assert places == ["cascade-srn-aside"]


def test_whether_a_document_can_be_drawn_is_seen_beside_the_event_loop(service, noted):
    places = noted(routes, "require_drawable")
    assert service.post("/draw", {"document": DOCUMENT}).status_code == 200
    assert places == ["cascade-srn-aside"]


def test_the_end_does_not_wait_for_it(extractor, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def draw(document, schema):
        begun.set()
        go_on.wait()
        return ""

    monkeypatch.setitem(routes.DRAWINGS, "html", (draw, "text/html"))
    try:
        with live(extractor, ServeSettings(request_seconds=1, shutdown_seconds=0.05)) as service:
            assert not service.server.answerer.is_busy
            assert service.post("/draw", {"document": DOCUMENT}).status_code == 504
            assert begun.is_set()
        # The service has ended, which the fixture makes sure of.
        assert service.server.answerer.is_busy
    finally:
        go_on.set()
    until(lambda: not service.server.answerer.is_busy)
