"""GraphML and GEXF, read by networkx."""

import re
from xml.etree import ElementTree

import pytest

from cascade_srn.apps.graph.export import export_graph
from cascade_srn.apps.graph.store import open_graph

networkx = pytest.importorskip("networkx")

SCORES = ("best_score", "mean_score")


def cleaned(value):
    """Return a value as XML can represent it."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", value) if isinstance(value, str) else value


def expected(row, *left_out, empty=False):
    """Return the attributes of a row, without missing values."""
    found = {name: round(value, 6) if name in SCORES and value else cleaned(value) for name, value in row.items()}
    return {
        name: value
        for name, value in found.items()
        if name not in left_out and value is not None and (empty or value != "")
    }


def test_graphml(any_graph, tmp_path):
    report = export_graph(any_graph, tmp_path / "graph.graphml")
    assert report.format == "graphml"
    read = networkx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True, edge_key_type=int)
    nodes = any_graph.query("SELECT * FROM nodes")
    assert dict(read.nodes(data=True)) == {row["node"]: expected(row, "node") for row in nodes}
    edges = any_graph.query("SELECT * FROM edges")
    assert {(head, tail, key): values for head, tail, key, values in read.edges(keys=True, data=True)} == {
        (row["head"], row["tail"], row["edge"]): expected(row, "edge", "head", "tail", empty=True) for row in edges
    }
    assert (report.n_nodes, report.n_edges) == (len(nodes), len(edges))


def test_graphml_equals_the_graph_of_to_networkx(sample_graph, tmp_path):
    export_graph(sample_graph, tmp_path / "graph.graphml")
    read = networkx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True, edge_key_type=int)
    with open_graph(sample_graph) as graph:
        made = graph.to_networkx()
    assert dict(read.nodes(data=True)) == dict(made.nodes(data=True))
    assert set(read.edges(keys=True)) == set(made.edges(keys=True))


def test_gexf(any_graph, tmp_path):
    export_graph(any_graph, tmp_path / "graph.gexf")
    read = networkx.read_gexf(tmp_path / "graph.gexf")
    for row in any_graph.query("SELECT * FROM nodes"):
        values = expected(row, "node", "name", "label")
        values |= {"label": cleaned(row["name"]), "type": cleaned(row["label"])}
        assert read.nodes[row["node"]] == values
    found = {values["id"]: (head, tail, values) for head, tail, values in read.edges(data=True)}
    rows = any_graph.query("SELECT * FROM edges")
    assert len(found) == len(rows)
    for row in rows:
        head, tail, values = found[str(row["edge"])]
        assert (head, tail) == (row["head"], row["tail"])
        attributes = expected(row, "edge", "head", "tail", empty=True)
        assert values == attributes | {"id": str(row["edge"]), "weight": float(row["n"])}


@pytest.mark.parametrize("format", ["graphml", "gexf"])
def test_files_are_well_formed_and_the_same_each_time(strange_graph, tmp_path, format):
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        export_graph(strange_graph, path, format)
    ElementTree.parse(first)
    assert first.read_bytes() == second.read_bytes()
