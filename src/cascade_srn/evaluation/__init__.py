"""How good predictions are: scores, each under the name of its protocol."""

from cascade_srn.evaluation.scores import (
    SYMMETRIC_POLICIES,
    TASKS,
    Counts,
    Scores,
    TaskScores,
    score,
    score_documents,
)

__all__ = ["SYMMETRIC_POLICIES", "TASKS", "Counts", "Scores", "TaskScores", "score", "score_documents"]
