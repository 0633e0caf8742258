"""Templates of the package; jinja2 is imported here, when the first of them is used."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from cascade_srn.errors import CascadeError

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HERE = "cascade_srn.drawing"


@cache
def environment(*packages: str) -> Environment:
    """Templates of the given packages, then of this one. Everything put into them is escaped unless it is markup."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise CascadeError(
            "jinja2 is not installed, and drawing as HTML needs it; install it by pip install 'cascade-srn[report]'"
        ) from error
    loaders = [PackageLoader(package, "templates") for package in (*packages, HERE)]
    return Environment(loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined)


def read_asset(name: str, package: str = HERE) -> str:
    """A style sheet or a script that lies beside the templates."""
    return files(package).joinpath("templates", name).read_text("utf-8")


def as_markup(text: str) -> Markup:
    """Text that is HTML already, or CSS or a script of ours, and must not be escaped."""
    from markupsafe import Markup

    return Markup(text)
