"""Choose on development sentences whether a model applies the constraints of its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cascade_srn.evaluation.calibration.choose import sum_f1
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example

# With fewer gold relations, a difference in F1 is noise.
MIN_RELATIONS = 100


def choose_constraints(model: Model, examples: Sequence[Example]) -> Model:
    """Switch constraints on if they raise NER F1 plus strict relation F1, else off.

    The model is returned unchanged if it has no constraints, or if there are fewer than ``MIN_RELATIONS`` relations.
    """
    n_relations = sum(len(set(example.sentence.triples)) for example in examples)
    if n_relations < MIN_RELATIONS or not (model.schema.constraints or model.schema.symmetric):
        return model
    off, on = (replace(model, settings=replace(model.settings, constraints=choice)) for choice in ("off", "on"))
    return on if sum_f1(on, examples) > sum_f1(off, examples) else off
