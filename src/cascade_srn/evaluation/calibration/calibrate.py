"""Choose all settings of a model that depend on development sentences: thresholds, overlaps, constraints.

Scores are mapped to probabilities first (:mod:`.scaling`). With probabilities, F1 is expected to be best if everything
is predicted that is more likely than half of that F1. One such threshold applies to entities, and one to whole
relations. It is computed from all candidates, because the best of many thresholds on few sentences is partly luck.
Subjects and objects have no thresholds of their own. See docs/adr/0010.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cascade_srn.config import OVERLAPS, Temperatures, Thresholds
from cascade_srn.evaluation.calibration.scaling import (
    MIN_EXAMPLES,
    Flags,
    Floats,
    Scaling,
    fit_scaling,
    fit_temperature,
    has_enough_examples,
    logit,
    sigmoid,
)
from cascade_srn.evaluation.scores import score
from cascade_srn.inference.decode import entity_score, have_overlaps
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example

# Candidates with a lower score before the temperature are ignored.
FLOOR = 0.02
# Thresholds of single labels.
THRESHOLDS = np.round(np.arange(0.05, 0.91, 0.05), 2)
# With fewer correct candidates, relations keep their threshold. Fitting the map of their scores takes more of them.
MIN_CORRECT = 3
# Threshold of entities with a relation, as a share of the threshold of other entities.
RELATED_SHARE = 0.8
# Differences in F1 between chosen and previous settings that are treated as noise.
SLACK = 0.01
# Loss in F1, of NER and strict relations together, that is accepted for a simpler result.
OVERLAPS_SLACK = 0.002
# With fewer gold entities, the choice of the model is kept: in SciERC, two of a hundred share a word with another.
MIN_ENTITIES = 50
# With fewer gold relations, a difference in F1 is noise.
MIN_RELATIONS = 100


def calibrate(
    model: Model, examples: Sequence[Example], *, by_label: bool = False, overlaps: str | None = None
) -> Model:
    """Choose temperatures, offsets and thresholds, then the treatment of overlaps, then whether to apply constraints.

    Thresholds are chosen on all candidates: a candidate that a better one replaces still tells right from wrong.

    Args:
        model: A trained model.
        examples: Annotated sentences that the model was not trained on.
        by_label: Give each frequent label of turns 1 and 3 its own threshold.
        overlaps: Treatment of entities that share words, if it is not to be chosen.
    """
    chosen = choose_thresholds(with_overlaps(model, "all"), examples, by_label=by_label)
    if overlaps is None:
        overlaps = choose_overlaps(with_overlaps(chosen, model.overlaps), examples)
    return choose_constraints(with_overlaps(chosen, overlaps), examples)


def choose_thresholds(model: Model, examples: Sequence[Example], *, by_label: bool = False) -> Model:
    """Choose temperatures, offsets and thresholds.

    A turn keeps its settings if it has too few examples. Relations then still get a threshold, if some candidates are
    correct: weak models find no relation with the default one. If the chosen settings lose more than ``SLACK`` in F1 to
    the previous ones, the same threshold is tried for entities with and without a relation, then turn 1 alone. If these
    lose as well, the model is returned unchanged.
    """
    min_f1 = sum_f1(model, examples) - SLACK
    for candidate in _candidates(model, examples, by_label):
        if sum_f1(candidate, examples) >= min_f1:
            return candidate
    return model


def _candidates(model: Model, examples: Sequence[Example], by_label: bool) -> Iterator[Model]:
    """Yield models with chosen settings, from the largest to the smallest change."""
    entities = _calibrate_entities(model, examples, by_label)
    if model.network.relations is not None:
        for share in (RELATED_SHARE, None):
            found = _calibrate_relations(entities, examples, by_label, share)
            if found is not entities:
                yield found
    yield entities


def sum_f1(model: Model, examples: Sequence[Example]) -> float:
    """Return NER F1 plus strict relation F1, which also selects the best weights in training."""
    gold = [example.sentence for example in examples]
    scores = score(gold, model.predictor().predict(examples), schema=model.schema)
    return scores.ner.counts.f1 + scores.re_strict.counts.f1


def _calibrate_entities(model: Model, examples: Sequence[Example], by_label: bool) -> Model:
    temperatures = replace(model.settings.temperatures, entity=1.0, entity_offsets={})
    # A subject threshold of 1 skips the later turns.
    predictor = _with_settings(model, Thresholds(FLOOR, 1.0, 1.0), temperatures).predictor()
    found, is_correct, labels = [], [], []
    for example, sentence in zip(examples, predictor.predict(examples), strict=True):
        gold = set(example.sentence.entities)
        found += [entity_score(entity) for entity in sentence.entities]
        labels += [entity.label for entity in sentence.entities]
        is_correct += [entity in gold for entity in sentence.entities]
    scores, correct = np.array(found, dtype=float), np.array(is_correct, dtype=bool)
    if not has_enough_examples(correct):
        return model
    scaling = fit_scaling(scores, correct, labels, model.schema.entity_types)
    scores = scaling.apply(scores, labels)
    n_gold = sum(len(example.sentence.entities) for example in examples)
    # Candidates below the floor were not seen.
    threshold = max(find_threshold(scores, n_gold), _round(_lowest(scaling)))
    by_type = find_label_thresholds(scores, correct, labels, n_gold, threshold) if by_label else {}
    thresholds = replace(model.settings.thresholds, entity=threshold, entity_types=by_type, related=None)
    temperatures = replace(temperatures, entity=scaling.temperature, entity_offsets=scaling.offsets)
    return _with_settings(model, thresholds, temperatures)


def _calibrate_relations(model: Model, examples: Sequence[Example], by_label: bool, share: float | None) -> Model:
    """Choose the settings of turns 2 and 3 and of the scores of relations.

    ``share`` is that of ``related`` in the threshold of entities. None: no threshold ``related``.
    """
    related = None if share is None else find_related_threshold(model, share)
    floor = replace(
        model.settings.thresholds, subject=FLOOR, object=FLOOR, relation_types={}, related=related, relation=None
    )
    temperatures = replace(model.settings.temperatures, subject=1.0, object=1.0, relation=1.0, relation_offsets={})
    predictor = _with_settings(model, floor, temperatures).predictor()
    found, between, is_correct, are_gold, labels = [], [], [], [], []
    n_gold = 0
    for example, result in zip(examples, predictor.predict_with_scores(examples), strict=True):
        triples, entities = set(example.sentence.triples), set(example.sentence.entities)
        n_gold += len(triples)
        for triple, _, object_ in result.triples:
            found.append(object_)
            between.append(entity_score(triple.head) * entity_score(triple.tail))
            labels.append(triple.label)
            is_correct.append(triple in triples)
            are_gold.append(triple.head in entities and triple.tail in entities)
    correct, known = np.array(is_correct, dtype=bool), np.array(are_gold, dtype=bool)
    if n_gold < MIN_EXAMPLES or correct.sum() < MIN_CORRECT:
        return model
    previous, is_fitted = model.settings.temperatures, has_enough_examples(correct)
    objects = np.array(found, dtype=float)
    # The score of an object is conditional on its entities, so that only correct entities count for its temperature.
    by_object = Scaling(fit_temperature(objects[known], correct[known]) if is_fitted else previous.object)
    objects = by_object.apply(objects, labels)
    products = objects * np.array(between)
    whole = Scaling(previous.relation, previous.relation_offsets)
    if is_fitted:
        whole = fit_scaling(products, correct, labels, model.schema.relation_types)
    scores = whole.apply(products, labels)
    threshold = find_threshold(scores, n_gold)
    min_object = find_object_threshold(whole, threshold)
    by_type: dict[str, float] = {}
    if by_label:
        passed = scores >= threshold
        names = [label for label, kept in zip(labels, passed, strict=True) if kept]
        by_type = find_label_thresholds(objects[passed], correct[passed], names, n_gold, min_object)
    temperatures = replace(
        temperatures, object=by_object.temperature, relation=whole.temperature, relation_offsets=whole.offsets
    )
    thresholds = replace(floor, object=min_object, relation_types=by_type, relation=threshold)
    return _with_settings(model, thresholds, temperatures)


def find_object_threshold(whole: Scaling, threshold: float) -> float:
    """Return the lowest score of an object whose relation can reach the threshold of relations.

    The score of a relation is at most that of its object, mapped. A threshold of objects below this changes nothing.
    """
    highest = max(whole.offsets.values(), default=0.0)
    lowest = sigmoid((logit(np.array([threshold])) - highest) * whole.temperature)[0]
    return math.floor(1e4 * float(lowest)) / 1e4


def find_related_threshold(model: Model, share: float) -> float:
    """Return the threshold of entities with a relation, no lower than ``FLOOR`` before the temperature."""
    temperatures, entity = model.settings.temperatures, model.settings.thresholds.entity
    lowest = _lowest(Scaling(temperatures.entity, temperatures.entity_offsets))
    return min(entity, _round(max(share * entity, lowest)))


def _lowest(scaling: Scaling) -> float:
    """Return the highest score over all labels of a candidate that has ``FLOOR`` before the map."""
    labels = list(scaling.offsets) or [""]
    return float(scaling.apply(np.full(len(labels), FLOOR), labels).max())


def find_threshold(probabilities: Floats, n_gold: int) -> float:
    """Return the threshold with the highest expected F1, which is half of that F1.

    The expected number of correct predictions is the sum of their probabilities. Adding a prediction raises F1 exactly
    if its probability is above half of F1.

    Args:
        probabilities: Calibrated scores of all candidates, (n,) with n > 0.
        n_gold: Number of gold items, including those that are no candidates.
    """
    descending = np.sort(probabilities)[::-1]
    f1 = 2 * descending.cumsum() / (np.arange(1, len(descending) + 1) + n_gold)
    return _round(float(f1.max()) / 2)


def _round(value: float) -> float:
    """Round to four significant digits. Four decimals would round the thresholds of low temperatures to 0."""
    return float(f"{value:.4g}")


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


def _smooth(values: Floats) -> Floats:
    """Average each value with one neighbour on each side, since a single peak is partly luck. Shapes: (n,) to (n,)."""
    result: Floats = np.convolve(np.pad(values, 1, mode="edge"), np.ones(3) / 3, mode="valid")
    return result


def _with_settings(model: Model, thresholds: Thresholds, temperatures: Temperatures) -> Model:
    return replace(model, settings=replace(model.settings, thresholds=thresholds, temperatures=temperatures))


def choose_overlaps(model: Model, examples: Sequence[Example]) -> str:
    """Choose "flat", "nested" or "all" for a model.

    It is "flat" if no gold entities share words. Otherwise it is the simplest whose NER F1 plus strict relation F1 is
    within ``OVERLAPS_SLACK`` of the best. With fewer than ``MIN_ENTITIES`` gold entities, it is that of the model.
    """
    gold = [example.sentence for example in examples]
    if sum(len(sentence.entities) for sentence in gold) < MIN_ENTITIES:
        return model.overlaps
    if not any(have_overlaps(sentence.entities) for sentence in gold):
        return OVERLAPS[0]
    reached = {overlaps: sum_f1(with_overlaps(model, overlaps), examples) for overlaps in OVERLAPS}
    enough = max(reached.values()) - OVERLAPS_SLACK
    return next(overlaps for overlaps in OVERLAPS if reached[overlaps] >= enough)


def with_overlaps(model: Model, overlaps: str) -> Model:
    """Return the model with another stored treatment of overlaps."""
    return replace(model, settings=replace(model.settings, overlaps=overlaps))


def choose_constraints(model: Model, examples: Sequence[Example]) -> Model:
    """Switch constraints on unless they lower NER F1 plus strict relation F1.

    The model is returned unchanged if it has no constraints, or if there are fewer than ``MIN_RELATIONS`` relations.
    """
    n_relations = sum(len(set(example.sentence.triples)) for example in examples)
    if n_relations < MIN_RELATIONS or not (model.schema.constraints or model.schema.symmetric):
        return model
    off, on = (replace(model, settings=replace(model.settings, constraints=choice)) for choice in ("off", "on"))
    return on if sum_f1(on, examples) >= sum_f1(off, examples) else off
