"""HTTP service that runs a model for many clients; see ``docs/serve.md``.

``create_app`` and ``serve`` are imported on first use, because they need the extra ``serve``. Settings do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cascade_srn.serving.settings import Limits, ServeSettings

if TYPE_CHECKING:
    from cascade_srn.serving.app import create_app
    from cascade_srn.serving.workers import ModelSource, serve

_MODULES = {"create_app": "app", "ModelSource": "workers", "serve": "workers"}

__all__ = ["Limits", "ModelSource", "ServeSettings", "create_app", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
