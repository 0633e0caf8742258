"""Knowledge graphs: entities and relations of many documents, merged, with their evidence."""

from cascade_srn.apps.graph.build import build
from cascade_srn.apps.graph.change import remove, update
from cascade_srn.apps.graph.settings import GraphReport, GraphSettings
from cascade_srn.apps.graph.store import Graph, open_graph
from cascade_srn.apps.graph.sync import SyncSettings, sync

__all__ = [
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
