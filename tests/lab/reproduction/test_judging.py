import numpy as np
import pytest
from tests.evaluation.saved_models import DOCUMENTS, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Extractor
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.comparison import Bootstrap, compare
from cascade_srn.lab.reproduction.measures import (
    CONTRADICTED,
    HELD,
    NOT_SHOWN,
    Verdict,
    count_predictions,
    decide_outcome,
    judge,
    judge_speed,
    number,
    resample,
)
from cascade_srn.lab.reproduction.tables import FEWER, MORE, NO_WORSE, Claim


@pytest.mark.parametrize(
    ("kind", "difference", "low", "p_value", "outcome"),
    [
        (MORE, 0.02, 0.001, 0.04, HELD), (MORE, 0.02, -0.001, 0.06, NOT_SHOWN),
        (MORE, -0.02, -0.06, 0.06, NOT_SHOWN), (MORE, -0.02, -0.03, 0.04, CONTRADICTED),
        (MORE, 0.0, 0.0, 1.0, NOT_SHOWN), (FEWER, -9, -20, 0.01, HELD), (FEWER, -9, -20, 0.1, NOT_SHOWN),
        (FEWER, 9, 2, 0.01, CONTRADICTED), (NO_WORSE, 0.0, -0.009, 1.0, HELD),
        (NO_WORSE, 0.01, -0.011, 0.3, NOT_SHOWN),
        (NO_WORSE, -0.004, -0.008, 0.01, CONTRADICTED),
    ],
)  # fmt: skip
def test_outcomes(kind, difference, low, p_value, outcome):
    assert decide_outcome(kind, difference, low, p_value) == outcome


@pytest.fixture(scope="module")
def predicted():
    seeds = {"a": (0, 1), "b": (2, 3)}
    return {
        name: [Extractor.from_pretrained(saved_model(s)).predict(DOCUMENTS) for s in ss] for name, ss in seeds.items()
    }


def _count(predicted, documents=DOCUMENTS):
    return {name: [count_predictions(documents, m, SCHEMA) for m in models] for name, models in predicted.items()}


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_scores_are_compared_as_in_the_evaluation(predicted, unit):
    counts, bootstrap = _count(predicted), Bootstrap(300, unit, seed=3)
    found = compare(DOCUMENTS, predicted["a"], predicted["b"], schema=SCHEMA, bootstrap=bootstrap)
    for column, task in (("ner", "ner"), ("re", "re_strict"), ("boundaries", "re_boundaries")):
        verdict = judge(Claim("a beats b", column, "a", "b"), counts, bootstrap, paper=1.5)
        expected = found[task]
        assert (verdict.first, verdict.second) == pytest.approx((expected.first.mean, expected.second.mean))
        assert verdict.difference == pytest.approx(expected.difference)
        assert (verdict.low, verdict.high, verdict.p_value) == (expected.low, expected.high, expected.p_value)
        assert verdict.low < verdict.high or column != "ner"
        assert verdict.paper == 1.5
        record = verdict.to_dict()
        assert record["interval"] == {"low": expected.low, "high": expected.high}
        assert (record["claim"], record["whose"], record["outcome"]) == ("a beats b", "the paper's", verdict.outcome)


def test_other_figures(predicted):
    counts, bootstrap = _count(predicted), Bootstrap(300, "sentence")
    for column in ("in_f1", "out_recall", "ner_precision", "RNF", "ESE", "ESE_share"):
        there, back = (judge(Claim("", column, *pair), counts, bootstrap) for pair in (("a", "b"), ("b", "a")))
        assert there.difference == pytest.approx(-back.difference)
        assert there.low <= there.difference <= there.high
    errors = judge(Claim("", "ESE", "a", "b"), counts, bootstrap)
    assert errors.first == sum(one.value("ESE") for one in counts["a"]) / 2


def test_one_document_is_not_enough(predicted):
    counts = _count({name: [model[:1] for model in models] for name, models in predicted.items()}, DOCUMENTS[:1])
    with pytest.raises(ConfigError, match="1 document"):
        judge(Claim("", "ner", "a", "b"), counts, Bootstrap(300))


@pytest.mark.parametrize(
    ("low", "high", "p_value", "paper", "within"),
    [
        (-0.02, 0.01, 0.5, 1.0, True),
        (-0.02, 0.01, 0.5, 1.1, False),
        (-0.02, 0.01, 0.5, -2.1, False),
        (-0.02, 0.01, 0.5, None, None),
        # Speeds have no p-value, and their ratios are not percentages.
        (2.5, 3.5, None, 3.0, True),
        (2.5, 3.5, None, 32.6, False),
    ],
)
def test_published_difference_in_the_interval(low, high, p_value, paper, within):
    verdict = Verdict(Claim("", "ner", "a", "b"), 0.6, 0.6, 0.0, NOT_SHOWN, low, high, p_value, paper)
    assert verdict.paper_within is within
    assert verdict.to_dict()["paper_within"] is within


def _speed(*times):
    return {"times_s": list(times), "median_s": sorted(times)[len(times) // 2], "sentences_per_second": 1 / times[0]}


@pytest.mark.parametrize(
    ("first", "second", "outcome", "ratio"),
    [
        (_speed(1, 1.5, 2.1), _speed(2, 3, 6), HELD, 2),  # both slow in the last turn
        (_speed(1, 1.5, 2.1), _speed(6, 3, 2), NOT_SHOWN, 2),
        (_speed(2, 4, 6), _speed(1, 1, 5), CONTRADICTED, 0.25),
        (_speed(1, 2, 2), _speed(1, 3, 3), NOT_SHOWN, 1.5),  # equal in one turn
        (_speed(1, 3, 3), _speed(1, 2, 2), NOT_SHOWN, 2 / 3),
    ],
)
def test_speeds(first, second, outcome, ratio):
    verdict = judge_speed(Claim("a is faster", "speed", "a", "b"), {"a": first, "b": second}, paper=3.0)
    assert (verdict.outcome, verdict.difference, verdict.p_value, verdict.paper) == (outcome, ratio, None, 3.0)
    ratios = [b / a for a, b in zip(first["times_s"], second["times_s"], strict=True)]
    assert (verdict.low, verdict.high) == (min(ratios), max(ratios))
    assert verdict.to_dict()["ratio"] == ratio


def test_bootstrap_of_counts_equals_a_loop():
    generator = np.random.default_rng(5)
    first, second = (generator.integers(0, 4, size=(n_models, 9, 1)).astype(float) for n_models in (3, 1))
    bootstrap = Bootstrap(200, "sentence", seed=2)
    low, high, p_value = resample(first, second, number, bootstrap)
    draws = np.random.default_rng(2)
    units = draws.multinomial(9, np.full(9, 1 / 9), size=200)
    models = draws.multinomial(3, np.full(3, 1 / 3), size=200)
    differences = []
    for times, weights in zip(units, models, strict=True):
        one = sum(w * sum(t * first[m, u, 0] for u, t in enumerate(times)) for m, w in enumerate(weights)) / 3
        differences.append(one - sum(t * second[0, u, 0] for u, t in enumerate(times)))
    assert (low, high) == pytest.approx(tuple(np.percentile(differences, (2.5, 97.5))))
    smaller = min(sum(d <= 1e-12 for d in differences), sum(d >= -1e-12 for d in differences))
    assert p_value == pytest.approx(min(1, 2 * (1 + smaller) / 201))
