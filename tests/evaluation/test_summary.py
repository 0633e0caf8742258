"""Figures of one model and of several models, as mean and standard deviation."""

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation import SYMMETRIC_POLICIES, Spread, score
from cascade_srn.evaluation.scores import figures_table, summarise
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SCHEMA = Schema(("Method", "Task"), ("Compare", "Used-for"), frozenset({"Compare"}))
CRF, HMM, NER = Span(0, 1, "Method"), Span(2, 3, "Method"), Span(4, 5, "Task")
GOLD = Sentence.from_words(list("abcde"), [CRF, HMM, NER], [Triple(CRF, "Compare", HMM), Triple(CRF, "Used-for", NER)])
HALF = GOLD.annotated([CRF, HMM], [Triple(HMM, "Compare", CRF)])


def scores(predicted, *policies):
    return [score([GOLD], [predicted], schema=SCHEMA, symmetric=policy) for policy in policies or ("directed",)]


def test_one_model_is_the_table_of_its_scores():
    (one,) = scores(HALF)
    assert figures_table(summarise([[one]])) == one.table()
    assert figures_table(summarise([[one]], per_label=True)) == one.table(per_label=True)


def test_several_models():
    found = {f.protocol: f for f in summarise([scores(GOLD), scores(HALF)])}
    # NER F1 1 and 2 * 2 / (3 + 2); strict F1 1 and 0.
    assert found["ner, micro"].f1 == Spread.of([1, 0.8])
    assert found["ner, micro"].recall == Spread.of([1, 2 / 3])
    assert found["re_strict, directed, micro"].f1 == Spread.of([1, 0])
    assert found["ner, macro"].f1 == Spread.of([1, 0.5])
    assert all(figure.counts is None for figure in found.values())
    table = figures_table(list(found.values())).splitlines()
    assert table[0].split() == ["protocol", "precision", "recall", "F1"]
    assert table[1].split("  ")[-1] == "90.0 ± 14.1"


def test_all_policies_side_by_side_with_ner_once():
    found = summarise([scores(HALF, *SYMMETRIC_POLICIES)])
    assert [f.protocol for f in found if "micro" in f.protocol] == [
        "ner, micro",
        *(f"re_boundaries, {policy}, micro" for policy in SYMMETRIC_POLICIES),
        *(f"re_strict, {policy}, micro" for policy in SYMMETRIC_POLICIES),
    ]
    strict = [f.f1.mean for f in found if f.protocol.startswith("re_strict") and "micro" in f.protocol]
    assert strict == pytest.approx([0, 2 / 3, 4 / 5])


def test_the_condition_is_in_every_name():
    found = summarise([scores(HALF)], condition="with gold entities", exclude=("ner",), per_label=True)
    assert all(f.protocol.endswith(", with gold entities") for f in found)
    assert not any(f.protocol.startswith("ner") for f in found)
    assert "re_strict, directed, label Compare, with gold entities" in [f.protocol for f in found]


def test_a_label_that_one_model_alone_predicts():
    with_task = Sentence.from_words(list("abcde"), [CRF])
    gold = [with_task]
    one = [score(gold, [with_task], schema=SCHEMA)]
    other = [score(gold, [with_task.annotated([NER], ())], schema=SCHEMA)]
    found = {f.protocol: f for f in summarise([one, other], per_label=True)}
    assert found["ner, label Task"].precision == Spread.of([0, 0])
    assert found["ner, label Method"].f1 == Spread.of([1, 0])


def test_a_spread_by_hand():
    # Mean 0.684; deviations -0.004, 0, 0.004: squares sum to 3.2e-5, divided by n - 1 = 2, root 0.004.
    spread = Spread.of([0.680, 0.684, 0.688])
    assert spread.mean == pytest.approx(0.684)
    assert spread.sd == pytest.approx(0.004)
    assert spread.n == 3
    assert str(spread) == "68.4 ± 0.4"


def test_one_value_has_no_deviation():
    spread = Spread.of([0.5])
    assert (spread.mean, spread.sd, spread.n) == (0.5, None, 1)
    assert str(spread) == "50.0"
    assert spread.to_dict() == {"mean": 0.5, "sd": None, "n": 1}


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_equals_the_exact_formulas(values):
    spread = Spread.of(iter(values))
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.sd == pytest.approx(statistics.stdev(values), abs=1e-12)
    assert json.loads(json.dumps(spread.to_dict())) == spread.to_dict()


@pytest.mark.parametrize("value", [68.5, 1.01, -1.5, float("nan"), float("inf")])
def test_percentages_are_refused(value):
    with pytest.raises(ConfigError, match=f"{value:g}"):
        Spread.of([0.5, value])


def test_no_values():
    with pytest.raises(ConfigError):
        Spread.of([])
