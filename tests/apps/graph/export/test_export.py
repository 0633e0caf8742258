"""The choice of nodes and edges, the output, and the tables as CSV."""

import csv
import os

import pytest
from tests.cli.conftest import run

from cascade_srn.apps.graph.export import FORMATS, ExportFilter, export_graph
from cascade_srn.apps.graph.export.filtering import FilteredGraph
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.cli.graph import EXPORT_FORMATS as IN_HELP
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.formats.table import escape_cell

duckdb = pytest.importorskip("duckdb")

FILES = [name for name, format in FORMATS.items() if format.suffix and name in ("graphml", "gexf")]
FOLDERS = [name for name, format in FORMATS.items() if not format.suffix]


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def as_text(value):
    if isinstance(value, str):
        return escape_cell(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_csv_has_the_rows_of_the_tables(any_graph, tmp_path):
    export_graph(any_graph, tmp_path / "tables", "csv")
    names = {row["node"]: row["name"] for row in any_graph.query("SELECT node, name FROM nodes")}
    for table in ("nodes", "edges", "mentions", "evidence", "documents"):
        rows = any_graph.query(f"SELECT * FROM {table}")
        for row in rows:
            if table == "edges":
                row |= {f"{end}_name": names[row[end]] for end in ("head", "tail")}
            row |= {name: round(value, 6) for name, value in row.items() if isinstance(value, float)}
        texts = [{name: as_text(value) for name, value in row.items()} for row in rows]
        found = read_csv(tmp_path / "tables" / f"{table}.csv")
        assert sorted(found, key=str) == sorted(texts, key=str)


def test_spreadsheets_run_no_text_of_the_tables(strange_graph, tmp_path):
    export_graph(strange_graph, tmp_path / "tables", "csv")
    names = {row["node"]: row["name"] for row in read_csv(tmp_path / "tables" / "nodes.csv")}
    assert (names["csv"], names["quoted"], names["minus"]) == ("'=cmd|' /C calc'!A0", "''@SUM(1)", "-0.5")
    export_graph(strange_graph, tmp_path / "neo4j", "neo4j-csv")
    assert "'=cmd" not in (tmp_path / "neo4j" / "entities.csv").read_text(encoding="utf-8")


def test_duckdb_reads_the_csv_and_tells_missing_from_empty(any_graph, tmp_path):
    export_graph(any_graph, tmp_path / "tables", "csv")
    path = str(tmp_path / "tables" / "edges.csv")
    found = duckdb.connect().execute(
        "SELECT edge, flag, first_date FROM read_csv(?, all_varchar = true, quote = '\"', allow_quoted_nulls = false)",
        [path],
    )
    rows = any_graph.query("SELECT edge, flag, first_date FROM edges ORDER BY edge")
    assert found.fetchall() == [(str(row["edge"]), row["flag"], row["first_date"]) for row in rows]


def counts(folder, **options):
    with open_graph(folder) as graph, FilteredGraph(graph, ExportFilter(**options)) as filtered:
        tables = ("nodes", "edges", "mentions", "evidence", "documents")
        return tuple(filtered.value(f"SELECT count(*) FROM {table}") for table in tables)


def test_filters(sample_graph):
    assert counts(sample_graph) == (5, 6, 12, 6, 3)
    assert counts(sample_graph, min_score=0.9) == (2, 1, 6, 1, 3)
    assert counts(sample_graph, min_score=0.91) == (0, 0, 0, 0, 0)
    assert counts(sample_graph, min_count=2) == (0, 0, 0, 0, 0)
    assert counts(sample_graph, labels=("Task",)) == (1, 0, 3, 0, 2)
    assert counts(sample_graph, labels=("Method",), relations=("PART-OF",)) == (2, 2, 6, 2, 3)
    assert counts(sample_graph, relations=("COMPARE", "USED-FOR")) == (5, 4, 12, 4, 3)


def test_an_edge_without_scores_passes_a_minimum(strange_graph):
    assert counts(strange_graph, min_score=0.9)[1] == counts(strange_graph)[1]
    assert counts(strange_graph, min_count=2)[1] < counts(strange_graph)[1]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"labels": ("method",)}, "labels"),
        ({"relations": ("PART",)}, "relations"),
        ({"min_score": 1.1}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"min_count": 0}, "min_count"),
    ],
)
def test_bad_filters_name_the_option(sample_graph, options, option):
    with pytest.raises(CascadeError) as caught:
        counts(sample_graph, **options)
    assert caught.value.option == option
    assert caught.value.hint


@pytest.mark.parametrize("format", FILES)
def test_files_are_replaced_only_on_request(sample_graph, strange_graph, tmp_path, format):
    path = tmp_path / "out"
    export_graph(sample_graph, path, format)
    before = path.read_bytes()
    with pytest.raises(DataError) as caught:
        export_graph(strange_graph, path, format)
    assert caught.value.option == "overwrite"
    assert path.read_bytes() == before
    export_graph(strange_graph, path, format, overwrite=True)
    assert path.read_bytes() != before
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("format", FOLDERS)
def test_folders_are_replaced_only_on_request(sample_graph, tmp_path, format):
    path = tmp_path / "out"
    path.mkdir()
    export_graph(sample_graph, path, format)
    with pytest.raises(DataError) as caught:
        export_graph(sample_graph, path, format)
    assert caught.value.option == "overwrite"
    export_graph(sample_graph, path, format, overwrite=True, chosen=ExportFilter(labels=("Task",)))
    assert os.listdir(tmp_path) == ["out"]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    for target in (other, other / "thesis.txt"):
        with pytest.raises(DataError):
            export_graph(sample_graph, target, format, overwrite=True)
    assert (other / "thesis.txt").read_text() == "x"


@pytest.mark.parametrize("format", ["graphml", "csv"])
def test_a_failure_leaves_the_old_output(sample_graph, tmp_path, format, monkeypatch):
    path = tmp_path / "out"
    export_graph(sample_graph, path, format)
    members = sorted(path.iterdir()) if path.is_dir() else [path]
    before = [member.read_bytes() for member in members]

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FilteredGraph, "rows" if format == "graphml" else "copy", fail)
    monkeypatch.setattr(FilteredGraph, "value", lambda *_: 0)
    with pytest.raises(OSError, match="space"):
        export_graph(sample_graph, path, format, overwrite=True)
    assert [member.read_bytes() for member in members] == before
    assert os.listdir(tmp_path) == ["out"]


def test_the_format_follows_from_the_suffix(sample_graph, tmp_path):
    assert export_graph(sample_graph, tmp_path / "g.GraphML").format == "graphml"
    for name, format in FORMATS.items():
        assert name in IN_HELP
        if format.suffix:
            assert [other.suffix for other in FORMATS.values()].count(format.suffix) == 1
    with pytest.raises(DataError) as caught:
        export_graph(sample_graph, tmp_path / "folder")
    assert caught.value.option == "format"
    with pytest.raises(ConfigError):
        export_graph(sample_graph, tmp_path / "folder", "graphmll")


def test_bad_paths(sample_graph, tmp_path):
    with pytest.raises(DataError):
        export_graph(sample_graph, tmp_path, "graphml")
    with pytest.raises(DataError):
        export_graph(sample_graph, tmp_path / "missing" / "g.graphml")
    with pytest.raises(DataError):
        export_graph(tmp_path, tmp_path / "g.graphml")


def test_the_command_writes_and_reports(sample_graph, tmp_path, capsys):
    path = tmp_path / "g.graphml"
    assert run("graph", "export", sample_graph, "--output", path, "--labels", "Method, Task") == 0
    assert "5 nodes and 6 edges" in capsys.readouterr().err
    assert run("graph", "export", sample_graph, "--output", path) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run("graph", "export", sample_graph, "--output", path, "--overwrite", "--min-score", "0.7") == 0
    assert "3 edges" in capsys.readouterr().err
    assert run("graph", "export", sample_graph, "--output", path, "--overwrite", "--labels", "Tusk") == 2
    assert "--labels" in capsys.readouterr().err


def test_the_command_prints_how_to_import(sample_graph, tmp_path, capsys):
    arguments = ("--output", tmp_path / "n", "--format", "neo4j-csv")
    assert run("graph", "export", sample_graph, *arguments) == 0
    assert capsys.readouterr().out.startswith("neo4j-admin database import full")
