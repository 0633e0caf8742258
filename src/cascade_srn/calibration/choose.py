"""Choose temperatures and thresholds on development sentences.

A triple must pass six probabilities, so that thresholds of 0.5 find too little. A model that has seen its training
sentences many times is overconfident. Each turn therefore gets a temperature that maximises the likelihood of its
scores, and a threshold that maximises F1: entity F1 for turn 1, and strict relation F1 for turns 2 and 3 together.

Choosing among many thresholds on few sentences overfits. F1 is therefore smoothed over neighbouring thresholds. Turn 2
gets the lowest threshold that is about as good as the best, because turn 3 judges every subject. Entities with a
relation get a lower threshold than others. See docs/adr/0010.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import ModelSettings, Temperatures, Thresholds
from cascade_srn.data.examples import Example
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model

# Candidates with a lower score are ignored.
FLOOR = 0.02
THRESHOLDS = np.round(np.arange(0.05, 0.91, 0.05), 2)
# Above this temperature, scores are so close together that the steps between thresholds must be smaller.
MAX_COARSE_TEMPERATURE = 6.0
TEMPERATURES = np.geomspace(0.25, 16, 121)
# Thresholds of subjects, before their temperature.
SUBJECT_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# A turn with fewer correct or fewer wrong candidates keeps its settings.
MIN_EXAMPLES = 10
# Threshold of entities with a relation, as a share of the threshold of other entities.
RELATED_SHARE = 0.6
# Differences in F1 that are treated as noise: between subject thresholds, and between chosen and previous settings.
SUBJECT_SLACK = 0.005
SLACK = 0.01

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def calibrate(model: Model, examples: Sequence[Example], *, by_label: bool = False) -> Model:
    """Choose temperatures and thresholds for a model.

    A turn keeps its settings if it has too few examples, or if no correct candidate passes any threshold. If the chosen
    settings lose more than ``SLACK`` in F1 to the previous ones, the same threshold is tried for entities with and
    without a relation, then turn 1 alone. If these lose as well, the model is returned unchanged.

    Args:
        model: A trained model.
        examples: Annotated sentences that the model was not trained on.
        by_label: Give each frequent label of turns 1 and 3 its own threshold.

    Returns:
        The model with the same network and other settings.
    """
    min_f1 = _sum_f1(model, examples) - SLACK
    for candidate in _candidates(model, examples, by_label):
        if _sum_f1(candidate, examples) >= min_f1:
            return candidate
    return model


def _candidates(model: Model, examples: Sequence[Example], by_label: bool) -> Iterator[Model]:
    """Yield models with chosen settings, from the largest to the smallest change."""
    entities = _calibrate_entities(model, examples, by_label)
    if model.network.relations is not None:
        for share in (RELATED_SHARE, None):
            yield _calibrate_relations(entities, examples, by_label, share)
    yield entities


def _sum_f1(model: Model, examples: Sequence[Example]) -> float:
    """Return NER F1 plus strict relation F1, which also selects the best weights in training."""
    gold = [example.sentence for example in examples]
    scores = score(gold, model.predictor().predict(examples), schema=model.schema)
    return scores.ner.counts.f1 + scores.re_strict.counts.f1


def _calibrate_entities(model: Model, examples: Sequence[Example], by_label: bool) -> Model:
    previous, temperatures = model.settings.thresholds, replace(model.settings.temperatures, entity=1.0)
    # A subject threshold of 1 skips the later turns.
    predictor = _with_settings(model, Thresholds(FLOOR, 1.0, 1.0), temperatures).predictor()
    scores, is_correct, labels = [], [], []
    for example, sentence in zip(examples, predictor.predict(examples), strict=True):
        gold = {(e.start, e.end, e.label) for e in example.sentence.entities}
        scores += [e.score for e in sentence.entities]
        labels += [e.label for e in sentence.entities]
        is_correct += [(e.start, e.end, e.label) in gold for e in sentence.entities]
    found, correct = np.array(scores, dtype=float), np.array(is_correct, dtype=bool)
    if not has_enough_examples(correct):
        return model
    temperature = fit_temperature(found, correct)
    n_gold = sum(len(example.sentence.entities) for example in examples)
    found = apply_temperature(found, temperature)
    candidates = candidate_thresholds(temperature)
    threshold, f1 = find_threshold(found, correct, n_gold, candidates)
    if not f1:
        return model
    by_type = find_label_thresholds(found, correct, labels, n_gold, threshold, candidates) if by_label else {}
    thresholds = replace(previous, entity=threshold, entity_types=by_type, related=None)
    return _with_settings(model, thresholds, replace(temperatures, entity=temperature))


def _calibrate_relations(model: Model, examples: Sequence[Example], by_label: bool, share: float | None) -> Model:
    """Choose settings of turns 2 and 3. ``share`` is relative to the entity threshold; None means no lower one."""
    related = None if share is None else find_related_threshold(model.settings, share)
    floor = replace(
        model.settings.thresholds, subject=FLOOR, object=FLOOR, relation_types={}, related=related, relation=None
    )
    predictor = _with_settings(model, floor, replace(model.settings.temperatures, subject=1.0, object=1.0)).predictor()
    subjects, objects, is_correct, has_gold_subject, labels = [], [], [], [], []
    n_gold = 0
    for example, found in zip(examples, predictor.predict_with_scores(examples), strict=True):
        gold = {(t.head, t.label, t.tail) for t in example.sentence.triples}
        heads = {(t.head.start, t.head.end) for t in example.sentence.triples}
        n_gold += len(gold)
        for triple, subject, object_ in found.triples:
            subjects.append(subject)
            objects.append(object_)
            labels.append(triple.label)
            is_correct.append((triple.head, triple.label, triple.tail) in gold)
            has_gold_subject.append((triple.head.start, triple.head.end) in heads)
    correct, is_subject = np.array(is_correct, dtype=bool), np.array(has_gold_subject, dtype=bool)
    if not has_enough_examples(correct):
        return model
    subject_scores, object_scores = np.array(subjects, dtype=float), np.array(objects, dtype=float)
    # The score of an object is conditional on its subject, so that only gold subjects count for its temperature.
    temperatures = replace(
        model.settings.temperatures,
        subject=fit_temperature(subject_scores, is_subject),
        object=fit_temperature(object_scores[is_subject], correct[is_subject]),
    )
    object_scores = apply_temperature(object_scores, temperatures.object)
    candidates = candidate_thresholds(temperatures.object)
    min_subject, min_object = find_relation_thresholds(subject_scores, object_scores, correct, n_gold, candidates)
    passed = subject_scores >= min_subject
    if not (passed & (object_scores >= min_object) & correct).any():
        return model
    by_type: dict[str, float] = {}
    if by_label:
        names = [label for label, kept in zip(labels, passed, strict=True) if kept]
        by_type = find_label_thresholds(object_scores[passed], correct[passed], names, n_gold, min_object, candidates)
    subject_threshold = _round(apply_temperature(np.array([min_subject]), temperatures.subject)[0])
    thresholds = replace(floor, subject=subject_threshold, object=min_object, relation_types=by_type)
    return _with_settings(model, thresholds, temperatures)


def find_related_threshold(settings: ModelSettings, share: float) -> float:
    """Return the threshold of entities with a relation, no lower than ``FLOOR`` before the temperature."""
    lowest = float(apply_temperature(np.array([FLOOR]), settings.temperatures.entity)[0])
    entity = settings.thresholds.entity
    return min(entity, _round(max(share * entity, lowest)))


def _round(value: float) -> float:
    """Round to four significant digits. Four decimals would round the thresholds of low temperatures to 0."""
    return float(f"{value:.4g}")


def has_enough_examples(correct: Flags) -> bool:
    """Return whether there are at least ``MIN_EXAMPLES`` correct and wrong candidates."""
    return min(int(correct.sum()), int((~correct).sum())) >= MIN_EXAMPLES


def apply_temperature(scores: Floats, temperature: float) -> Floats:
    """Divide the logits of scores by a temperature. Shapes: (n,) to (n,)."""
    kept = np.clip(scores, 1e-7, 1 - 1e-7)
    logits = np.log(kept) - np.log1p(-kept)
    result: Floats = 1 / (1 + np.exp(-logits / temperature))
    return result


def fit_temperature(scores: Floats, correct: Flags) -> float:
    """Return the temperature of maximum likelihood, or 1 with too few examples. Shapes: (n,) both."""
    if not has_enough_examples(correct):
        return 1.0
    losses = []
    for temperature in TEMPERATURES:
        probability = np.clip(apply_temperature(scores, temperature), 1e-7, 1 - 1e-7)
        losses.append(-np.where(correct, np.log(probability), np.log1p(-probability)).mean())
    return round(float(TEMPERATURES[int(np.argmin(losses))]), 4)


def candidate_thresholds(temperature: float) -> Floats:
    """Return the thresholds to choose from, without those below ``FLOOR`` at this temperature."""
    lowest = apply_temperature(np.array([FLOOR]), temperature)[0]
    step = 0.05 / math.ceil(temperature / MAX_COARSE_TEMPERATURE)
    fine = temperature > MAX_COARSE_TEMPERATURE
    every = np.round(np.arange(0.05, 0.9 + step / 2, step), 4) if fine else THRESHOLDS
    candidates: Floats = every[lowest <= every]
    return candidates


def find_threshold(
    scores: Floats, correct: Flags, n_gold: int, thresholds: Floats = THRESHOLDS, *, reach: int = 1
) -> tuple[float, float]:
    """Find the threshold with the highest F1, averaged over ``reach`` neighbours on each side, and that F1.

    Shapes: scores, correct (n,).
    """
    passed = scores >= thresholds[:, None]
    f1 = 2 * (passed & correct).sum(axis=1) / np.maximum(1, passed.sum(axis=1) + n_gold)
    smoothed = _smooth(f1, reach)
    best = int(np.argmax(smoothed))
    return float(thresholds[best]), float(smoothed[best])


def find_relation_thresholds(
    subjects: Floats, objects: Floats, correct: Flags, n_gold: int, thresholds: Floats = THRESHOLDS
) -> tuple[float, float]:
    """Find the thresholds of subject and object, which a triple must both pass.

    The subject threshold is the lowest within ``SUBJECT_SLACK`` of the best. Shapes: subjects, objects, correct (n,).
    """
    choices = []
    for threshold in SUBJECT_THRESHOLDS:
        passed = subjects >= threshold
        choices.append((threshold, *find_threshold(objects[passed], correct[passed], n_gold, thresholds, reach=2)))
    min_f1 = max(f1 for _, _, f1 in choices) - SUBJECT_SLACK
    return next((subject, object_) for subject, object_, f1 in choices if f1 >= min_f1)


def find_label_thresholds(
    scores: Floats,
    correct: Flags,
    labels: Sequence[str],
    n_gold: int,
    otherwise: float,
    thresholds: Floats = THRESHOLDS,
) -> dict[str, float]:
    """Find a threshold for each frequent label in turn, with the highest F1 over all labels.

    ``otherwise`` is the threshold of the other labels. Shapes: scores, correct, labels (n,).
    """
    names = np.array(labels)
    bounds = np.full(len(scores), otherwise)
    chosen = {}
    for label in sorted(set(labels)):
        here = names == label
        if not has_enough_examples(correct[here]):
            continue
        f1 = []
        for threshold in thresholds:
            passed = scores >= np.where(here, threshold, bounds)
            f1.append(2 * (passed & correct).sum() / max(1, passed.sum() + n_gold))
        chosen[label] = float(thresholds[int(np.argmax(_smooth(np.array(f1))))])
        bounds = np.where(here, chosen[label], bounds)
    return chosen


def _smooth(values: Floats, reach: int = 1) -> Floats:
    """Average each value with ``reach`` neighbours on each side. Shapes: (n,) to (n,)."""
    edges = np.pad(values, reach, mode="edge")
    width = 2 * reach + 1
    result: Floats = np.convolve(edges, np.ones(width) / width, mode="valid")
    return result


def _with_settings(model: Model, thresholds: Thresholds, temperatures: Temperatures) -> Model:
    return replace(model, settings=replace(model.settings, thresholds=thresholds, temperatures=temperatures))
