"""Promised precision: what users may ask for, the test for documents, and what is kept."""

import json

import numpy as np
import pytest

from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.inference.options import PrecisionChoice, number_format, parse_precision
from cascade_srn.inference.precision import (
    MinScores,
    PrecisionRecord,
    RankedPredictions,
    ScoredPredictions,
    binomial_tail,
    find_min_scores,
)
from cascade_srn.schema import Schema
from cascade_srn.types import Span, Triple

SCHEMA = Schema(("Method", "Task"), ("PART-OF", "USED-FOR"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("auto", PrecisionChoice()),
        ("bf16", PrecisionChoice("bf16")),
        (0.6, PrecisionChoice("auto", {"entities": 0.6, "relations": 0.6})),
        ("0.6", PrecisionChoice("auto", {"entities": 0.6, "relations": 0.6})),
        ("relations=0.6, entities=0.9", PrecisionChoice("auto", {"relations": 0.6, "entities": 0.9})),
        ({"USED-FOR": 0.7}, PrecisionChoice("auto", {"USED-FOR": 0.7})),
        ("relations=0.6,boundaries,bf16", PrecisionChoice("bf16", {"relations": 0.6}, "boundaries")),
    ],
)
def test_what_users_may_ask_for(given, expected):
    assert parse_precision(given) == expected
    assert number_format(given) == expected.number_format


@pytest.mark.parametrize("given", ["half", "relations=high", "", "60", -0.1, True, None, "nan", {"relations": "0.6"}])
def test_anything_else_is_refused(given):
    with pytest.raises(ConfigError):
        parse_precision(given)


def record(n_documents=40, per_document=10, wrong=1):
    """Documents with relations of sure entities, of which the first ones have low scores and are wrong."""
    entities = [(d, e % 2, 0.99, 2, 0, 0) for d in range(n_documents) for e in range(2)]
    relations = [
        (d, r % 2, 0.2 if r < wrong else 0.9, 0 if r < wrong else 2, 2 * d, 2 * d + 1)
        for d in range(n_documents)
        for r in range(per_document)
    ]
    kinds = ScoredPredictions.of(SCHEMA.entity_types, entities), ScoredPredictions.of(SCHEMA.relation_types, relations)
    return PrecisionRecord(n_documents, "annotations", "0123", *kinds)


def choose(found, **levels):
    return find_min_scores(found, SCHEMA, PrecisionChoice(levels={k.replace("_", "-"): v for k, v in levels.items()}))


def test_levels_of_kinds_and_labels():
    found = record(wrong=4)
    assert choose(found, relations=0.5) == MinScores({}, {})
    assert choose(found, relations=0.9) == MinScores({}, {"PART-OF": 0.9, "USED-FOR": 0.9})
    assert choose(found, PART_OF=0.9) == MinScores({}, {"PART-OF": 0.9})
    assert choose(found, relations=0.5, USED_FOR=0.9) == MinScores({}, {"USED-FOR": 0.9})
    with pytest.raises(ConfigError, match="USED-FOR"):
        choose(found, **{"USED-FRO": 0.9})


def test_a_level_that_cannot_be_promised_names_the_one_that_can():
    found = record(n_documents=12, per_document=4, wrong=0)
    with pytest.raises(ConfigError) as refused:
        choose(found, relations=0.95)
    highest = float(refused.value.problem.rsplit(maxsplit=1)[-1])
    assert 0.5 < highest < 0.95
    assert choose(found, relations=highest) == MinScores({}, {})
    with pytest.raises(ConfigError):
        choose(found, relations=highest + 0.01)


def test_relations_count_if_their_entities_are_kept():
    found = record(wrong=0)
    found.entities.score[:40] = 0.5
    found.entities.correct[:40] = 0
    # Entities of half of the documents are wrong and left out, with all their relations.
    kept = choose(found, entities=0.8, relations=0.8)
    assert kept.entities == {"Method": 0.99, "Task": 0.99}
    tested = RankedPredictions.of(found, "relations", SCHEMA.relation_types, kept)
    assert set(tested.document) == set(range(20, 40))


def test_predictions_that_are_not_judged_do_not_count():
    found = record(wrong=4)
    found.relations.correct[found.relations.correct == 0] = -1
    assert choose(found, relations=0.95) == MinScores({}, {})


def test_documents_are_the_units():
    """The same numbers promise less if errors come in the same documents."""
    score, document = np.full(400, 0.9), np.repeat(np.arange(40), 10)
    spread, clustered = document * 0 + np.arange(400) % 10 > 1, document > 7
    assert spread.sum() == clustered.sum() == 320
    assert RankedPredictions(score, spread, document).find_min_score(0.7) == 0
    assert RankedPredictions(score, clustered, document).find_min_score(0.7) is None
    few = np.repeat(np.arange(5), 80)
    assert RankedPredictions(score, score > 0, few).find_min_score(0.7) is None


def _draw(rng, n_documents):
    """Relations of documents that differ in how often scores are right. Scores are somewhat too high."""
    quality = rng.normal(-0.3, 0.8, n_documents)
    document = np.repeat(np.arange(n_documents), rng.poisson(6, n_documents))
    score = 0.2 + 0.8 * rng.beta(1.6, 1.6, len(document))
    correct = rng.random(len(score)) < 1 / (1 + np.exp(-np.log(score / (1 - score)) - quality[document]))
    order = np.argsort(-score)
    return RankedPredictions(score[order], correct[order], document[order])


def test_promises_hold_in_new_collections():
    rng, n_draws, n_promised = np.random.default_rng(0), 200, 0
    for level in (0.5, 0.6, 0.7):
        n_missed = 0
        for _ in range(n_draws):
            lowest = _draw(rng, 60).find_min_score(level)
            if lowest is None:
                continue
            n_promised += 1
            new = _draw(rng, 60)
            n_missed += new.correct[new.score >= lowest].mean() < level
        assert n_missed <= 0.05 * n_draws
    assert n_promised > n_draws


def test_binomial_tail():
    assert binomial_tail(5, 5, 0.5) == pytest.approx(1 / 32)
    assert binomial_tail(10, 0, 0.3) == pytest.approx(1)
    assert binomial_tail(3, 2, 0.5) == pytest.approx(0.5)
    assert binomial_tail(3, 1.5, 0.5) == pytest.approx((7 / 8 + 1 / 2) / 2)
    assert binomial_tail(20_000, 11_000, 0.5) < 1e-9


def test_only_sure_predictions_are_kept():
    sure, unsure = Span(0, 1, "Method", 0.9), Span(2, 3, "Task", 0.4)
    triples = [Triple(sure, "USED-FOR", unsure, 0.3), Triple(sure, "PART-OF", unsure, 0.8)]
    assert MinScores({}, {"USED-FOR": 0.5}).select([sure, unsure], triples) == ([sure, unsure], triples[1:])
    assert MinScores({"Task": 0.5}, {}).select([sure, unsure], triples) == ([sure], [])


def test_the_file_is_read_back_and_split():
    found = record()
    again = PrecisionRecord.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    half = again.within(np.arange(40) >= 30)
    assert len(half.entities.score) == 20
    assert np.array_equal(half.entities.document[half.relations.head], half.relations.document)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop("entities"),
        lambda values: values.update(version=2),
        lambda values: values["relations"]["head"].__setitem__(0, 10**6),
        lambda values: values["relations"]["score"].pop(),
        lambda values: values["entities"]["label"].__setitem__(0, "x"),
        lambda values: values["entities"]["document"].__setitem__(0, -1),
    ],
)
def test_a_damaged_file_is_refused(change):
    values = record().to_dict()
    change(values)
    with pytest.raises(ModelError, match="precision statistics"):
        PrecisionRecord.from_dict(values)
    with pytest.raises(ModelError):
        PrecisionRecord.from_dict([values])
