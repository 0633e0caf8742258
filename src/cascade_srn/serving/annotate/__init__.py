"""Application to annotate texts in a browser; see ``docs/annotate.md``.

``create_annotator`` and ``serve_project`` are imported on first use, because they need the extra ``serve``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascade_srn.serving.annotate.app import create_annotator, serve_project

__all__ = ["create_annotator", "serve_project"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.app"), name)
