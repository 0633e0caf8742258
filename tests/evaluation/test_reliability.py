import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.strategies import SCHEMA, aligned, pairs, policies, some

from cascade_srn.evaluation import score
from cascade_srn.evaluation.reliability import (
    measure_entity_reliability,
    measure_relation_reliability,
    measure_reliability,
)
from cascade_srn.types import Sentence, Span, Triple


def test_by_hand():
    # [0, 0.5): 0.4 wrong. [0.5, 1]: 0.6 right, 0.8 wrong, 1.0 right: mean score 0.8, precision 2/3.
    found = measure_reliability([(0.4, False), (0.6, True), (0.8, False), (1.0, True)], n_bins=2)
    low, high = found.bins
    assert (low.n, low.mean_score, low.precision) == (1, 0.4, 0.0)
    assert (high.n, high.mean_score, high.precision) == (3, pytest.approx(0.8), pytest.approx(2 / 3))
    assert found.expected_calibration_error == pytest.approx(1 / 4 * 0.4 + 3 / 4 * (0.8 - 2 / 3))
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert (record["mean_score"], record["precision"], record["n"]) == (pytest.approx(0.7), 0.5, 4)


def test_predictions_without_a_score_are_counted_apart():
    found = measure_reliability([(None, True), (0.9, True), (None, False)])
    assert (found.n, found.n_unscored) == (1, 2)
    assert found.expected_calibration_error == pytest.approx(0.1)


def test_no_score_at_all():
    record = measure_reliability([(None, True)]).to_dict()
    assert (record["expected_calibration_error"], record["mean_score"], record["precision"]) == (None, None, None)


@some
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 12))
def test_the_error_equals_its_definition(predictions, n_bins):
    expected, seen = 0.0, 0
    for i in range(n_bins):
        inside = [(score, correct) for score, correct in predictions if i == min(int(score * n_bins), n_bins - 1)]
        if inside:
            confidence = sum(score for score, _ in inside) / len(inside)
            precision = sum(correct for _, correct in inside) / len(inside)
            expected += len(inside) / len(predictions) * abs(confidence - precision)
            seen += len(inside)
    found = measure_reliability(predictions, n_bins=n_bins)
    assert found.expected_calibration_error == pytest.approx(expected)
    assert found.n == seen == len(predictions)


GOLD = Sentence.from_words(
    list("abcd"), [Span(0, 1, "A"), Span(1, 2, "A")], [Triple(Span(0, 1, "A"), "Same", Span(1, 2, "A"))]
)


def test_entities_are_correct_with_words_and_type():
    predicted = GOLD.annotated([Span(0, 1, "A", 0.9), Span(1, 2, "B", 0.65)], ())
    bins = measure_entity_reliability(aligned([(GOLD, predicted)])).bins
    assert [(b.n, b.n_correct) for b in bins if b.n] == [(1, 0), (1, 1)]


@pytest.mark.parametrize(("symmetric", "correct"), [("directed", 0), ("canonical", 1), ("doubled", 1)])
def test_relations_are_correct_as_the_policy_says_and_count_once(symmetric, correct):
    flipped = Triple(Span(1, 2, "A"), "Same", Span(0, 1, "A"), 0.75)
    predicted = GOLD.annotated(GOLD.entities, [flipped, flipped])
    found = measure_relation_reliability(aligned([(GOLD, predicted)]), schema=SCHEMA, symmetric=symmetric)
    assert [(b.n, b.n_correct, b.mean_score) for b in found.bins if b.n] == [(1, correct, 0.75)]


@some
@given(pairs(scored=True), policies)
def test_all_predictions_are_in_the_curve(pairs, symmetric):
    whole = score([a for a, _ in pairs], [b for _, b in pairs], schema=SCHEMA)
    entities = measure_entity_reliability(aligned(pairs))
    assert (entities.n, sum(b.n_correct for b in entities.bins)) == (
        whole.ner.counts.n_predicted,
        whole.ner.counts.n_correct,
    )
    relations = measure_relation_reliability(aligned(pairs), schema=SCHEMA)
    counts = whole.re_strict.counts
    assert (relations.n, sum(b.n_correct for b in relations.bins)) == (counts.n_predicted, counts.n_correct)
    other = measure_relation_reliability(aligned(pairs), schema=SCHEMA, symmetric=symmetric)
    assert other.n == relations.n
