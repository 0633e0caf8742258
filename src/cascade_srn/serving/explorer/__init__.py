"""Page to explore a graph in a browser; see ``docs/explorer.md``.

``create_explorer`` and ``serve_graph`` are imported on first use, because they need the extra ``serve``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascade_srn.serving.explorer.app import create_explorer, serve_graph

__all__ = ["create_explorer", "serve_graph"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.app"), name)
