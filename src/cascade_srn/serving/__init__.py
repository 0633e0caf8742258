"""The service: a model behind HTTP, requests of many clients batched together; ``docs/serve.md`` describes it.

Names are imported when they are first used: settings can be made and shown without the libraries of the extra
``serve``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cascade_srn.serving.settings import Limits, ServeSettings

if TYPE_CHECKING:
    from cascade_srn.serving.app import create_app
    from cascade_srn.serving.run import serve

_HOMES = {"create_app": "app", "serve": "run"}

__all__ = ["Limits", "ServeSettings", "create_app", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
