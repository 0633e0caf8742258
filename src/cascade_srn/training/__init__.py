"""Training of models on annotated documents."""

from cascade_srn.training.progress import Progress
from cascade_srn.training.run import train
from cascade_srn.training.settings import TrainingSettings

__all__ = ["Progress", "TrainingSettings", "train"]
