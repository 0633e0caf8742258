from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.calibrate import (
    FEWEST,
    THRESHOLDS,
    best_thresholds,
    calibrate,
    enough,
    fit_temperature,
    tempered,
    thresholds_by_label,
)
from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.data.examples import Example
from cascade_srn.evaluation.scores import score
from cascade_srn.model import Model


def f1_of(passed: np.ndarray, correct: np.ndarray, n_gold: int) -> float:
    return 2 * int((passed & correct).sum()) / (int(passed.sum()) + n_gold)


@pytest.mark.parametrize("true", [0.5, 1.0, 2.0])
def test_a_known_temperature_is_found(true: float) -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, 20000)
    correct = random.random(20000) < 1 / (1 + np.exp(-logits / true))
    found = fit_temperature(1 / (1 + np.exp(-logits)), correct)
    assert found == pytest.approx(true, rel=0.1)


def test_a_temperature_of_one_changes_nothing_and_more_makes_less_sure() -> None:
    scores = np.array([0.001, 0.3, 0.5, 0.9, 0.9999])
    np.testing.assert_allclose(tempered(scores, 1.0), scores)
    np.testing.assert_array_less(np.abs(tempered(scores, 2.0) - 0.5)[[0, 1, 3, 4]], np.abs(scores - 0.5)[[0, 1, 3, 4]])
    assert np.isfinite(tempered(np.array([0.0, 1.0]), 0.25)).all()


def test_too_little_to_tell() -> None:
    correct = np.array([True] * FEWEST + [False] * (FEWEST - 1))
    assert not enough(correct)
    assert enough(np.append(correct, False))
    assert fit_temperature(np.full(len(correct), 0.9), correct) == 1.0


def test_the_best_threshold_is_where_f1_is_highest() -> None:
    random = np.random.default_rng(1)
    correct = random.random(5000) < 0.4
    scores = np.clip(np.where(correct, 0.45, 0.15) + random.normal(0, 0.1, 5000), 0, 1)
    (found,) = best_thresholds([scores], correct, int(correct.sum()))
    reached = {t: f1_of(scores >= t, correct, int(correct.sum())) for t in THRESHOLDS}
    assert reached[found] >= max(reached.values()) - 0.005
    assert 0.25 <= found <= 0.35


def test_two_thresholds_are_chosen_together() -> None:
    """Where the subject tells nothing, and only the object does, the subject's threshold must let all pass."""
    random = np.random.default_rng(2)
    correct = random.random(4000) < 0.5
    objects = np.clip(np.where(correct, 0.7, 0.3) + random.normal(0, 0.08, 4000), 0, 1)
    subjects = random.random(4000)
    subject, object_ = best_thresholds([subjects, objects], correct, int(correct.sum()))
    assert subject <= 0.1
    assert 0.4 <= object_ <= 0.6


def test_a_lucky_peak_is_not_chosen() -> None:
    # A plateau of good thresholds on the left, and one a little better on its own on the right.
    scores = np.array([0.17] * 50 + [0.27] * 2 + [0.72] * 30)
    correct = np.array([False] * 50 + [True] * 2 + [True] * 30)
    (found,) = best_thresholds([scores], correct, 32)
    assert 0.18 < found <= 0.3


def test_labels_get_thresholds_of_their_own_where_there_is_enough_of_them() -> None:
    random = np.random.default_rng(3)
    labels = ["shy"] * 400 + ["bold"] * 400 + ["rare"] * 12
    correct = random.random(812) < 0.5
    # One label's right ones score about 0.3, the other's about 0.8.
    middle = np.where(np.array(labels) == "shy", 0.2, 0.7)
    scores = np.clip(middle + np.where(correct, 0.12, -0.12) + random.normal(0, 0.03, 812), 0, 1)
    found = thresholds_by_label(scores, correct, labels, int(correct.sum()), 0.5)
    assert set(found) == {"shy", "bold"}
    assert 0.15 <= found["shy"] <= 0.25
    assert 0.65 <= found["bold"] <= 0.75


def annotated_by(model: Model, thresholds: Thresholds) -> list[Example]:
    """Sentences whose gold annotation is what the model finds with other thresholds than its own."""
    given = list(examples(SENTENCES)) * 6
    words = [replace(e, sentence=e.sentence.annotated((), ())) for e in given]
    found = model.predictor(thresholds=thresholds).predict(words)
    return [replace(e, sentence=s) for e, s in zip(words, found, strict=True)]


@pytest.mark.parametrize("preset", ["swift", "early"])
def test_the_thresholds_that_made_the_gold_are_found_again(preset: str) -> None:
    model = spread_probabilities(small_model(preset))
    wanted = Thresholds(entity=0.3, subject=0.2, object=0.25)
    gold = annotated_by(model, wanted)
    assert sum(len(e.sentence.triples) for e in gold) > 20
    found = calibrate(model, gold)
    predicted = found.predictor().predict(gold)
    wrong = sum(len(set(p.entities) ^ set(e.sentence.entities)) for p, e in zip(predicted, gold, strict=True))
    total = sum(len(e.sentence.entities) for e in gold)
    assert wrong <= 0.1 * total
    before = model.predictor().predict(gold)
    assert wrong < sum(len(set(p.entities) ^ set(e.sentence.entities)) for p, e in zip(before, gold, strict=True))
    assert found.settings.thresholds != model.settings.thresholds


@pytest.mark.parametrize("by_label", [False, True])
def test_twice_is_the_same_as_once(by_label: bool) -> None:
    model = spread_probabilities(small_model("swift"))
    gold = annotated_by(model, Thresholds(0.3, 0.2, 0.25))
    once = calibrate(model, gold, by_label=by_label)
    twice = calibrate(once, gold, by_label=by_label)
    assert bool(once.settings.thresholds.entity_types) == by_label
    assert twice.settings == once.settings
    assert once.cascade is model.cascade


def test_with_nothing_to_learn_from_the_defaults_stay() -> None:
    model = small_model("swift")
    assert calibrate(model, examples(SENTENCES)).settings == model.settings
    assert calibrate(model, []).settings == model.settings


def test_it_is_never_worse_on_the_sentences_it_was_chosen_on() -> None:
    for seed in range(4):
        model = spread_probabilities(small_model("swift"), seed=seed)
        gold = examples(SENTENCES) * 4
        reached = []
        for one in (model, calibrate(model, gold)):
            scores = score([e.sentence for e in gold], one.predictor().predict(gold), schema=one.schema)
            reached.append(scores.ner.counts.f1 + scores.re_strict.counts.f1)
        assert reached[1] >= reached[0]


def test_temperatures_change_scores_but_not_their_order(tmp_path: object) -> None:
    model = spread_probabilities(small_model("swift"))
    warm = replace(model, settings=replace(model.settings, temperatures=Temperatures(3.0, 2.0, 2.0)))
    everything = Thresholds(0.0, 0.0, 0.0)
    plain, other = (m.predictor(thresholds=everything).predict(examples(SENTENCES)) for m in (model, warm))
    for one, two in zip(plain, other, strict=True):
        assert one.entities == two.entities
        ranked = [sorted(range(len(s.entities)), key=lambda i: -s.entities[i].score) for s in (one, two)]
        assert ranked[0] == ranked[1]
        assert all(abs(b.score - 0.5) <= abs(a.score - 0.5) for a, b in zip(one.entities, two.entities, strict=True))


def test_a_triples_score_is_the_product_of_its_turns() -> None:
    model = spread_probabilities(small_model("swift"))
    found = model.predictor(thresholds=Thresholds(0.2, 0.1, 0.1)).scored(examples(SENTENCES))
    assert sum(len(f.triples) for f in found) > 5
    for sentence, triples in found:
        assert list(sentence.triples) == [t.triple for t in triples]
        for triple, subject, object_ in triples:
            assert triple.score == pytest.approx(subject * object_)
            assert min(subject, object_) >= 0.1
