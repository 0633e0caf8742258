"""The thread that runs the model: loading, failing, and one bad text among good ones."""

import logging
import threading
from dataclasses import replace

import pytest
from tests.serving.live import PATIENCE, TEXT, live, random_extractor, until

from cascade_srn.errors import ModelError
from cascade_srn.serving import ServeSettings
from cascade_srn.serving.engine import Engine, NotReady, report
from cascade_srn.serving.queue import prepare

BAD = "unspeakable"


def failing_on_a_word(error):
    """A tiny model that fails in its thread where a word occurs, alone or in a batch."""
    extractor = random_extractor()
    pieces = extractor.model.collator.pieces
    whole = pieces.row

    def row(words, *arguments, **named):
        if BAD in words and threading.current_thread().name == "cascade-srn-model":
            raise error
        return whole(words, *arguments, **named)

    pieces.row = row
    return extractor


@pytest.fixture
def started():
    engines = []

    def start(source, settings=None):
        engine = Engine(source, ServeSettings() if settings is None else settings)
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.close()


def test_ready_once_the_model_is_loaded_and_warm(held, started):
    held.hold()
    engine = started(lambda: held.extractor)
    until(lambda: held.n_waiting == 1)  # loaded, and at its first text
    assert not engine.is_ready
    with pytest.raises(NotReady):
        engine.submit([])
    held.let_go()
    until(lambda: engine.is_ready)


def test_a_model_that_cannot_be_loaded(started):
    told = []

    def load():
        raise ModelError("there is no model here")

    engine = Engine(load, ServeSettings())
    engine.on_loaded = lambda: told.append(engine.failure)
    engine.start()
    until(lambda: bool(told))
    engine.close()
    assert isinstance(told[0], ModelError)
    assert not engine.is_ready


def test_what_was_taken_is_finished_before_the_end(held):
    engine = Engine(held.extractor, ServeSettings())
    engine.start()
    until(lambda: engine.is_ready)
    held.hold()
    tickets = [engine.submit([prepare(held.extractor, TEXT)]) for _ in range(3)]
    until(lambda: held.n_waiting == 1)
    engine.refuse_new()
    held.let_go()
    engine.close()
    for ticket in tickets:
        (document,) = ticket.future.result(timeout=0)
        assert document.entities == held.extractor.extract(TEXT).entities


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RuntimeError(f"cannot do {BAD}"), 500, "text 1: the model failed on it (RuntimeError); the other texts can"),
        (ModelError("the word is too bad; use another one"), 422, "text 1: the word is too bad; use another one"),
    ],
)
def test_one_bad_text_does_not_fail_others(held, caplog, error, status, message):
    extractor = failing_on_a_word(error)
    with live(extractor, ServeSettings(batch_wait=0.2)) as service, caplog.at_level(logging.INFO):
        engine = service.engine
        # Straight into the queue, so that all are in one batch.
        first = engine.submit([prepare(extractor, "a tagger"), prepare(extractor, "search engines")])
        bad = engine.submit([prepare(extractor, "a parser"), prepare(extractor, f"{BAD} data")])
        last = engine.submit([prepare(extractor, TEXT)])
        assert all(ticket.future.result(PATIENCE) for ticket in (first, last))
        good, failed = bad.future.result(PATIENCE)
        assert good.entities == extractor.extract("a parser").entities
        assert failed is error
        answer = service.post("/extract", {"texts": ["a parser", f"{BAD} data"]})
        assert answer.status_code == status
        assert answer.json()["error"]["message"].startswith(message)
        assert service.post("/extract", {"text": TEXT}).status_code == 200
        assert "cascade_srn_text_failures_total 2\n" in service.client.get("/metrics").text
    assert BAD not in caplog.text
    assert ("RuntimeError at " in caplog.text) == (status == 500)


def test_texts_go_together_by_all_of_their_thresholds(held, started):
    """The same text, waiting with and without a threshold for entities that have a relation."""
    extractor, engine = held.extractor, started(held.extractor)
    until(lambda: engine.is_ready)
    held.hold()
    first = engine.submit([prepare(extractor, "data")])
    until(lambda: held.n_waiting == 1)  # what comes now waits, and goes on in one batch
    own = extractor.model.settings.thresholds
    levels = [replace(own, related=related) for related in (None, 0.2, 0.35)]
    tickets = [engine.submit([prepare(extractor, TEXT, thresholds=thresholds)]) for thresholds in levels]
    held.let_go()
    assert first.future.result(PATIENCE)
    found = [ticket.future.result(PATIENCE)[0].entities for ticket in tickets]
    assert found == [extractor.extract(TEXT, thresholds=thresholds).entities for thresholds in levels]
    assert len({len(entities) for entities in found}) == 3


def test_a_long_text_that_fails_on_the_way_is_dropped_whole(started):
    extractor = failing_on_a_word(RuntimeError("no"))
    engine = started(extractor, ServeSettings(batch_words=8))
    until(lambda: engine.is_ready)
    ticket = engine.submit([prepare(extractor, f"A tagger helps. The {BAD} fails. " + "Data needs parsing. " * 50)])
    (failed,) = ticket.future.result(PATIENCE)
    assert isinstance(failed, RuntimeError)
    assert (engine.waiting.n_texts, engine.waiting.n_words) == (0, 0)
    (good,) = engine.submit([prepare(extractor, TEXT)]).future.result(PATIENCE)
    assert good.text == TEXT


def test_reports_name_places_and_never_messages(caplog):
    try:
        raise KeyError("a secret text")
    except KeyError as error:
        report(error)
    assert "KeyError at test_engine.py:" in caplog.text
    assert "secret" not in caplog.text


LONG = "tagger-" * 2000  # one word of very many pieces: a large request in many encoder passes


def test_small_requests_are_answered_between_the_passes_of_a_large_one(held, started):
    extractor, engine = held.extractor, started(held.extractor, ServeSettings(batch_words=64))
    until(lambda: engine.is_ready)
    order = []
    held.hold_passes()
    large = engine.submit([prepare(extractor, LONG)])
    large.future.add_done_callback(lambda _: order.append("large"))
    until(lambda: held.n_waiting == 1)
    small = engine.submit([prepare(extractor, "a tagger")])
    small.future.add_done_callback(lambda _: order.append("small"))
    held.let_go()
    (document,) = large.future.result(PATIENCE)
    assert order == ["small", "large"]
    assert document.text == LONG
    found, expected = small.future.result(0)[0].entities, extractor.extract("a tagger").entities
    assert [(e.start, e.end, e.label) for e in found] == [(e.start, e.end, e.label) for e in expected]


def test_work_for_a_request_that_was_given_up_is_stopped_between_passes(held, started):
    extractor, engine = held.extractor, started(held.extractor, ServeSettings(batch_words=64))
    until(lambda: engine.is_ready)
    held.hold_passes()
    before = held.n_passes
    large = engine.submit([prepare(extractor, LONG)])
    until(lambda: held.n_waiting == 1)
    engine.drop(large)
    held.let_go()
    assert engine.submit([prepare(extractor, "a tagger")]).future.result(PATIENCE)
    # The pass that was under way, and the one of the next request.
    assert held.n_passes - before == 2


def test_requests_cost_what_their_word_pieces_cost(held):
    words, pieces = (prepare(held.extractor, text) for text in ("data " * 50, LONG))
    assert sum(words.costs) < 200
    assert sum(pieces.costs) > 1000
