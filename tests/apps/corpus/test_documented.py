"""The page on corpora: its tables of columns, its options, and its examples."""

import re
from pathlib import Path

import pytest
from tests.apps.corpus.jobs import run_here, save_model, texts, write_lines
from typer.main import get_command

from cascade_srn.apps.corpus.tables import TABLE_VERSION, TABLES, table_schema
from cascade_srn.cli import app

PAGE = (Path(__file__).parents[3] / "docs" / "corpus.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small finished job in ``out``. Its relations are called USED-FOR."""
    folder = tmp_path_factory.mktemp("documented")
    source = write_lines(folder / "in.jsonl", [*texts(12), {"id": "bad", "text": None}])
    run_here(source, folder / "out", save_model(folder / "model"))
    return folder


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_documented(table):
    section = re.search(rf"^`{table}`: one row.*?\n\n(?=\S*`|`--format)", PAGE + "\n\n`", re.DOTALL | re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    types = {name: kind for names, kind, _ in rows for name in re.findall(r"`(\w+)`", names)}
    schema = table_schema(table)
    assert set(types) == set(schema.names)
    arrow = {"float32": "float", "list of structs": str(schema.field("sentences").type) if table == "documents" else ""}
    for name, kind in types.items():
        # The columns that name the document are described once.
        assert arrow.get(kind, kind) == str(schema.field(name).type) or (not kind and table != "documents")
    assert f"version, {TABLE_VERSION}," in PAGE


def test_every_option_exists():
    corpus = get_command(app).commands["corpus"].commands
    known = {name for command in corpus.values() for param in command.params for name in param.opts}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - {"--cpus-per-task", "--time", "--requeue"}
    assert shown <= known
    assert len(shown) > 15


@pytest.mark.parametrize("query", blocks("sql"))
def test_queries(place, monkeypatch, query):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(place)
    ((label,),) = duckdb.sql("SELECT any_value(label) FROM 'out/relations/*.parquet'").fetchall()
    rows = duckdb.sql(query.replace("USED-FOR", label).replace("> 0.7", "> 0")).fetchall()
    assert rows
    if "AS sentence" in query:
        assert all(head in sentence and tail in sentence for _, head, _, tail, sentence in rows)


def test_pandas(place, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(place)
    (code,) = [block for block in blocks("python") if "pandas" in block]
    exec(code, {})
    assert "label" in capsys.readouterr().out


@pytest.mark.slow
def test_polars(place, monkeypatch, capsys):
    pytest.importorskip("polars")
    monkeypatch.chdir(place)
    (code,) = [block for block in blocks("python") if "polars" in block]
    exec(code, {})
    assert "label" in capsys.readouterr().out
