"""Temperatures and thresholds, chosen on development sentences and stored with the model.

A triple is found where a subject and an object pass six probabilities between them, so that with a threshold of one
half everywhere too little is found. And a model that has seen its training sentences many times is too sure of
itself. Each turn therefore gets a temperature, with which its scores come closest to being probabilities (by their
likelihood), and a threshold, with which F1 is highest: of entities for turn 1, and of relations, strict, for the
later two together.

Few sentences tell little, and a choice among many thresholds is luck in part (docs/adr/0010). Hence F1 is smoothed over
neighbouring thresholds; turn 2 gets the lowest threshold that is about as good as the best, since turn 3 learns of all
entities, subjects or not, and judges for itself; and entities with a relation may be less certain than others.
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

# What scores less than this is not looked at.
FLOOR = 0.02
THRESHOLDS = np.round(np.arange(0.05, 0.91, 0.05), 2)
# With higher temperatures scores lie so close together that the steps between thresholds have to be smaller.
COARSEST = 6.0
# From four times as sure to sixteen times less: models that have seen their sentences often are far too sure.
TEMPERATURES = np.geomspace(0.25, 16, 121)
# Of subjects, before their temperature.
SUBJECT_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# With fewer examples of right or of wrong ones a turn is left as it is.
FEWEST = 10
# What an entity with a relation has to reach, as a share of the threshold of the others.
RELATED = 0.6
# Differences in F1 that tell nothing: of a threshold for subjects, and of all that was chosen against what was there.
SUBJECT_SLACK = 0.005
SLACK = 0.01

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def calibrate(model: Model, examples: Sequence[Example], *, by_label: bool = False) -> Model:
    """The model with the temperatures and thresholds that suit these sentences, which it was not trained on.

    ``by_label`` also gives each label of turns 1 and 3 a threshold of its own, where there is enough of it.

    Where the model was better on these sentences as it was, by more than a point of F1, it gets what is chosen with
    entities that are as certain with a relation as without, or what was chosen for turn 1 alone, or stays as it was.
    Turns that there is too little to choose for, and those for which nothing right passes any threshold, keep what
    they have.
    """
    enough_f1 = _reached(model, examples) - SLACK
    for choice in _choices(model, examples, by_label):
        if _reached(choice, examples) >= enough_f1:
            return choice
    return model


def _choices(model: Model, examples: Sequence[Example], by_label: bool) -> Iterator[Model]:
    """What could be chosen, from the most to the least that is changed."""
    entities = _entities_calibrated(model, examples, by_label)
    if model.network.relations is not None:
        for share in (RELATED, None):
            yield _relations_calibrated(entities, examples, by_label, share)
    yield entities


def _reached(model: Model, examples: Sequence[Example]) -> float:
    """NER and strict RE F1 together: what the best weights are chosen by, too."""
    gold = [example.sentence for example in examples]
    found = score(gold, model.predictor().predict(examples), schema=model.schema)
    return found.ner.counts.f1 + found.re_strict.counts.f1


def _entities_calibrated(model: Model, examples: Sequence[Example], by_label: bool) -> Model:
    given, temperatures = model.settings.thresholds, replace(model.settings.temperatures, entity=1.0)
    # Nothing is a subject with a threshold that no probability reaches.
    predictor = _with(model, Thresholds(FLOOR, 1.0, 1.0), temperatures).predictor()
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
    known = looked_at(temperature)
    threshold, f1 = best_threshold(found, correct, n_gold, known)
    if not f1:
        return model
    own = thresholds_by_label(found, correct, labels, n_gold, threshold, known) if by_label else {}
    thresholds = replace(given, entity=threshold, entity_types=own, related=None)
    return _with(model, thresholds, replace(temperatures, entity=temperature))


def _relations_calibrated(model: Model, examples: Sequence[Example], by_label: bool, share: float | None) -> Model:
    """``share`` is what an entity with a relation has to reach of what the others do (None: as much as they)."""
    related = None if share is None else related_threshold(model.settings, share)
    floor = replace(
        model.settings.thresholds, subject=FLOOR, object=FLOOR, relation_types={}, related=related, relation=None
    )
    predictor = _with(model, floor, replace(model.settings.temperatures, subject=1.0, object=1.0)).predictor()
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
    as_subject, as_object = np.array(subjects, dtype=float), np.array(objects, dtype=float)
    # An object's score is that of one of a subject's objects: it is held against what is said of real subjects.
    temperatures = replace(
        model.settings.temperatures,
        subject=fit_temperature(as_subject, is_subject),
        object=fit_temperature(as_object[is_subject], correct[is_subject]),
    )
    as_object = tempered(as_object, temperatures.object)
    known = looked_at(temperatures.object)
    least_subject, least_object = relation_thresholds(as_subject, as_object, correct, n_gold, known)
    passed = as_subject >= least_subject
    if not (passed & (as_object >= least_object) & correct).any():
        return model
    own: dict[str, float] = {}
    if by_label:
        names = [label for label, kept in zip(labels, passed, strict=True) if kept]
        own = thresholds_by_label(as_object[passed], correct[passed], names, n_gold, least_object, known)
    gate = _four_figures(tempered(np.array([least_subject]), temperatures.subject)[0])
    thresholds = replace(floor, subject=gate, object=least_object, relation_types=own)
    return _with(model, thresholds, temperatures)


def related_threshold(settings: ModelSettings, share: float) -> float:
    """What an entity with a relation has to reach; before its temperature, no less than anything that is looked at."""
    lowest = float(tempered(np.array([FLOOR]), settings.temperatures.entity)[0])
    entity = settings.thresholds.entity
    return min(entity, _four_figures(max(share * entity, lowest)))


def _four_figures(value: float) -> float:
    """Figures, not places: with a low temperature a threshold may be so small that places would make it 0."""
    return float(f"{value:.4g}")


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


def looked_at(temperature: float) -> Floats:
    """The thresholds that can be chosen among: below the others, what passes has not been looked at."""
    lowest = tempered(np.array([FLOOR]), temperature)[0]
    step = 0.05 / math.ceil(temperature / COARSEST)
    every = THRESHOLDS if temperature <= COARSEST else np.round(np.arange(0.05, 0.9 + step / 2, step), 4)
    known: Floats = every[lowest <= every]
    return known


def best_threshold(
    scores: Floats, correct: Flags, n_gold: int, thresholds: Floats = THRESHOLDS, *, reach: int = 1
) -> tuple[float, float]:
    """The threshold with the highest F1, and that F1: a mean over so many neighbouring thresholds on each side, since
    the highest peak on few sentences is a matter of luck. Shapes: scores, correct (n,).
    """
    passed = scores >= thresholds[:, None]
    f1 = 2 * (passed & correct).sum(axis=1) / np.maximum(1, passed.sum(axis=1) + n_gold)
    smoothed = _smoothed(f1, reach)
    best = int(np.argmax(smoothed))
    return float(thresholds[best]), float(smoothed[best])


def relation_thresholds(
    subjects: Floats, objects: Floats, correct: Flags, n_gold: int, thresholds: Floats = THRESHOLDS
) -> tuple[float, float]:
    """Of subjects and objects, which both have to pass: that of subjects is the lowest one that is about as good as the
    best. Shapes: subjects, objects, correct (n,).
    """
    choices = []
    for threshold in SUBJECT_THRESHOLDS:
        passed = subjects >= threshold
        choices.append((threshold, *best_threshold(objects[passed], correct[passed], n_gold, thresholds, reach=2)))
    enough_f1 = max(f1 for _, _, f1 in choices) - SUBJECT_SLACK
    return next((subject, object_) for subject, object_, f1 in choices if f1 >= enough_f1)


def thresholds_by_label(
    scores: Floats,
    correct: Flags,
    labels: Sequence[str],
    n_gold: int,
    otherwise: float,
    thresholds: Floats = THRESHOLDS,
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
        for threshold in thresholds:
            passed = scores >= np.where(here, threshold, bounds)
            f1.append(2 * (passed & correct).sum() / max(1, passed.sum() + n_gold))
        chosen[label] = float(thresholds[int(np.argmax(_smoothed(np.array(f1))))])
        bounds = np.where(here, chosen[label], bounds)
    return chosen


def _smoothed(values: Floats, reach: int = 1) -> Floats:
    """Each value's mean with so many neighbours on each side. Shapes: (n,) both."""
    edges = np.pad(values, reach, mode="edge")
    width = 2 * reach + 1
    result: Floats = np.convolve(edges, np.ones(width) / width, mode="valid")
    return result


def _with(model: Model, thresholds: Thresholds, temperatures: Temperatures) -> Model:
    return replace(model, settings=replace(model.settings, thresholds=thresholds, temperatures=temperatures))
