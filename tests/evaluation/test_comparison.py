"""The bootstrap equals scoring each resample, and has the properties of a comparison."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, any_pairs, documents, policies, some

from cascade_srn.errors import AnnotationError, ConfigError, SchemaError
from cascade_srn.evaluation import TASKS, comparison, score_documents
from cascade_srn.evaluation.comparison import UNITS, Bootstrap, compare, count_units
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

A, B, C = Span(0, 1, "A"), Span(2, 3, "A"), Span(4, 5, "B")
WORDS = tuple("vwxyz")


def _gold(n_documents=12):
    """Documents of one to three sentences."""
    sentence = Sentence.from_words(WORDS, [A, B, C], [Triple(A, "Directed", B), Triple(C, "Same", A)])
    return [Document.from_sentences([sentence] * (1 + i % 3), id=f"d{i}") for i in range(n_documents)]


def _predictions(gold, seed, *, keep):
    """Gold with items removed at random, and some wrong entities."""
    rng = random.Random(seed)
    found = []
    for document in gold:
        sentences = []
        for sentence in document.sentences:
            entities = [e for e in sentence.entities if rng.random() < keep]
            triples = [t for t in sentence.triples if {t.head, t.tail} <= set(entities) and rng.random() < keep]
            entities += [Span(1, 2, "B")] * (rng.random() > keep)
            sentences.append(sentence.annotated(entities, triples))
        found.append(Document.from_sentences(sentences, id=document.id))
    return found


GOLD = _gold()
GOOD = [_predictions(GOLD, seed, keep=0.9) for seed in range(3)]
POOR = [_predictions(GOLD, seed, keep=0.5) for seed in range(10, 12)]
FEW = Bootstrap(n_resamples=100)


def _f1(gold, predicted, task, symmetric):
    return getattr(score_documents(gold, predicted, schema=SCHEMA, symmetric=symmetric), task).counts.f1


def _literal_differences(gold, first, second, symmetric, bootstrap):
    """Score each resample by ``score_documents``, with the same draws."""
    generator = np.random.default_rng(bootstrap.seed)

    def draws(n_things):
        return generator.multinomial(n_things, [1 / n_things] * n_things, size=bootstrap.n_resamples)

    def resampled(documents, times):
        return [document for document, n in zip(documents, times, strict=True) for _ in range(n)]

    documents = draws(len(gold))
    models = [draws(len(side)) if len(side) > 1 else None for side in (first, second)]
    found = []
    for at, times in enumerate(documents):
        row = []
        for task in TASKS:
            means = []
            for side, chosen in zip((first, second), models, strict=True):
                f1 = [_f1(resampled(gold, times), resampled(model, times), task, symmetric) for model in side]
                weights = [1] * len(side) if chosen is None else chosen[at]
                means.append(sum(w * value for w, value in zip(weights, f1, strict=True)) / len(side))
            row.append(means[0] - means[1])
        found.append(row)
    return np.array(found)


@pytest.mark.parametrize("symmetric", ["directed", "doubled"])
@pytest.mark.slow
def test_equals_scoring_each_resample(symmetric):
    bootstrap = Bootstrap(n_resamples=100, seed=3)
    found = compare(GOLD, GOOD[:2], POOR, schema=SCHEMA, symmetric=symmetric, bootstrap=bootstrap)
    expected = _literal_differences(GOLD, GOOD[:2], POOR, symmetric, bootstrap)
    for at, task in enumerate(TASKS):
        assert found[task].low == pytest.approx(np.percentile(expected[:, at], 2.5))
        assert found[task].high == pytest.approx(np.percentile(expected[:, at], 97.5))
        assert found[task].difference == pytest.approx(
            np.mean([_f1(GOLD, m, task, symmetric) for m in GOOD[:2]])
            - np.mean([_f1(GOLD, m, task, symmetric) for m in POOR])
        )


def test_a_clear_difference():
    found = compare(GOLD, GOOD, POOR, schema=SCHEMA)["ner"]
    assert found.protocol == "ner, micro F1"
    assert (found.first.n, found.second.n, found.n_units) == (3, 2, 12)
    assert 0 < found.low < found.difference < found.high
    assert found.p_value < 0.05
    assert str(found).startswith(f"ner, micro F1: {found.first} - {found.second} = +")
    assert "95 % interval +" in str(found)


def test_a_model_with_itself():
    for difference in compare(GOLD, GOOD[:1], GOOD[:1], schema=SCHEMA, bootstrap=FEW).values():
        assert (difference.difference, difference.low, difference.high, difference.p_value) == (0, 0, 0, 1)
        assert not difference.to_dict()["drawn_models"]


def test_the_smallest_p_value_is_not_zero():
    nothing = [Document.from_sentences([s.annotated((), ()) for s in d.sentences], id=d.id) for d in GOLD]
    found = compare(GOLD, [GOLD], [nothing], schema=SCHEMA, bootstrap=FEW)["re_strict"]
    assert (found.difference, found.low, found.high) == (1, 1, 1)
    assert found.p_value == pytest.approx(2 / 101)


def test_exchanging_the_sides_changes_the_sign():
    there = compare(GOLD, GOOD[:1], POOR[:1], schema=SCHEMA, bootstrap=FEW)
    back = compare(GOLD, POOR[:1], GOOD[:1], schema=SCHEMA, bootstrap=FEW)
    for task in TASKS:
        assert (there[task].difference, there[task].low) == pytest.approx((-back[task].difference, -back[task].high))
        assert there[task].p_value == back[task].p_value


def test_seeded():
    def found(seed):
        return compare(GOLD, GOOD, POOR, schema=SCHEMA, bootstrap=Bootstrap(200, seed=seed))["ner"].to_dict()

    assert found(1) == found(1)
    assert found(1)["interval"] != found(2)["interval"]


def test_resamples_made_in_several_parts(monkeypatch):
    bootstrap = Bootstrap(250, seed=1)
    whole = compare(GOLD, GOOD[:1], POOR[:1], schema=SCHEMA, bootstrap=bootstrap)
    monkeypatch.setattr(comparison, "_DRAWS_AT_ONCE", 100 * len(GOLD))
    assert compare(GOLD, GOOD[:1], POOR[:1], schema=SCHEMA, bootstrap=bootstrap) == whole


def test_to_dict_has_the_settings():
    record = compare(GOLD, GOOD, POOR[:1], schema=SCHEMA, symmetric="canonical", bootstrap=FEW)["re_strict"].to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["protocol"] == "re_strict, canonical, micro F1"
    assert record["n_resamples"] == 100
    assert (record["unit"], record["n_units"], record["seed"], record["drawn_models"]) == ("document", 12, 0, True)
    assert record["interval"]["level"] == 0.95
    assert record["second"]["sd"] is None


@some
@given(any_pairs, policies)
def test_units_add_up_to_the_scores(pairs, symmetric):
    gold, predicted = documents(pairs)
    scores = score_documents(gold, predicted, schema=SCHEMA, symmetric=symmetric)
    for unit in UNITS:
        counts = count_units(gold, predicted, schema=SCHEMA, symmetric=symmetric, unit=unit)
        assert counts.shape == (len(pairs), 3, 3)
        for at, task in enumerate(TASKS):
            expected = getattr(scores, task).counts
            assert counts[:, at].sum(axis=0).tolist() == [expected.n_gold, expected.n_predicted, expected.n_correct]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Bootstrap(n_resamples=10), ConfigError, "n_resamples is 10"),
        (lambda: Bootstrap(unit="documents"), ConfigError, "unit is 'documents'"),
        (lambda: Bootstrap(seed=-1), ConfigError, "seed is -1"),
        (
            lambda: compare(GOLD[:1], [GOLD[:1]], [GOLD[:1]], schema=SCHEMA),
            ConfigError,
            "2 documents.* 1",
        ),
        (lambda: count_units(GOLD, GOLD[:2], schema=SCHEMA), AnnotationError, "12 gold documents.* 2 predicted"),
        (lambda: count_units(GOLD, GOLD, schema=SCHEMA, symmetric="x"), ConfigError, "symmetric.*'x'"),
        (
            lambda: count_units(GOLD, GOLD, schema=Schema(("A",), ("Directed", "Same"))),
            SchemaError,
            "gold sentence 0 of document 0 .*'B'",
        ),
    ],
)  # fmt: skip
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_intervals_of_one_model():
    gold, predicted = _gold(60), _predictions(_gold(60), 0, keep=0.7)
    counts = count_units(gold, predicted, schema=SCHEMA)
    bounds = comparison.f1_intervals(counts, Bootstrap(n_resamples=500))
    few = comparison.f1_intervals(counts[:10], Bootstrap(n_resamples=500))
    for at, task in enumerate(TASKS):
        low, high = bounds[at]
        assert 0 <= low < _f1(gold, predicted, task, "directed") < high <= 1
        assert few[at][1] - few[at][0] > high - low
