"""Choose the treatment of entities that share words on development sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cascade_srn.config import OVERLAPS
from cascade_srn.evaluation.calibration.choose import sum_f1
from cascade_srn.inference.decode import have_overlaps
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example

# Loss in F1, of NER and strict relations together, that is accepted for a simpler result.
OVERLAPS_SLACK = 0.002
# With fewer gold entities, the choice of the model is kept: in SciERC, two of a hundred share a word with another.
MIN_ENTITIES = 50


def choose_overlaps(model: Model, examples: Sequence[Example]) -> str:
    """Choose "flat", "nested" or "all" for a model.

    It is "flat" if no gold entities share words. Otherwise it is the simplest whose NER F1 plus strict relation F1 is
    within ``OVERLAPS_SLACK`` of the best. With fewer than ``MIN_ENTITIES`` gold entities, it is that of the model.

    Args:
        model: A model with its thresholds.
        examples: Annotated sentences that the model was not trained on.
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
