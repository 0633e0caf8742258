"""Annotate texts with the help of a model: choose them, store the annotations, learn from them."""

from cascade_srn.apps.annotation.selection import Selected, select
from cascade_srn.apps.annotation.strategies import STRATEGIES
from cascade_srn.apps.annotation.units import UnitSettings

__all__ = ["STRATEGIES", "Selected", "UnitSettings", "select"]
