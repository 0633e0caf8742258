"""Files for ``neo4j-admin database import``.

Neo4j's own importer needs a server, so the headers are compared with the grammar of its manual (Operations Manual,
"Import header format"), and the data with the rules that the importer would check: ids are unique in their space, and
relationships lead to nodes that exist.
"""

import csv
import re
import shlex

import pytest

from cascade_srn.apps.graph.export import export_graph

parquet = pytest.importorskip("pyarrow.parquet")

TYPES = "int|long|float|double|boolean|byte|short|char|string|point|date|localtime|time|localdatetime|datetime|duration"
SPACE = r"\((?P<space>[\w-]+)\)"
FIELD = re.compile(
    rf"(?P<name>[^:]*):(?:(?P<kind>ID|START_ID|END_ID){SPACE}|(?P<plain>LABEL|TYPE)|(?P<type>{TYPES})(?P<array>\[\])?)"
)
PYTHON = {"long": int, "double": float, "string": str, "boolean": {"true": True, "false": False}.__getitem__}


def read_rows(path):
    """Yield rows of CSV. None is a field without content, which Neo4j reads as null; a quoted one is a text."""
    text = path.read_bytes().decode()
    rows, row, at = [], [], 0
    pattern = re.compile(r'("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|\Z)')
    while at < len(text):
        match = pattern.match(text, at)
        assert match, text[at : at + 40]
        field = match[1]
        row.append(field[1:-1].replace('""', '"') if field.startswith('"') else field or None)
        at = match.end()
        if match[2] != ",":
            rows.append(row)
            row = []
    return rows


def read_sources(folder, command):
    """Return ("nodes" or "relationships", fields, rows) for each source of a command."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:5] == ["neo4j-admin", "database", "import", "full", "neo4j"]
    sources = []
    for word in words[5:]:
        option, _, value = word.partition("=")
        if option not in ("--nodes", "--relationships"):
            continue
        header, data = value.split(",")
        with (folder / header).open(encoding="utf-8", newline="") as handle:
            lines = list(csv.reader(handle))
        fields = [FIELD.fullmatch(field) for field in lines[0]]
        assert all(fields), lines[0]
        if data.endswith(".parquet"):
            table = parquet.read_table(folder / data)
            assert lines[1] == table.schema.names
            rows = [list(row.values()) for row in table.to_pylist()]
        else:
            assert len(lines) == 1
            rows = [
                [None if v is None else PYTHON.get(f["type"], str)(v) for f, v in zip(fields, row, strict=True)]
                for row in read_rows(folder / data)
            ]
        sources.append((option[2:], fields, rows))
    return sources


def column(fields, rows, *, kind=None, name=None):
    (at,) = (
        n for n, field in enumerate(fields) if (field["kind"] or field["plain"] or field["name"]) == (kind or name)
    )
    return [row[at] for row in rows]


@pytest.fixture(params=["neo4j-csv", "neo4j-parquet"])
def exported(request, any_graph, tmp_path):
    report = export_graph(any_graph, tmp_path / "out", request.param)
    return any_graph, report, read_sources(tmp_path / "out", report.next_step)


def test_ids_are_unique_and_relationships_lead_to_nodes(exported):
    _, _, sources = exported
    ids = {}
    for kind, fields, rows in sources:
        if kind == "nodes":
            assert sum(field["kind"] == "ID" for field in fields) == 1
            assert all(column(fields, rows, kind="LABEL"))
            (space,) = (field["space"] for field in fields if field["kind"] == "ID")
            found = column(fields, rows, kind="ID")
            assert len(set(found)) == len(found)
            assert None not in found
            ids[space] = set(found)
    for kind, fields, rows in sources:
        if kind == "relationships":
            assert [field["plain"] for field in fields].count("TYPE") == 1
            assert all(column(fields, rows, kind="TYPE"))
            for role in ("START_ID", "END_ID"):
                (space,) = (field["space"] for field in fields if field["kind"] == role)
                assert set(column(fields, rows, kind=role)) <= ids[space]


def test_nodes_and_edges_come_back(exported):
    graph, _, sources = exported
    (_, fields, rows), (_, edge_fields, edge_rows) = sources[0], sources[3]
    nodes = graph.query("SELECT * FROM nodes ORDER BY node")
    for name in ("name", "label", "n_mentions", "n_documents", "degree", "votes", "first_date", "last_date"):
        assert column(fields, rows, name=name) == [row[name] for row in nodes], name
    assert column(fields, rows, kind="ID") == [row["node"] for row in nodes]
    labels = [label.split(";") for label in column(fields, rows, kind="LABEL")]
    assert labels == [["Entity", row["label"].replace(";", ",")] for row in nodes]
    edges = graph.query("SELECT * FROM edges ORDER BY edge")
    for name in ("edge", "n", "n_documents", "first_date", "last_date", "symmetric", "flag"):
        assert column(edge_fields, edge_rows, name=name) == [row[name] for row in edges], name
    for name in ("best_score", "mean_score"):
        expected = [None if row[name] is None else round(row[name], 6) for row in edges]
        assert column(edge_fields, edge_rows, name=name) == expected
    for kind, name in (("START_ID", "head"), ("END_ID", "tail"), ("TYPE", "label")):
        assert column(edge_fields, edge_rows, kind=kind) == [row[name] for row in edges]


def test_evidence_and_mentions_come_back(exported):
    graph, _, sources = exported
    facts, mentions, stated, ends = sources[2], sources[4], sources[5], sources[6]
    evidence = graph.query("SELECT * FROM evidence ORDER BY document, relation")
    for name in (
        "edge",
        "sentence_text",
        "head_text",
        "head_start",
        "tail_text",
        "tail_end",
        "model",
        "version",
        "date",
    ):
        assert column(*facts[1:], name=name) == [row[name] for row in evidence], name
    rows = graph.query("SELECT * FROM mentions ORDER BY document, entity")
    for name in ("text", "start", "end", "label", "step"):
        assert column(*mentions[1:], name=name) == [row[name] for row in rows], name
    assert len(stated[2]) == len(evidence)
    roles = column(*ends[1:], kind="TYPE")
    assert roles == ["HEAD", "TAIL"] * len(evidence)


def test_the_command_allows_fields_of_several_lines_only_where_needed(sample_graph, strange_graph, tmp_path):
    sample = export_graph(sample_graph, tmp_path / "a", "neo4j-csv").next_step
    strange = export_graph(strange_graph, tmp_path / "b", "neo4j-csv").next_step
    in_parquet = export_graph(strange_graph, tmp_path / "c", "neo4j-parquet").next_step
    assert "--multiline-fields=true" in strange
    assert "--multiline-fields" not in sample + in_parquet
    assert "--input-type=parquet" in in_parquet
