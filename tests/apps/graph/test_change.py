"""Add, replace and remove documents of a graph."""

import shutil

import pytest
from tests.apps.graph.conftest import write_sample
from tests.apps.graph.documents import DOCUMENTS, document, write_lines
from tests.apps.graph.random_documents import contents, random_changes

from cascade_srn.apps.graph import build, open_graph, remove, update
from cascade_srn.apps.graph.export import FORMATS, export_graph
from cascade_srn.apps.graph.tables import TABLES
from cascade_srn.errors import DataError


@pytest.fixture
def files(tmp_path):
    return {item.id: write_lines([item], tmp_path / f"{item.id}.jsonl", model="a" * 64) for item in DOCUMENTS}


@pytest.fixture
def graph(files, tmp_path):
    build(list(files.values()), tmp_path / "graph")
    return tmp_path / "graph"


def check_sequence(folder, seed, n_changes):
    for changed, rebuilt in random_changes(folder, seed, n_changes):
        assert contents(changed) == contents(rebuilt)
        with open_graph(changed) as one, open_graph(rebuilt) as other:
            for table in (*TABLES, "forms"):
                rows = f"SELECT * FROM {table} ORDER BY ALL"
                assert one.query(rows) == other.query(rows)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_a_changed_graph_equals_one_that_is_built(tmp_path, seed):
    check_sequence(tmp_path, seed, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 210))
def test_two_hundred_sequences_of_changes(tmp_path, seed):
    check_sequence(tmp_path, seed, 5)


@pytest.mark.slow
def test_exports_of_a_changed_graph_equal_those_of_one_that_is_built(graph, files, tmp_path):
    remove(graph, ["2019.a", "d"])
    update(graph, [files["2019.a"]])
    build([files[name] for name in ("2019.a", "2020.b", "2021.c")], tmp_path / "built")
    for format in FORMATS:
        written = []
        for folder in (graph, tmp_path / "built"):
            output = tmp_path / f"{folder.name}-exports" / format
            output.parent.mkdir(exist_ok=True)
            export_graph(folder, output, format)
            members = sorted(output.iterdir()) if output.is_dir() else [output]
            written.append({member.name: member.read_bytes() for member in members})
        assert written[0] == written[1], format


def test_a_document_with_a_known_id_is_replaced(graph, tmp_path):
    new = [document("d", ("An [SVM/M] for [NER/T] .", [(0, "USED-FOR", 1, 0.9)])), document("e", ("A [GAN/M] .", []))]
    report = update(graph, write_lines(new, tmp_path / "new.jsonl", model="a" * 64))
    assert report.changes == {"added": 1, "replaced": 1, "removed": 0}
    with open_graph(graph) as opened:
        assert not opened.search("mapping")
        assert opened.search("SVM")
        names = opened.query("SELECT document_id, input FROM documents ORDER BY document")
    assert [row["document_id"] for row in names] == ["2019.a", "2020.b", "2021.c", "d", "e"]
    assert names[3]["input"] == "new.jsonl"


def test_a_new_name_with_a_known_acronym_goes_to_the_long_one(tmp_path):
    old = [document(name, ("We do [named entity recognition/T] ( [NER/T] ) .", [])) for name in ("a", "b")]
    old.append(document("c", ("A [named entity recognition parser/M] .", [])))
    new = document("d", ("An [NER parser/M] .", []))
    build(write_lines(old, tmp_path / "old.jsonl"), tmp_path / "graph")
    update(tmp_path / "graph", write_lines([new], tmp_path / "new.jsonl"))
    with open_graph(tmp_path / "graph") as opened:
        rows = opened.query("SELECT count(DISTINCT node) AS n FROM mentions WHERE document_id IN ('c', 'd')")
        assert rows == [{"n": 1}]


def test_an_id_of_several_documents_needs_the_file(tmp_path):
    texts = {"a.jsonl": "A [CRF/M] .", "b.jsonl": "An [LSTM/M] .", "c.jsonl": "A [GAN/M] ."}
    paths = {name: write_lines([document("1", (text, []))], tmp_path / name) for name, text in texts.items()}
    build([paths["a.jsonl"], paths["b.jsonl"]], tmp_path / "graph")
    for change in (lambda: remove(tmp_path / "graph", ["1"]), lambda: update(tmp_path / "graph", paths["c.jsonl"])):
        with pytest.raises(DataError, match=r"'1' belongs to 2 documents, of 'a.jsonl', 'b.jsonl'"):
            change()
    write_lines([document("1", ("A [parser/M] .", []))], paths["b.jsonl"])
    assert update(tmp_path / "graph", paths["b.jsonl"]).changes["replaced"] == 1
    assert remove(tmp_path / "graph", ["1"], file="a.jsonl").changes["removed"] == 1
    with open_graph(tmp_path / "graph") as opened:
        assert [node["name"] for node in opened.query("SELECT name FROM nodes")] == ["parser"]


def test_all_documents_of_a_file_are_removed(graph):
    assert remove(graph, file="2020.b.jsonl").changes["removed"] == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda graph, files: remove(graph, ["x", "y"]), "no document 'x', 'y'"),
        (lambda graph, files: remove(graph), "nothing to remove"),
        (lambda graph, files: remove(graph, file="x"), "no document is from the file 'x'"),
        (lambda graph, files: remove(graph, list(files)), "no document would be left"),
        (lambda graph, files: remove(graph / "missing", ["x"]), "cannot be read"),
        (lambda graph, files: update(graph, graph), "no results of extraction"),
    ],
)
def test_mistakes_leave_the_graph_as_it_is(graph, files, change, problem):
    before = contents(graph)
    with pytest.raises(DataError, match=problem):
        change(graph, files)
    assert contents(graph) == before
    assert not [path for path in graph.parent.iterdir() if path.name.startswith(".")]


def test_documents_of_another_model_are_refused(graph, tmp_path):
    new = write_lines([document("e", ("A [GAN/M] .", []))], tmp_path / "new.jsonl", model="b" * 64)
    with pytest.raises(DataError, match="model bbbbbbbbbbbb, but those of the graph with aaaaaaaaaaaa"):
        update(graph, new)


def test_a_graph_without_sources_cannot_be_changed(tmp_path):
    with pytest.raises(DataError, match="has no sources"):
        remove(write_sample(tmp_path / "graph"), ["c"])


def test_files_of_the_settings_are_read_again(files, tmp_path, monkeypatch):
    from cascade_srn.apps.graph import GraphSettings

    monkeypatch.chdir(tmp_path)
    aliases = tmp_path / "aliases.csv"
    aliases.write_text("canonical,alias\nnetwork,LSTM\n")
    build(list(files.values()), "graph", GraphSettings(aliases="aliases.csv"))
    aliases.write_text("canonical,alias\nrecurrent network,LSTM\n")
    monkeypatch.chdir("/")
    remove(tmp_path / "graph", ["d"])
    with open_graph(tmp_path / "graph") as opened:
        assert opened.search("recurrent network")
    aliases.unlink()
    with pytest.raises(DataError, match=r"aliases.csv, which the graph was built with, does not exist"):
        remove(tmp_path / "graph", ["2019.a"])


def test_a_reader_keeps_the_version_that_it_has_opened(graph):
    with open_graph(graph) as old:
        before = old.query("SELECT * FROM mentions")
        remove(graph, ["d"])
        assert old.query("SELECT * FROM mentions") == before
        with open_graph(graph) as new:
            assert len(new.query("SELECT * FROM mentions")) < len(before)
    shutil.rmtree(graph)


def test_a_damaged_database_is_written_again(graph, files):
    (graph / "graph.duckdb").write_bytes(b"damaged")
    remove(graph, ["d"])
    with open_graph(graph) as opened:
        assert len(opened.query("SELECT * FROM documents")) == len(files) - 1
