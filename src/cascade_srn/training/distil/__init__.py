"""Distil teachers into a smaller student: label raw text, and train on the labels.

:class:`.labelling.Labelling` writes labels. :class:`.run.Distillation` prepares the training of a student.
Both need torch and are imported from their own modules.
"""

from cascade_srn.training.distil.settings import LabelSettings

__all__ = ["LabelSettings"]
