"""Import a command when it is used.

Typer builds a validator for each option, and building all commands takes longer than extracting from a sentence.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group

from cascade_srn.cli.examples import add_examples

# Commands that are in the module of another one.
_MODULES = {"models": "info"}


class LazyCommands(UserDict[str, Any]):
    """Commands and groups by name, in the order of the help.

    The module ``cascade_srn.cli.NAME`` has a function of that name, or the group as ``app``.

    Args:
        panels: Name of each command, and its panel in the help.
    """

    def __init__(self, panels: Mapping[str, str]) -> None:
        super().__init__(dict.fromkeys(panels))
        self._panels = panels

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _load(name, self._panels[name])
        return self.data[name]


def _load(name: str, panel: str) -> Any:
    """Import and build a command or group."""
    module = import_module(f"cascade_srn.cli.{_MODULES.get(name, name)}")
    parent = typer.Typer()
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=name, rich_help_panel=panel)
    else:
        parent.command(rich_help_panel=panel)(getattr(module, name))
    add_examples(parent)
    return get_group(parent).commands[name]
