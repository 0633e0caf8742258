"""Temperatures and thresholds, chosen on development sentences and stored with the model.

A triple is found where a subject and an object pass six probabilities between them, so that with a threshold of one
half everywhere too little is found. And a model that has seen its training sentences many times is too sure of
itself. Each turn therefore gets a temperature, with which its scores come closest to being probabilities (by their
likelihood), and a threshold, with which F1 is highest: of entities for turn 1, and of relations, strict, for the
later two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.data.examples import Example
from cascade_srn.evaluation.scores import score
from cascade_srn.model import Model

# What scores less than this is not looked at.
FLOOR = 0.02
THRESHOLDS = np.round(np.arange(0.05, 0.91, 0.05), 2)
# From four times as sure to sixteen times less: models that have seen their sentences often are far too sure.
TEMPERATURES = np.geomspace(0.25, 16, 121)
# With fewer examples of right or of wrong ones a turn is left as it is.
FEWEST = 10

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def calibrate(model: Model, examples: Sequence[Example], *, by_label: bool = False) -> Model:
    """The model with the temperatures and thresholds that suit these sentences, which it was not trained on.

    ``by_label`` also gives each label of turns 1 and 3 a threshold of its own, where there is enough of it.

    On few sentences what suits one turn may not suit the next: of the settings with and without those of turn 1, and
    with and without those of the later turns, the ones that do best on these sentences are kept.
    """
    given = replace(model.settings.thresholds, entity_types={}, relation_types={})
    untouched = _with(model, given, Temperatures())
    choices = [model, untouched, _entities_calibrated(untouched, examples, by_label)]
    if model.cascade.relations is not None:
        choices += [_relations_calibrated(choice, examples, by_label) for choice in choices[1:]]
    # Of equals the last one, which most has been chosen for.
    return max(reversed(choices), key=lambda choice: _reached(choice, examples))


def _reached(model: Model, examples: Sequence[Example]) -> float:
    """NER and strict RE F1 together: what the best weights are chosen by, too."""
    gold = [example.sentence for example in examples]
    found = score(gold, model.predictor().predict(examples), schema=model.schema)
    return found.ner.counts.f1 + found.re_strict.counts.f1


def _entities_calibrated(model: Model, examples: Sequence[Example], by_label: bool) -> Model:
    # Nothing is a subject with a threshold that no probability reaches.
    predictor = model.predictor(thresholds=Thresholds(FLOOR, 1.0, 1.0))
    scores, right, labels = [], [], []
    for example, sentence in zip(examples, predictor.predict(examples), strict=True):
        gold = {(e.start, e.end, e.label) for e in example.sentence.entities}
        scores += [e.score for e in sentence.entities]
        labels += [e.label for e in sentence.entities]
        right += [(e.start, e.end, e.label) in gold for e in sentence.entities]
    found, correct = np.array(scores, dtype=float), np.array(right, dtype=bool)
    if not enough(correct):
        return model
    temperature = fit_temperature(found, correct)
    n_gold = sum(len(example.sentence.entities) for example in examples)
    found = tempered(found, temperature)
    threshold = best_thresholds([found], correct, n_gold)[0]
    own = thresholds_by_label(found, correct, labels, n_gold, threshold) if by_label else {}
    thresholds = replace(model.settings.thresholds, entity=threshold, entity_types=own)
    return _with(model, thresholds, replace(model.settings.temperatures, entity=temperature))


def _relations_calibrated(model: Model, examples: Sequence[Example], by_label: bool) -> Model:
    floor = replace(model.settings.thresholds, subject=FLOOR, object=FLOOR, relation_types={})
    predictor = model.predictor(thresholds=floor)
    subjects, objects, right, of_subject, labels = [], [], [], [], []
    n_gold = 0
    for example, found in zip(examples, predictor.scored(examples), strict=True):
        gold = {(t.head, t.label, t.tail) for t in example.sentence.triples}
        heads = {(t.head.start, t.head.end) for t in example.sentence.triples}
        n_gold += len(gold)
        for triple, subject, object_ in found.triples:
            subjects.append(subject)
            objects.append(object_)
            labels.append(triple.label)
            right.append((triple.head, triple.label, triple.tail) in gold)
            of_subject.append((triple.head.start, triple.head.end) in heads)
    correct, is_subject = np.array(right, dtype=bool), np.array(of_subject, dtype=bool)
    if not enough(correct):
        return model
    scores = [np.array(values, dtype=float) for values in (subjects, objects)]
    # An object's score is that of one of a subject's objects: it is held against what is said of real subjects.
    chosen = [fit_temperature(scores[0], is_subject), fit_temperature(scores[1][is_subject], correct[is_subject])]
    scores = [tempered(score, temperature) for score, temperature in zip(scores, chosen, strict=True)]
    subject_threshold, object_threshold = best_thresholds(scores, correct, n_gold)
    own: dict[str, float] = {}
    if by_label:
        passed = scores[0] >= subject_threshold
        names = [label for label, kept in zip(labels, passed, strict=True) if kept]
        own = thresholds_by_label(scores[1][passed], correct[passed], names, n_gold, object_threshold)
    thresholds = replace(
        model.settings.thresholds, subject=subject_threshold, object=object_threshold, relation_types=own
    )
    return _with(model, thresholds, replace(model.settings.temperatures, subject=chosen[0], object=chosen[1]))


def enough(correct: Flags) -> bool:
    """Whether there are enough right and wrong ones to learn from."""
    return min(int(correct.sum()), int((~correct).sum())) >= FEWEST


def tempered(scores: Floats, temperature: float) -> Floats:
    """Scores as they are with a temperature. Shapes: (n,) both."""
    kept = np.clip(scores, 1e-7, 1 - 1e-7)
    logits = np.log(kept) - np.log1p(-kept)
    result: Floats = 1 / (1 + np.exp(-logits / temperature))
    return result


def fit_temperature(scores: Floats, correct: Flags) -> float:
    """The temperature with which the scores are likeliest; 1 where there is too little to tell. Shapes: (n,) both."""
    if not enough(correct):
        return 1.0
    losses = []
    for temperature in TEMPERATURES:
        probability = np.clip(tempered(scores, temperature), 1e-7, 1 - 1e-7)
        losses.append(-np.where(correct, np.log(probability), np.log1p(-probability)).mean())
    return round(float(TEMPERATURES[int(np.argmin(losses))]), 4)


def best_thresholds(scores: Sequence[Floats], correct: Flags, n_gold: int) -> list[float]:
    """For one or two kinds of scores that all have to pass: the thresholds with the highest F1.

    F1 is smoothed over neighbouring thresholds, since its highest peak on few sentences is a matter of luck.

    Shapes: (n,) each
    """
    grids = np.meshgrid(*[THRESHOLDS] * len(scores), indexing="ij")
    f1: Floats = np.zeros(grids[0].shape)
    for at in np.ndindex(f1.shape):
        passed = np.all([score >= grid[at] for score, grid in zip(scores, grids, strict=True)], axis=0)
        f1[at] = 2 * (passed & correct).sum() / max(1, passed.sum() + n_gold)
    for axis in range(f1.ndim):
        f1 = np.apply_along_axis(_smoothed, axis, f1)
    best = np.unravel_index(int(np.argmax(f1)), f1.shape)
    return [float(THRESHOLDS[i]) for i in best]


def thresholds_by_label(
    scores: Floats, correct: Flags, labels: Sequence[str], n_gold: int, otherwise: float
) -> dict[str, float]:
    """For each label that there is enough of, the threshold with the highest F1 of all, the others staying.

    Shapes: scores, correct, labels (n,)
    """
    names = np.array(labels)
    bounds = np.full(len(scores), otherwise)
    chosen = {}
    for label in sorted(set(labels)):
        here = names == label
        if not enough(correct[here]):
            continue
        f1 = []
        for threshold in THRESHOLDS:
            passed = scores >= np.where(here, threshold, bounds)
            f1.append(2 * (passed & correct).sum() / max(1, passed.sum() + n_gold))
        chosen[label] = float(THRESHOLDS[int(np.argmax(_smoothed(np.array(f1))))])
        bounds = np.where(here, chosen[label], bounds)
    return chosen


def _smoothed(values: Floats) -> Floats:
    """Each value with its two neighbours. Shapes: (n,) both."""
    edges = np.pad(values, 1, mode="edge")
    return (edges[:-2] + values + edges[2:]) / 3


def _with(model: Model, thresholds: Thresholds, temperatures: Temperatures) -> Model:
    return replace(model, settings=replace(model.settings, thresholds=thresholds, temperatures=temperatures))
