"""GraphML, for networkx, yEd, Gephi, igraph and Cytoscape, and GEXF 1.2, for Gephi and networkx.

Written row by row: ``networkx.write_graphml`` needs several gigabytes for a large graph, unless lxml is installed.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO
from xml.sax.saxutils import escape, quoteattr

from cascade_srn.apps.graph.export.filtering import FilteredGraph
from cascade_srn.apps.graph.tables import table_schema

_TYPES = {"string": "string", "int64": "long", "float": "double", "bool": "boolean"}
# XML 1.0 cannot represent other characters, not even as a reference.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(graph: FilteredGraph, handle: BinaryIO, base_iri: str = "") -> None:
    """Write a directed graph. Columns are attributes of nodes and edges, and empty values are left out."""
    _write(_graphml_lines(graph), handle)


def write_gexf(graph: FilteredGraph, handle: BinaryIO, base_iri: str = "") -> None:
    """Write a directed graph. Empty values are left out.

    The label of a node is its name, and the attribute ``type`` its entity type. The label of an edge is its relation
    type, and its weight the number of relations.
    """
    _write(_gexf_lines(graph), handle)


def _write(lines: Iterable[str], handle: BinaryIO) -> None:
    handle.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    for line in lines:
        handle.write(f"{line}\n".encode())


def _graphml_lines(graph: FilteredGraph) -> Iterator[str]:
    yield (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
        'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">'
    )
    nodes, edges = _columns("nodes", ("node",)), _columns("edges", ("edge", "head", "tail"))
    for kind, columns in (("node", nodes), ("edge", edges)):
        for number, (name, of_type) in enumerate(columns.items()):
            yield f'<key id="{kind[0]}{number}" for="{kind}" attr.name="{name}" attr.type="{of_type}"/>'
    yield '<graph edgedefault="directed">'
    for (node,), values in _rows(graph, "nodes", ("node",), nodes):
        yield f"<node id={_to_attribute(node)}>{_data('n', values)}</node>"
    for (edge, head, tail), values in _rows(graph, "edges", ("edge", "head", "tail"), edges):
        ends = f"source={_to_attribute(head)} target={_to_attribute(tail)}"
        yield f'<edge id="{edge}" {ends}>{_data("e", values)}</edge>'
    yield "</graph>"
    yield "</graphml>"


def _gexf_lines(graph: FilteredGraph) -> Iterator[str]:
    yield '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">'
    yield '<graph defaultedgetype="directed" mode="static">'
    nodes, edges = _columns("nodes", ("node", "name")), _columns("edges", ("edge", "head", "tail", "label"))
    for kind, columns in (("node", nodes), ("edge", edges)):
        yield f'<attributes class="{kind}" mode="static">'
        for number, (name, of_type) in enumerate(columns.items()):
            yield f'<attribute id="{number}" title="{"type" if name == "label" else name}" type="{of_type}"/>'
        yield "</attributes>"
    yield "<nodes>"
    for (node, name), values in _rows(graph, "nodes", ("node", "name"), nodes):
        yield f"<node id={_to_attribute(node)} label={_to_attribute(name)}>{_attvalues(values)}</node>"
    yield "</nodes>"
    yield "<edges>"
    for (edge, head, tail, label), values in _rows(graph, "edges", ("edge", "head", "tail", "label"), edges):
        ends = f"source={_to_attribute(head)} target={_to_attribute(tail)} label={_to_attribute(label)}"
        yield f'<edge id="{edge}" {ends} weight="{values[list(edges).index("n")]}">{_attvalues(values)}</edge>'
    yield "</edges>"
    yield "</graph>"
    yield "</gexf>"


def _columns(table: str, left_out: tuple[str, ...]) -> dict[str, str]:
    return {column.name: _TYPES[str(column.type)] for column in table_schema(table) if column.name not in left_out}


def _rows(
    graph: FilteredGraph, table: str, ids: tuple[str, ...], columns: Iterable[str]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield the values of the ids and of the other columns of a table, in the order of the first id."""
    names = ", ".join(f'"{name}"' for name in (*ids, *columns))
    for row in graph.rows(f"SELECT {names} FROM {table} ORDER BY {ids[0]}"):
        yield row[: len(ids)], row[len(ids) :]


def _data(prefix: str, values: Iterable[object]) -> str:
    return "".join(
        f'<data key="{prefix}{number}">{_to_text(value)}</data>'
        for number, value in enumerate(values)
        if value is not None
    )


def _attvalues(values: Iterable[object]) -> str:
    found = "".join(
        f'<attvalue for="{number}" value={_to_attribute(value)}/>'
        for number, value in enumerate(values)
        if value is not None
    )
    return f"<attvalues>{found}</attvalues>"


def _to_text(value: object) -> str:
    """Return a value as the text of an XML element. Characters that XML cannot represent are removed."""
    # A parser would read a carriage return as a line feed.
    return escape(_plain(value), {"\r": "&#13;"})


def _to_attribute(value: object) -> str:
    return quoteattr(_plain(value))


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _INVALID.sub("", str(value))
