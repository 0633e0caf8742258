"""The tables of a graph as CSV: UTF-8 with a header line, commas, and double quotes as in RFC 4180."""

from pathlib import Path

from cascade_srn.apps.graph.export.filtering import FilteredGraph

_ORDERS = {
    "nodes": "node",
    "edges": "edge",
    "mentions": "document, entity",
    "evidence": "document, relation",
    "documents": "document",
}


def write(graph: FilteredGraph, folder: Path) -> str:
    """Write one file per table. An empty field is a missing value, and ``""`` an empty text."""
    for table, order in _ORDERS.items():
        graph.copy(f"SELECT * FROM {table} ORDER BY {order}", folder / f"{table}.csv", "FORMAT csv, HEADER true")
    return ""
