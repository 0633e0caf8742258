"""Choose all settings of a model that depend on development sentences, one step after the other."""

from collections.abc import Sequence

from cascade_srn.evaluation.calibration.choose import choose_thresholds
from cascade_srn.evaluation.calibration.constraints import choose_constraints
from cascade_srn.evaluation.calibration.overlaps import choose_overlaps, with_overlaps
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example


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

    Returns:
        The model with the same network and other settings.
    """
    chosen = choose_thresholds(with_overlaps(model, "all"), examples, by_label=by_label)
    if overlaps is None:
        overlaps = choose_overlaps(with_overlaps(chosen, model.overlaps), examples)
    return choose_constraints(with_overlaps(chosen, overlaps), examples)
