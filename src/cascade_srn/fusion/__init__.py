"""Fusion: passes the entities and the current subject on to the later turns (docs/adr/0001)."""

from cascade_srn.fusion.markers import Markers
from cascade_srn.fusion.span import SubjectSpan
from cascade_srn.fusion.tags import EntityTags, Queries, SubjectTag

__all__ = ["EntityTags", "Markers", "Queries", "SubjectSpan", "SubjectTag"]
