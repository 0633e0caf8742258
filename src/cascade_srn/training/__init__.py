"""Learning from annotated documents."""

from cascade_srn.training.loop import Progress, TrainingSettings, train

__all__ = ["Progress", "TrainingSettings", "train"]
