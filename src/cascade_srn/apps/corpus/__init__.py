"""Extraction from large corpora: shards, workers, and tables that survive a crash.

Example:
    >>> from cascade_srn.apps import corpus
    >>> report = corpus.run("abstracts.jsonl.gz", "tables", workers=2, resume=True)  # doctest: +SKIP
    >>> report.rows["documents"], report.rows["errors"]  # doctest: +SKIP
    (57600, 0)
"""

from cascade_srn.apps.corpus.fields import InputSettings
from cascade_srn.apps.corpus.job import JobInterrupted, JobReport, run
from cascade_srn.apps.corpus.local import LocalEngine
from cascade_srn.apps.corpus.progress import JobProgress, StatusReport, status
from cascade_srn.apps.corpus.ray import RayEngine
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.verification import VerifyReport, verify

__all__ = [
    "CorpusSettings",
    "InputSettings",
    "JobInterrupted",
    "JobProgress",
    "JobReport",
    "LocalEngine",
    "RayEngine",
    "StatusReport",
    "VerifyReport",
    "run",
    "status",
    "verify",
]
