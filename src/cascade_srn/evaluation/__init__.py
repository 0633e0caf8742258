"""Score and analyse predictions.

This package imports the standard library only. Import comparisons of models from
:mod:`~cascade_srn.evaluation.comparison` (numpy), and :func:`~cascade_srn.evaluation.evaluate.evaluate`, which runs
models, from :mod:`~cascade_srn.evaluation.evaluate` (torch).
"""

from cascade_srn.evaluation.analysis import Analysis, SentenceAnalysis, analyse
from cascade_srn.evaluation.errors import count_false_positives
from cascade_srn.evaluation.from_text import Segmentation, align_by_characters, measure_segmentation, rebuild_text
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES
from cascade_srn.evaluation.scores import (
    TASKS,
    Counts,
    Scores,
    Spread,
    TaskScores,
    score,
    score_documents,
)

__all__ = [
    "SYMMETRIC_POLICIES",
    "TASKS",
    "Analysis",
    "Counts",
    "Scores",
    "Segmentation",
    "SentenceAnalysis",
    "Spread",
    "TaskScores",
    "align_by_characters",
    "analyse",
    "count_false_positives",
    "measure_segmentation",
    "rebuild_text",
    "score",
    "score_documents",
]
