import pytest
from tests.evaluation.saved_models import DOCUMENTS, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Extractor
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.comparison import Bootstrap, compare
from cascade_srn.reproduction.claims import FEWER, MORE, NO_WORSE, Claim
from cascade_srn.reproduction.judging import CONTRADICTED, HELD, NOT_SHOWN, Judge, Verdict, judge_speed, outcome
from cascade_srn.reproduction.measures import count


@pytest.mark.parametrize(
    ("kind", "difference", "low", "p_value", "became"),
    [
        (MORE, 0.02, 0.001, 0.04, HELD),
        (MORE, 0.02, -0.001, 0.06, NOT_SHOWN),
        (MORE, -0.02, -0.06, 0.06, NOT_SHOWN),
        (MORE, -0.02, -0.03, 0.04, CONTRADICTED),
        (MORE, 0.0, 0.0, 1.0, NOT_SHOWN),
        (FEWER, -9, -20, 0.01, HELD),
        (FEWER, -9, -20, 0.1, NOT_SHOWN),
        (FEWER, 9, 2, 0.01, CONTRADICTED),
        (NO_WORSE, 0.0, -0.009, 1.0, HELD),
        (NO_WORSE, 0.01, -0.011, 0.3, NOT_SHOWN),
        (NO_WORSE, -0.004, -0.008, 0.01, CONTRADICTED),
    ],
)
def test_outcomes(kind, difference, low, p_value, became):
    assert outcome(kind, difference, low, p_value) == became


@pytest.fixture(scope="module")
def predicted():
    seeds = {"a": (0, 1), "b": (2, 3)}
    return {
        name: [Extractor.from_pretrained(saved_model(s)).predict(DOCUMENTS) for s in ss] for name, ss in seeds.items()
    }


def _judge(predicted, documents=DOCUMENTS, unit="document"):
    counted = {name: [count(documents, model, SCHEMA) for model in models] for name, models in predicted.items()}
    return Judge(documents, predicted, counted, schema=SCHEMA, bootstrap=Bootstrap(300, unit))


def test_scores_are_judged_by_the_comparison_of_the_evaluation(predicted):
    judge = _judge(predicted)
    found = compare(DOCUMENTS, predicted["a"], predicted["b"], schema=SCHEMA, bootstrap=Bootstrap(300))
    for column, task in (("ner", "ner"), ("re", "re_strict"), ("boundaries", "re_boundaries")):
        verdict = judge.judge(Claim("a beats b", column, "a", "b"), paper=1.5)
        wanted = found[task]
        assert (verdict.first, verdict.second) == pytest.approx((wanted.first.mean, wanted.second.mean))
        assert verdict.difference == pytest.approx(wanted.difference)
        assert (verdict.low, verdict.high, verdict.p_value) == (wanted.low, wanted.high, wanted.p_value)
        assert verdict.paper == 1.5
        record = verdict.to_dict()
        assert record["interval"] == {"low": wanted.low, "high": wanted.high}
        assert (record["claim"], record["whose"], record["outcome"]) == ("a beats b", "the paper's", verdict.outcome)


def test_other_figures_are_judged_too(predicted):
    judge = _judge(predicted, unit="sentence")
    for column in ("in_f1", "out_recall", "ner_precision", "RNF", "ESE", "ESE_share"):
        there, back = (judge.judge(Claim("", column, *pair)) for pair in (("a", "b"), ("b", "a")))
        assert there.difference == pytest.approx(-back.difference)
        assert there.low <= there.difference <= there.high
    errors = judge.judge(Claim("", "ESE", "a", "b"))
    assert errors.first == sum(counted.value("ESE") for counted in judge.counted["a"]) / 2


def test_one_document_is_no_sample(predicted):
    with pytest.raises(ConfigError, match="a bootstrap over 1 documents says nothing; give data with at least two"):
        _judge({name: [model[:1] for model in models] for name, models in predicted.items()}, DOCUMENTS[:1])


@pytest.mark.parametrize(
    ("low", "high", "p_value", "paper", "within"),
    [
        (-0.02, 0.01, 0.5, 1.0, True),
        (-0.02, 0.01, 0.5, 1.1, False),
        (-0.02, 0.01, 0.5, -2.1, False),
        (-0.02, 0.01, 0.5, None, None),
        # Speeds have no p-value, and their ratios are as they are.
        (2.5, 3.5, None, 3.0, True),
        (2.5, 3.5, None, 32.6, False),
    ],
)
def test_whether_the_papers_difference_is_possible(low, high, p_value, paper, within):
    verdict = Verdict(Claim("", "ner", "a", "b"), 0.6, 0.6, 0.0, NOT_SHOWN, low, high, p_value, paper)
    assert verdict.paper_within is within
    assert verdict.to_dict()["paper_within"] is within


def _speed(*times):
    return {"times_s": list(times), "median_s": sorted(times)[len(times) // 2], "sentences_per_second": 1 / times[0]}


@pytest.mark.parametrize(
    ("first", "second", "became", "ratio"),
    [
        (_speed(1, 1.5, 2.1), _speed(2, 3, 6), HELD, 2),  # both slow in the last turn
        (_speed(1, 1.5, 2.1), _speed(6, 3, 2), NOT_SHOWN, 2),
        (_speed(2, 4, 6), _speed(1, 1, 5), CONTRADICTED, 0.25),
        (_speed(1, 2, 2), _speed(1, 3, 3), NOT_SHOWN, 1.5),  # as fast in one turn
        (_speed(1, 3, 3), _speed(1, 2, 2), NOT_SHOWN, 2 / 3),
    ],
)
def test_speeds(first, second, became, ratio):
    verdict = judge_speed(Claim("a is faster", "speed", "a", "b"), {"a": first, "b": second}, paper=3.0)
    assert (verdict.outcome, verdict.difference, verdict.p_value, verdict.paper) == (became, ratio, None, 3.0)
    by_turn = [b / a for a, b in zip(first["times_s"], second["times_s"], strict=True)]
    assert (verdict.low, verdict.high) == (min(by_turn), max(by_turn))
    assert verdict.to_dict()["ratio"] == ratio
