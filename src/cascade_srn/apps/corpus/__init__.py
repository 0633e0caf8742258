"""Extraction from large corpora: shards, workers, and tables that survive a crash.

Names are imported on first use, so that a worker loads only what it needs.

Example:
    >>> from cascade_srn.apps import corpus
    >>> report = corpus.run("abstracts.jsonl.gz", "tables", workers=2, resume=True)  # doctest: +SKIP
    >>> report.rows["documents"], report.rows["errors"]  # doctest: +SKIP
    (57600, 0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascade_srn.apps.corpus.inspection import StatusReport, status
    from cascade_srn.apps.corpus.job import JobInterrupted, JobReport, run
    from cascade_srn.apps.corpus.local import LocalEngine
    from cascade_srn.apps.corpus.progress import Progress
    from cascade_srn.apps.corpus.ray import RayEngine
    from cascade_srn.apps.corpus.settings import CorpusSettings
    from cascade_srn.apps.corpus.shards import InputSettings
    from cascade_srn.apps.corpus.verification import VerifyReport, verify

_MODULES = {
    "inspection": ("StatusReport", "status"),
    "job": ("JobInterrupted", "JobReport", "run"),
    "local": ("LocalEngine",),
    "progress": ("Progress",),
    "ray": ("RayEngine",),
    "settings": ("CorpusSettings",),
    "shards": ("InputSettings",),
    "verification": ("VerifyReport", "verify"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "CorpusSettings",
    "InputSettings",
    "JobInterrupted",
    "JobReport",
    "LocalEngine",
    "Progress",
    "RayEngine",
    "StatusReport",
    "VerifyReport",
    "run",
    "status",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # No module has the name of a function, since its import would replace the function.
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
