"""Documents as graphs of networkx."""

from __future__ import annotations

from typing import Any

from cascade_srn.errors import CascadeError
from cascade_srn.types import Document


def to_graph(document: Document) -> Any:
    """The entities of a document as nodes, numbered in their order, and its relations as edges."""
    try:
        from networkx import MultiDiGraph  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise CascadeError(
            "networkx is not installed, and to_networkx() makes a graph of it; install it by "
            "pip install 'cascade-srn[graph]'"
        ) from error
    graph = MultiDiGraph(id=document.id, text=document.text)
    for number, entity in enumerate(document.entities):
        graph.add_node(
            number, text=entity.text, label=entity.label, start=entity.start, end=entity.end, score=entity.score
        )
    numbers = {entity: number for number, entity in enumerate(document.entities)}
    for relation in document.relations:
        graph.add_edge(numbers[relation.head], numbers[relation.tail], label=relation.label, score=relation.score)
    return graph
