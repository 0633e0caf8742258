"""Fusion: passes the entities and the current subject on to the later turns (docs/adr/0001).

Names are imported on first use, because markers do not need torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascade_srn.fusion.markers import Markers
    from cascade_srn.fusion.span import SubjectSpan
    from cascade_srn.fusion.tags import EntityTags, Queries, SubjectTag

_MODULES = {"EntityTags": "tags", "Markers": "markers", "Queries": "tags", "SubjectSpan": "span", "SubjectTag": "tags"}

__all__ = ["EntityTags", "Markers", "Queries", "SubjectSpan", "SubjectTag"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
