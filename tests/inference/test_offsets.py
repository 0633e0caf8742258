"""Offsets of labels and the map of relation scores change scores as documented, and nothing without them."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import pytest
from tests.small_models import examples, small_model, spread_probabilities

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.inference.cascade_search import SearchSettings
from cascade_srn.inference.decode import SearchResult, scale_score
from cascade_srn.model.model import Model

EVERYTHING = Thresholds(0.0, 0.0, 0.0)


def with_temperatures(model: Model, temperatures: Temperatures) -> Model:
    return replace(model, settings=replace(model.settings, temperatures=temperatures))


def shifted(score: float, temperature: float, offset: float) -> float:
    return 1 / (1 + exp(-(log(score / (1 - score)) / temperature + offset)))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["swift", "early"])
def test_offsets_of_entity_types(preset: str) -> None:
    model = spread_probabilities(small_model(preset))
    offsets = {"Task": -0.7, "Metric": 1.5}
    changed = with_temperatures(model, Temperatures(entity=2.0, entity_offsets=offsets))
    n = 0
    plain, mapped = (m.predictor(thresholds=EVERYTHING).predict(examples()) for m in (model, changed))
    for before, after in zip(plain, mapped, strict=True):
        assert before.entities == after.entities
        for one, two in zip(before.entities, after.entities, strict=True):
            n += 1
            assert two.score == pytest.approx(shifted(one.score, 2.0, offsets.get(one.label, 0.0)), abs=1e-5)
    assert n > 20


def test_thresholds_apply_to_scores_with_offsets() -> None:
    temperatures = Temperatures(entity_offsets={"Task": -1.0}, relation=1.5, relation_offsets={"used-for": 0.8})
    model = with_temperatures(spread_probabilities(small_model("swift")), temperatures)
    everything = model.predictor(thresholds=EVERYTHING).predict(examples())
    some = model.predictor(thresholds=Thresholds(0.4, 1.0, 1.0)).predict(examples())
    for whole, part in zip(everything, some, strict=True):
        assert list(part.entities) == [e for e in whole.entities if e.score >= 0.4]
    least = Thresholds(0.0, 0.0, 0.0, relation=0.2)
    n = 0
    for whole, part in zip(everything, model.predictor(thresholds=least).predict(examples()), strict=True):
        assert list(part.triples) == [t for t in whole.triples if t.score >= 0.2]
        n += len(part.triples)
    assert 0 < n < sum(len(s.triples) for s in everything)


def test_the_map_of_relation_scores() -> None:
    model = spread_probabilities(small_model("swift"))
    offsets = {"used-for": 0.8}
    changed = with_temperatures(model, Temperatures(relation=2.0, relation_offsets=offsets))
    thresholds = Thresholds(0.2, 0.1, 0.1)
    plain, mapped = (m.predictor(thresholds=thresholds).predict_with_scores(examples()) for m in (model, changed))
    n = 0
    for before, after in zip(plain, mapped, strict=True):
        assert [t.triple for t in after.triples] == list(after.sentence.triples)
        for one, two in zip(before.triples, after.triples, strict=True):
            n += 1
            assert two.triple == one.triple
            assert (two.subject, two.object) == (one.subject, one.object)
            expected = shifted(one.triple.score, 2.0, offsets.get(one.triple.label, 0.0))
            assert two.triple.score == pytest.approx(expected)
        assert [t.score for t in after.sentence.triples] == [t.triple.score for t in after.triples]
    assert n > 5
    given = (m.predictor(thresholds=thresholds).predict(examples(), given_entities=True) for m in (model, changed))
    for before, after in zip(*given, strict=True):
        assert [t.score for t in before.triples] == [t.score for t in after.triples]


@pytest.mark.parametrize("lowest", [None, 0.1])
def test_the_map_is_the_same_in_the_search_and_after_it(lowest: float | None) -> None:
    temperatures = Temperatures(relation=1.5, relation_offsets={"used-for": 0.8, "part-of": -1.0})
    model = with_temperatures(spread_probabilities(small_model("swift")), temperatures)
    predictor = model.predictor(thresholds=Thresholds(0.2, 0.1, 0.1, related=0.1, relation=lowest))
    expected = predictor.predict_with_scores(examples())
    search = predictor.search

    neutral = replace(temperatures, relation=1.0, relation_offsets={})

    class Uncalibrated:
        def __init__(self, settings: SearchSettings) -> None:
            self.search = search(settings._replace(temperatures=neutral))

        def find(self, *arguments: Any, **options: Any) -> list[SearchResult]:
            return [found._replace(calibrated=False) for found in self.search.find(*arguments, **options)]

    predictor.search = Uncalibrated
    assert sum(len(found.triples) for found in expected) > 3
    for one, other in zip(predictor.predict_with_scores(examples()), expected, strict=True):
        assert one.sentence == other.sentence
        assert one.triples == other.triples
        assert [t.triple.score for t in one.triples] == [t.triple.score for t in other.triples]


def test_a_map_of_scores_is_increasing_and_keeps_the_ends() -> None:
    values = [scale_score(i / 1000, 3.0, -2.0) for i in range(1001)]
    assert values == sorted(values)
    assert len(set(values)) == 1001
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert scale_score(1e-300, 0.01, -100.0) == 0.0
    assert scale_score(1 - 1e-16, 0.01, 100.0) == 1.0


@pytest.mark.parametrize("name", ["entity_offsets", "relation_offsets"])
def test_offsets_of_unknown_labels_and_out_of_range_are_refused(name: str) -> None:
    model = with_temperatures(small_model("swift"), Temperatures(**{name: {"Tsak": 0.5}}))
    with pytest.raises(ConfigError, match="Tsak"):
        model.predictor()
    with pytest.raises(ConfigError, match="Task"):
        Temperatures(**{name: {"Task": float("nan")}})
