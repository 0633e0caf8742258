"""GraphML, for networkx, yEd, Gephi, igraph and Cytoscape.

Written row by row: ``networkx.write_graphml`` needs several gigabytes for a large graph, unless lxml is installed.
"""

from collections.abc import Iterator
from typing import BinaryIO

from cascade_srn.apps.graph.export.filtering import FilteredGraph, name_columns
from cascade_srn.apps.graph.export.xml_text import to_attribute, to_text
from cascade_srn.apps.graph.tables import table_schema

_TYPES = {"string": "string", "int64": "long", "float": "double", "bool": "boolean"}


def write(graph: FilteredGraph, handle: BinaryIO, base_iri: str = "") -> None:
    """Write a directed graph. Columns are attributes of nodes and edges, and empty values are left out."""
    for line in _lines(graph):
        handle.write(f"{line}\n".encode())


def _lines(graph: FilteredGraph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
        'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">'
    )
    keys = {"node": _keys("nodes", ("node",)), "edge": _keys("edges", ("edge", "head", "tail"))}
    for kind, columns in keys.items():
        for name, (key, of_type) in columns.items():
            yield f'<key id="{key}" for="{kind}" attr.name="{name}" attr.type="{of_type}"/>'
    yield '<graph edgedefault="directed">'
    for node, *values in graph.rows(f"SELECT node, {name_columns(keys['node'])} FROM nodes ORDER BY node"):
        yield f"<node id={to_attribute(node)}>{_data(keys['node'], values)}</node>"
    for edge, head, tail, *values in graph.rows(
        f"SELECT edge, head, tail, {name_columns(keys['edge'])} FROM edges ORDER BY edge"
    ):
        ends = f"source={to_attribute(head)} target={to_attribute(tail)}"
        yield f'<edge id="{edge}" {ends}>{_data(keys["edge"], values)}</edge>'
    yield "</graph>"
    yield "</graphml>"


def _keys(table: str, left_out: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return the id and the type of the key of each column."""
    columns = [column for column in table_schema(table) if column.name not in left_out]
    return {column.name: (f"{table[0]}{number}", _TYPES[str(column.type)]) for number, column in enumerate(columns)}


def _data(keys: dict[str, tuple[str, str]], values: list[object]) -> str:
    return "".join(
        f'<data key="{key}">{to_text(value)}</data>'
        for (key, _), value in zip(keys.values(), values, strict=True)
        if value is not None
    )
