from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.evaluation.calibration.calibrate import (
    FLOOR,
    RELATED_SHARE,
    SLACK,
    THRESHOLDS,
    choose_thresholds,
    find_label_thresholds,
    find_related_threshold,
    find_threshold,
)
from cascade_srn.evaluation.calibration.scaling import Scaling, fit_temperature
from cascade_srn.evaluation.items import SentencePair
from cascade_srn.evaluation.reliability import measure_entity_reliability
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example

LOW = Thresholds(entity=0.4, subject=0.3, object=0.5)


def test_frequent_labels_get_their_own_thresholds() -> None:
    random = np.random.default_rng(3)
    labels = ["shy"] * 400 + ["bold"] * 400 + ["rare"] * 12
    correct = random.random(812) < 0.5
    # One label's right ones score about 0.3, the other's about 0.8.
    middle = np.where(np.array(labels) == "shy", 0.2, 0.7)
    scores = np.clip(middle + np.where(correct, 0.12, -0.12) + random.normal(0, 0.03, 812), 0, 1)
    found = find_label_thresholds(scores, correct, labels, int(correct.sum()), 0.5)
    assert set(found) == {"shy", "bold"}
    assert 0.15 <= found["shy"] <= 0.25
    assert 0.65 <= found["bold"] <= 0.75


def test_the_threshold_is_half_of_the_best_expected_f1() -> None:
    # With three of four: 2 * 2.4 / (3 + 3) = 0.8, and less with two or four.
    assert find_threshold(np.array([0.9, 0.1, 0.7, 0.8]), 3) == 0.4
    # More gold items that are no candidates: F1 is lower, and so is the threshold.
    assert find_threshold(np.array([0.9, 0.1, 0.7, 0.8]), 9) == 0.2


def test_the_threshold_has_the_highest_expected_f1_of_all_thresholds() -> None:
    rng = np.random.default_rng(0)
    for n_gold in (50, 200, 400):
        probabilities = rng.beta(0.6, 0.8, 300)
        kept = [probabilities >= threshold for threshold in np.linspace(0, 1, 501)]
        best = max(2 * probabilities[each].sum() / (each.sum() + n_gold) for each in kept)
        found = probabilities[probabilities >= find_threshold(probabilities, n_gold)]
        assert 2 * found.sum() / (len(found) + n_gold) >= best - 1e-6


def annotated_by(model: Model, thresholds: Thresholds, times: int = 3) -> list[Example]:
    """Return sentences annotated by the model itself with other thresholds."""
    given = list(examples(SENTENCES)) * times
    words = [replace(e, sentence=e.sentence.annotated((), ())) for e in given]
    found = model.predictor(thresholds=thresholds).predict(words)
    return [replace(e, sentence=s) for e, s in zip(words, found, strict=True)]


@pytest.mark.parametrize("preset", ["swift", "early"])
def test_the_thresholds_that_made_the_gold_are_found_again(preset: str) -> None:
    model = spread_probabilities(small_model(preset))
    gold = annotated_by(model, LOW, times=1)
    assert sum(len(e.sentence.triples) for e in gold) > 20
    found = choose_thresholds(model, gold)
    predicted = found.predictor().predict(gold)
    wrong = sum(len(set(p.entities) ^ set(e.sentence.entities)) for p, e in zip(predicted, gold, strict=True))
    total = sum(len(e.sentence.entities) for e in gold)
    # Entities with a relation have a lower threshold, which gold does not have.
    assert wrong <= 0.2 * total
    before = model.predictor().predict(gold)
    assert wrong < sum(len(set(p.entities) ^ set(e.sentence.entities)) for p, e in zip(before, gold, strict=True))
    assert found.settings.thresholds != model.settings.thresholds
    assert reached(found, gold) > reached(model, gold) + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("by_label", [False, True])
def test_twice_is_the_same_as_once(by_label: bool) -> None:
    model = spread_probabilities(small_model("swift"))
    gold = annotated_by(model, LOW)
    once = choose_thresholds(model, gold, by_label=by_label)
    twice = choose_thresholds(once, gold, by_label=by_label)
    assert bool(once.settings.thresholds.entity_types) == by_label
    assert once.settings.thresholds.related is not None
    assert twice.settings == once.settings
    assert once.cascade is model.cascade


@pytest.mark.parametrize("n_examples", [0, 1])
def test_few_examples_change_nothing(n_examples: int) -> None:
    settings = small_model("swift").settings
    before = replace(settings, thresholds=Thresholds(0.4, 0.3, 0.5, related=0.2), temperatures=Temperatures(2, 4, 3))
    model = replace(spread_probabilities(small_model("swift")), settings=before)
    assert choose_thresholds(model, examples(SENTENCES)[:n_examples]).settings == before


def test_few_correct_relations_get_a_threshold_but_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that has seen few sentences finds no relation with the default threshold."""
    model = spread_probabilities(small_model("swift"))
    gold = annotated_by(model, LOW, times=1)
    strict = replace(model, settings=replace(model.settings, thresholds=replace(LOW, object=0.999)))
    assert not any(sentence.triples for sentence in strict.predictor().predict(gold))
    monkeypatch.setattr("cascade_srn.evaluation.calibration.scaling.MIN_EXAMPLES", 10**6)
    found = choose_thresholds(strict, gold)
    assert found.settings.temperatures == strict.settings.temperatures
    assert found.settings.thresholds.entity == strict.settings.thresholds.entity
    assert found.settings.thresholds.relation is not None
    assert reached(found, gold) > reached(strict, gold) + 0.2
    monkeypatch.setattr("cascade_srn.evaluation.calibration.calibrate.MIN_CORRECT", 10**6)
    assert choose_thresholds(strict, gold) is strict


def reached(model: Model, gold: list[Example]) -> float:
    scores = score([e.sentence for e in gold], model.predictor().predict(gold), schema=model.schema)
    return scores.ner.counts.f1 + scores.re_strict.counts.f1


@pytest.mark.slow
def test_f1_on_the_same_sentences_never_drops_by_more_than_the_slack() -> None:
    for seed in range(4):
        model = spread_probabilities(small_model("swift"), seed=seed)
        gold = examples(SENTENCES) * 4
        assert reached(choose_thresholds(model, gold), gold) >= reached(model, gold) - SLACK


@pytest.mark.slow
def test_clearly_better_previous_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    # One threshold for all labels cannot replace thresholds by label.
    own = replace(LOW, entity_types={"Task": 0.7, "Metric": 0.1})
    model = spread_probabilities(small_model("swift", thresholds=own))
    gold = annotated_by(model, own)
    assert choose_thresholds(model, gold) is model
    monkeypatch.setattr("cascade_srn.evaluation.calibration.calibrate.SLACK", 2.0)
    worse = choose_thresholds(model, gold)
    assert worse.settings.thresholds.entity_types == {}
    assert reached(worse, gold) < reached(model, gold) - SLACK


@pytest.mark.slow
def test_entities_with_a_relation_may_be_less_certain() -> None:
    model = spread_probabilities(small_model("swift"))
    gold = annotated_by(model, Thresholds(0.6, 0.4, 0.6, related=0.36))
    found = choose_thresholds(model, gold)
    thresholds = found.settings.thresholds
    assert thresholds.related == pytest.approx(RELATED_SHARE * thresholds.entity, rel=1e-3)
    # With a low threshold of relations, some entities are predicted only because of their relations.
    low = replace(thresholds, relation=None, object=FLOOR)
    n_less = 0
    for sentence in found.predictor(thresholds=low).predict(gold):
        less = [e for e in sentence.entities if e.score < thresholds.entity]
        n_less += len(less)
        assert set(less) <= {e for t in sentence.triples for e in (t.head, t.tail)}
        assert all(e.score >= thresholds.related for e in less)
    assert n_less > 5


def test_without_relations_there_is_no_related_threshold() -> None:
    before = Thresholds(related=0.4)
    alone = spread_probabilities(small_model("swift", joint=False, thresholds=before))
    joint = spread_probabilities(small_model("swift", thresholds=before))
    gold = [replace(e, sentence=e.sentence.annotated(e.sentence.entities, ())) for e in annotated_by(alone, LOW)]
    for model in (alone, joint):
        found = choose_thresholds(model, gold)
        thresholds = found.settings.thresholds
        assert found.settings.temperatures.entity != 1.0
        assert (thresholds.subject, thresholds.object, thresholds.related) == (0.5, 0.5, None)


def test_the_threshold_of_a_label_is_chosen_with_those_that_were_chosen_before_it():
    """Compared with a slow reference that counts predictions."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        labels = [str(label) for label in rng.choice(["a", "b", "c"], 400)]
        shift = np.array([{"a": 0.0, "b": 0.25, "c": -0.2}[label] for label in labels])
        scores = np.clip(rng.random(400) + shift, 0.01, 0.99)
        correct = rng.random(400) < scores
        n_gold = int(correct.sum()) + 40
        held = dict.fromkeys("abc", 0.5)
        for label in "abc":
            f1 = []
            for threshold in THRESHOLDS:
                passed = [s >= (threshold if n == label else held[n]) for s, n in zip(scores, labels, strict=True)]
                n_right = sum(p and c for p, c in zip(passed, correct, strict=True))
                f1.append(2 * n_right / (sum(passed) + n_gold))
            smooth = [np.mean([f1[min(max(i + k, 0), len(f1) - 1)] for k in (-1, 0, 1)]) for i in range(len(f1))]
            held[label] = THRESHOLDS[int(np.argmax(smooth))]
        assert find_label_thresholds(scores, correct, labels, n_gold, 0.5) == pytest.approx(held)


@pytest.mark.parametrize("temperature", [1.0, 3.0, 9.0])
def test_the_related_threshold_is_not_below_the_floor(temperature: float) -> None:
    model = small_model("swift", thresholds=Thresholds(0.5))
    temperatures = Temperatures(entity=temperature, entity_offsets={"Task": -0.5})
    model = replace(model, settings=replace(model.settings, temperatures=temperatures))
    lowest = Scaling(temperature, {"Task": -0.5, "Thing": 0.0}).apply(np.full(2, FLOOR), ["Task", "Thing"])
    found = find_related_threshold(model, RELATED_SHARE)
    assert found >= RELATED_SHARE * 0.5
    assert lowest.min() - 1e-4 <= found <= max(RELATED_SHARE * 0.5, lowest.max()) + 1e-4
    # A lower entity threshold, set by hand, is not raised.
    low = replace(model, settings=replace(model.settings, thresholds=Thresholds(0.1)))
    assert find_related_threshold(low, RELATED_SHARE) <= 0.1


@pytest.mark.slow
def test_the_object_temperature_uses_correct_entities_only() -> None:
    model = spread_probabilities(small_model("swift"))
    gold = annotated_by(model, LOW)
    chosen = choose_thresholds(model, gold).settings
    assert chosen.thresholds.subject == FLOOR
    assert chosen.temperatures.subject == 1.0
    thresholds = replace(chosen.thresholds, object=FLOOR, relation=None)
    plain = replace(chosen.temperatures, object=1.0, relation=1.0, relation_offsets={})
    everything = replace(model, settings=replace(chosen, thresholds=thresholds, temperatures=plain))
    scores, right, known = [], [], []
    for example, found in zip(gold, everything.predictor().predict_with_scores(gold), strict=True):
        for triple, _, object_ in found.triples:
            scores.append(object_)
            right.append(triple in example.sentence.triples)
            known.append({triple.head, triple.tail} <= set(example.sentence.entities))
    objects, correct, between = np.array(scores), np.array(right), np.array(known)
    assert 0 < between.sum() < len(between)
    assert chosen.temperatures.object == fit_temperature(objects[between], correct[between])


@pytest.mark.slow
def test_chosen_scores_are_closer_to_probabilities() -> None:
    """Gold is drawn with probabilities that the scores overstate."""
    model = spread_probabilities(small_model("swift"))
    rng = np.random.default_rng(0)
    words = [replace(e, sentence=e.sentence.annotated((), ())) for e in examples(SENTENCES) * 12]
    found = model.predictor(thresholds=Thresholds(FLOOR, 1.0, 1.0)).predict(words)
    drawn = [
        s.annotated(
            [e for e in s.entities if rng.random() < Scaling(2.0).apply(np.array([e.score]), [""])[0] - 0.1], ()
        )
        for s in found
    ]
    gold = [replace(e, sentence=s) for e, s in zip(words, drawn, strict=True)]
    half = len(gold) // 2
    chosen = choose_thresholds(model, gold[:half])
    assert chosen.settings.temperatures.entity > 1.5
    assert set(chosen.settings.temperatures.entity_offsets) == set(model.schema.entity_types)
    errors = []
    for each in (model, chosen):
        predicted = each.predictor(thresholds=chosen.settings.thresholds).predict(gold[half:])
        pairs = [SentencePair("", e.sentence, p) for e, p in zip(gold[half:], predicted, strict=True)]
        errors.append(measure_entity_reliability(pairs).expected_calibration_error)
    assert errors[1] < 0.6 * errors[0]
