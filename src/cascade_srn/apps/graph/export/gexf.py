"""GEXF 1.2, for Gephi and networkx. Written row by row, as GraphML."""

from collections.abc import Iterator
from typing import BinaryIO

from cascade_srn.apps.graph.export.filtering import FilteredGraph, name_columns
from cascade_srn.apps.graph.export.xml_text import to_attribute
from cascade_srn.apps.graph.tables import table_schema

_TYPES = {"string": "string", "int64": "long", "float": "double", "bool": "boolean"}


def write(graph: FilteredGraph, handle: BinaryIO, base_iri: str = "") -> None:
    """Write a directed graph. Empty values are left out.

    The label of a node is its name, and the attribute ``type`` its entity type. The label of an edge is its relation
    type, and its weight the number of relations.
    """
    for line in _lines(graph):
        handle.write(f"{line}\n".encode())


def _lines(graph: FilteredGraph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">'
    yield '<graph defaultedgetype="directed" mode="static">'
    nodes = _columns("nodes", ("node", "name"))
    edges = _columns("edges", ("edge", "head", "tail", "label"))
    for kind, columns in (("node", nodes), ("edge", edges)):
        yield f'<attributes class="{kind}" mode="static">'
        for number, (name, of_type) in enumerate(columns.items()):
            title = "type" if name == "label" else name
            yield f'<attribute id="{number}" title="{title}" type="{of_type}"/>'
        yield "</attributes>"
    yield "<nodes>"
    for node, name, *values in graph.rows(f"SELECT node, name, {name_columns(nodes)} FROM nodes ORDER BY node"):
        yield f"<node id={to_attribute(node)} label={to_attribute(name)}>{_values(values)}</node>"
    yield "</nodes>"
    yield "<edges>"
    for edge, head, tail, label, *values in graph.rows(
        f"SELECT edge, head, tail, label, {name_columns(edges)} FROM edges ORDER BY edge"
    ):
        ends = f"source={to_attribute(head)} target={to_attribute(tail)}"
        weight = values[list(edges).index("n")]
        yield (f'<edge id="{edge}" {ends} label={to_attribute(label)} weight="{weight}">{_values(values)}</edge>')
    yield "</edges>"
    yield "</graph>"
    yield "</gexf>"


def _columns(table: str, left_out: tuple[str, ...]) -> dict[str, str]:
    return {column.name: _TYPES[str(column.type)] for column in table_schema(table) if column.name not in left_out}


def _values(values: list[object]) -> str:
    found = "".join(
        f'<attvalue for="{number}" value={to_attribute(value)}/>'
        for number, value in enumerate(values)
        if value is not None
    )
    return f"<attvalues>{found}</attvalues>"
