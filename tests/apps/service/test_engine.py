"""The thread that runs the model: loading, batching and failures."""

import logging
import threading
from dataclasses import replace

import pytest
from tests.apps.service.live import TEXT, live, random_extractor
from tests.apps.web.live_app import PATIENCE, until

from cascade_srn.apps.service.engine import ModelEngine
from cascade_srn.apps.service.requests import prepare_item
from cascade_srn.apps.web.middleware import log_failure
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ModelError

BAD = "unspeakable"


def failing_on_a_word(error):
    """Make a tiny model that raises an error in its thread on texts with a certain word."""
    extractor = random_extractor()
    pieces = extractor.model.collator.pieces
    original = pieces.rows

    def rows(sentences):
        if any(BAD in words for words in sentences) and threading.current_thread().name == "cascade-srn-model":
            raise error
        return original(sentences)

    pieces.rows = rows
    return extractor


@pytest.fixture
def started():
    engines = []

    def start(source, settings=None):
        engine = ModelEngine(source, ServeSettings() if settings is None else settings)
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.close()


def test_ready_once_the_model_is_loaded_and_warm(held, started):
    held.hold()
    engine = started(lambda: held.extractor)
    until(lambda: held.n_waiting == 1)  # loaded, and processing its first text
    assert not engine.is_ready
    assert engine.extractor is None
    held.let_go()
    until(lambda: engine.is_ready)


def test_a_model_that_cannot_be_loaded(started):
    reported = []

    def load():
        raise ModelError("there is no model here")

    engine = ModelEngine(load, ServeSettings())
    engine.on_loaded = lambda: reported.append(engine.failure)
    engine.start()
    until(lambda: bool(reported))
    engine.close()
    assert isinstance(reported[0], ModelError)
    assert not engine.is_ready


def test_queued_requests_are_finished_on_close(held):
    engine = ModelEngine(held.extractor, ServeSettings())
    engine.start()
    until(lambda: engine.is_ready)
    held.hold()
    requests = [engine.submit([prepare_item(held.extractor, TEXT)]) for _ in range(3)]
    until(lambda: held.n_waiting == 1)
    held.let_go()
    engine.close()
    for request in requests:
        (document,) = request.future.result(timeout=0)
        assert document.entities == held.extractor.extract(TEXT).entities


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RuntimeError(f"cannot process {BAD}"), 500, "RuntimeError"),
        (ModelError("the word is bad", "Use another one"), 422, "the word is bad. Use another one."),
    ],
)
def test_one_bad_text_does_not_fail_others(held, caplog, error, status, message):
    extractor = failing_on_a_word(error)
    with live(extractor, ServeSettings(batch_wait=0.2)) as service, caplog.at_level(logging.INFO):
        engine = service.engine
        # Submitted directly, so that all are in one batch.
        first = engine.submit([prepare_item(extractor, "a tagger"), prepare_item(extractor, "search engines")])
        bad = engine.submit([prepare_item(extractor, "a parser"), prepare_item(extractor, f"{BAD} data")])
        last = engine.submit([prepare_item(extractor, TEXT)])
        assert all(request.future.result(PATIENCE) for request in (first, last))
        good, failed = bad.future.result(PATIENCE)
        assert good.entities == extractor.extract("a parser").entities
        assert failed is error
        answer = service.post("/extract", {"texts": ["a parser", f"{BAD} data"]})
        assert answer.status_code == status
        assert answer.json()["error"]["message"].startswith("text 1: ")
        assert message in answer.json()["error"]["message"]
        assert service.post("/extract", {"text": TEXT}).status_code == 200
        assert service.metrics()["cascade_srn_text_failures_total"] == 2
    assert BAD not in caplog.text
    assert ("RuntimeError at " in caplog.text) == (status == 500)


def test_texts_with_different_overlaps_are_kept_apart(held, started):
    extractor, engine = held.extractor, started(held.extractor)
    until(lambda: engine.is_ready)
    held.hold()
    first = engine.submit([prepare_item(extractor, "data")])
    until(lambda: held.n_waiting == 1)  # later requests wait, and go into one batch
    modes = ("flat", "all", "flat")
    requests = [engine.submit([prepare_item(extractor, TEXT, overlaps=overlaps)]) for overlaps in modes]
    held.let_go()
    assert first.future.result(PATIENCE)
    found = [request.future.result(PATIENCE)[0].entities for request in requests]
    assert found == [extractor.extract(TEXT, overlaps=overlaps).entities for overlaps in modes]
    assert len(found[0]) < len(found[1])


def test_texts_with_different_thresholds_are_kept_apart(held, started):
    extractor, engine = held.extractor, started(held.extractor)
    until(lambda: engine.is_ready)
    held.hold()
    first = engine.submit([prepare_item(extractor, "data")])
    until(lambda: held.n_waiting == 1)  # later requests wait, and go into one batch
    own = extractor.model.settings.thresholds
    levels = [replace(own, related=related) for related in (None, 0.2, 0.35)]
    requests = [engine.submit([prepare_item(extractor, TEXT, thresholds=thresholds)]) for thresholds in levels]
    held.let_go()
    assert first.future.result(PATIENCE)
    found = [request.future.result(PATIENCE)[0].entities for request in requests]
    assert found == [extractor.extract(TEXT, thresholds=thresholds).entities for thresholds in levels]
    assert len({len(entities) for entities in found}) == 3


def test_the_rest_of_a_text_that_fails_is_dropped(started):
    extractor = failing_on_a_word(RuntimeError("no"))
    engine = started(extractor, ServeSettings(batch_words=8))
    until(lambda: engine.is_ready)
    text = f"A tagger helps. The {BAD} fails. " + "Data needs parsing. " * 50
    request = engine.submit([prepare_item(extractor, text)])
    (failed,) = request.future.result(PATIENCE)
    assert isinstance(failed, RuntimeError)
    assert (engine.queue.n_texts, engine.queue.n_words) == (0, 0)
    (good,) = engine.submit([prepare_item(extractor, TEXT)]).future.result(PATIENCE)
    assert good.text == TEXT


def test_failures_are_logged_without_their_message(caplog):
    try:
        raise KeyError("a secret text")
    except KeyError as error:
        log_failure(error)
    assert "KeyError at test_engine.py:" in caplog.text
    assert "secret" not in caplog.text


LONG = "tagger-" * 2000  # one word of very many pieces: a large request in many encoder passes


def test_small_requests_are_answered_between_the_passes_of_a_large_one(held, started):
    extractor, engine = held.extractor, started(held.extractor, ServeSettings(batch_words=64))
    until(lambda: engine.is_ready)
    order = []
    held.hold_passes()
    large = engine.submit([prepare_item(extractor, LONG)])
    large.future.add_done_callback(lambda _: order.append("large"))
    until(lambda: held.n_waiting == 1)
    small = engine.submit([prepare_item(extractor, "a tagger")])
    small.future.add_done_callback(lambda _: order.append("small"))
    held.let_go()
    (document,) = large.future.result(PATIENCE)
    assert order == ["small", "large"]
    assert document.text == LONG
    found, expected = small.future.result(0)[0].entities, extractor.extract("a tagger").entities
    assert [(e.start, e.end, e.label) for e in found] == [(e.start, e.end, e.label) for e in expected]


def test_work_for_an_abandoned_request_is_stopped_between_passes(held, started):
    extractor, engine = held.extractor, started(held.extractor, ServeSettings(batch_words=64))
    until(lambda: engine.is_ready)
    held.hold_passes()
    before = held.n_passes
    large = engine.submit([prepare_item(extractor, LONG)])
    until(lambda: held.n_waiting == 1)
    engine.drop(large)
    held.let_go()
    assert engine.submit([prepare_item(extractor, "a tagger")]).future.result(PATIENCE)
    # The pass in progress, and the one of the next request.
    assert held.n_passes - before == 2


def test_requests_cost_what_their_word_pieces_cost(held):
    words, pieces = (prepare_item(held.extractor, text) for text in ("data " * 50, LONG))
    assert sum(words.costs) < 200
    assert sum(pieces.costs) > 1000
