from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.small_models import NO_LIMITS, examples, small_model, spread_probabilities

from cascade_srn import Document, Extractor
from cascade_srn.config import PRESETS, SearchLimits, Thresholds
from cascade_srn.inference.decode import find_candidates, select_best
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.types import Sentence

EVERYTHING = Thresholds(0, 0, 0)
WORDS = ("tagger", "parsing", "data", "search")


def words(n: int) -> Example:
    return Example(Sentence.from_words([WORDS[i % len(WORDS)] for i in range(n)]))


def limited(limits: SearchLimits, preset: str = "swift", **encoder: int) -> Model:
    return spread_probabilities(small_model(preset, limits=limits, encoder=encoder))


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_best_items_of_each_row_are_chosen():
    row, score = np.array([0, 0, 0, 1, 2, 2]), np.array([0.1, 0.9, 0.5, 0.2, 0.3, 0.3])
    assert select_best(row, score, [3, 1, 2]) is None
    chosen = select_best(row, score, [2, 1, 1])
    # Of equal scores, the first is kept.
    assert chosen is not None
    assert chosen.tolist() == [False, True, True, True, True, False]
    none = select_best(row, score, [0, 0, 0])
    assert none is not None
    assert not none.any()


def test_candidates_longer_than_the_bound_are_never_made():
    start = end = np.ones((2, 6, 3))
    row, first, last, _ = find_candidates(start, end, np.array([6, 4]), 0.5, 2)
    assert (last - first).max() == 1
    assert np.bincount(row).tolist() == [3 * (6 + 5), 3 * (4 + 3)]


@pytest.mark.parametrize("preset", PRESETS)
def test_entities_pairs_and_relations_stay_within_their_bounds(preset):
    limits = SearchLimits(entity_words=4, entities_per_word=1, pairs_per_word=8, relations_per_word=1)
    predictor = limited(limits, preset).predictor(thresholds=EVERYTHING)
    scored = predictor.predict_with_scores([words(40), words(1)])
    for found in scored:
        n = len(found.sentence)
        assert len(found.sentence.entities) <= limits.max_entities(n)
        assert len(found.triples) <= limits.max_relations(n)
        spans = {(e.start, e.end) for t in found.sentence.triples for e in (t.head, t.tail)}
        assert len(spans) <= limits.max_spans(n)
        assert all(e.end - e.start <= 4 for e in found.sentence.entities)
    assert [found.limited for found in scored] == [True, False]
    assert predictor.n_limited == 1


def test_turns_2_and_3_see_the_best_spans_only():
    model = limited(replace(NO_LIMITS, pairs_per_word=30))
    found = model.predictor(thresholds=EVERYTHING).predict([words(12)])[0]
    n = model.settings.limits.max_spans(12)
    best = {}
    for entity in found.entities:
        place = (entity.start, entity.end)
        best[place] = max(best.get(place, 0.0), entity.score)
    expected = set(sorted(best, key=lambda place: -best[place])[:n])
    assert {(e.start, e.end) for t in found.triples for e in (t.head, t.tail)} == expected
    assert len(found.entities) > n


def test_limits_that_do_not_apply_change_nothing():
    model = limited(NO_LIMITS)
    usual = replace(model, settings=replace(model.settings, limits=SearchLimits()))
    thresholds = Thresholds(0.6, 0.5, 0.5)
    predictor = usual.predictor(thresholds=thresholds)
    assert predictor.predict(examples()) == model.predictor(thresholds=thresholds).predict(examples())
    assert predictor.n_limited == 0


def test_a_limit_that_applies_is_reported_once():
    extractor = Extractor(limited(SearchLimits(entities_per_word=1)))
    document = Document.from_words([list(words(40).sentence.words)] * 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        extractor.predict([document, document], thresholds=EVERYTHING, batch_words=1)
    (warning,) = seen
    assert "model.settings.limits" in str(warning.message)


@pytest.mark.parametrize("preset", ["swift", pytest.param("early", marks=pytest.mark.slow)])
def test_small_encoder_passes_give_the_same_results(preset):
    model = limited(NO_LIMITS, preset, max_pieces=32)
    thresholds = Thresholds(0.7, 0.5, 0.5)
    long = [words(40), *examples()]
    whole = model.predictor(thresholds=thresholds, batch_words=100_000).predict(long)
    small = model.predictor(thresholds=thresholds, batch_words=1).predict(long)
    assert [len(s.entities) for s in whole] == [len(s.entities) for s in small]
    assert [[(e.start, e.end, e.label) for e in s.entities] for s in whole] == [
        [(e.start, e.end, e.label) for e in s.entities] for s in small
    ]


def test_the_encoder_never_reads_more_pieces_at_once_than_the_budget():
    """A text of few words and very many pieces must not take gigabytes."""
    model = limited(NO_LIMITS, max_pieces=32)
    sizes = []
    model.cascade.encoder.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    long = Example(Sentence.from_words(["tagger-" * 400, "data"]))
    room = model.collator.pieces.room
    assert model.cost(long) > 10 * room
    model.predictor(thresholds=Thresholds(1, 1, 1), batch_words=room).predict([long] * 3)
    assert len(sizes) > 10
    assert max(sizes) <= max(2 * room, room + 2)


@pytest.mark.parametrize("preset", ["swift", "early"])
def test_work_can_be_stopped_between_passes_and_between_pairs(preset):
    class Stop(Exception):
        pass

    model = limited(NO_LIMITS, preset, max_pieces=32)
    calls = 0

    def check():
        nonlocal calls
        calls += 1
        if calls == stop_at:
            raise Stop

    stop_at = -1
    batch = [Example(Sentence.from_words(["tagger-" * 200]))]
    model.predictor(thresholds=Thresholds(0.5, 0.5, 0.5), batch_words=1, check=check).predict(batch)
    n_calls, calls = calls, 0
    assert n_calls > 3
    for stop_at in (1, 2, n_calls):
        calls = 0
        with pytest.raises(Stop):
            model.predictor(thresholds=Thresholds(0.5, 0.5, 0.5), batch_words=1, check=check).predict(batch)
        assert calls == stop_at
