"""Knowledge graphs: entities and relations of many documents, merged, with their evidence."""

from cascade_srn.apps.graph.build import build
from cascade_srn.apps.graph.change import remove, update
from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.settings import GraphReport, GraphSettings
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.apps.graph.sync import SyncSettings, sync

__all__ = [
    "Filters",
    "Graph",
    "GraphReport",
    "GraphSettings",
    "SyncSettings",
    "build",
    "open_graph",
    "remove",
    "sync",
    "update",
]
