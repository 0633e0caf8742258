"""Choose on development sentences whether a model applies the constraints of its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cascade_srn.data.examples import Example
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model

# Gain in NER F1 plus strict relation F1 from which constraints are applied. Smaller gains are noise.
MIN_GAIN = 0.002


def choose_constraints(model: Model, examples: Sequence[Example]) -> Model:
    """Return the model with constraints switched on if they gain at least ``MIN_GAIN``, else switched off."""
    off, on = (replace(model, settings=replace(model.settings, constraints=choice)) for choice in ("off", "on"))
    if not (model.schema.constraints or model.schema.symmetric):
        return off
    return on if _sum_f1(on, examples) - _sum_f1(off, examples) >= MIN_GAIN else off


def _sum_f1(model: Model, examples: Sequence[Example]) -> float:
    gold = [example.sentence for example in examples]
    scores = score(gold, model.predictor().predict(examples), schema=model.schema)
    return scores.ner.counts.f1 + scores.re_strict.counts.f1
