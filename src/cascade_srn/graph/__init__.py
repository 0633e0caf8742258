"""Knowledge graphs: entities and relations of many documents, merged, with their evidence."""

from cascade_srn.graph.store import Graph, open_graph

__all__ = ["Graph", "open_graph"]
