"""Keep a graph equal to a folder of files."""

import os
import random
import shutil
import signal
import time

import pytest
from tests.apps.corpus.jobs import InProcessEngine, save_model, texts
from tests.apps.graph.documents import DOCUMENTS, write_lines
from tests.apps.graph.random_documents import contents

from cascade_srn.apps.corpus.shards import InputSettings
from cascade_srn.apps.graph import GraphSettings, SyncSettings, build, open_graph, remove, sync
from cascade_srn.apps.graph.tables import TABLES
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.storage import atomic

SMALL = InputSettings(shard_documents=3)
NOTHING = {"added": 0, "replaced": 0, "removed": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    for number, text in enumerate(texts(6)):
        (tmp_path / "texts" / ("sub" if number % 2 else "") / f"{number}.txt").write_text(text)
    for name, found in (("a", texts(2, seed=1)), ("b", texts(2, seed=2))):
        rows = "".join(f"{number},{text}\n" for number, text in enumerate(found))
        (tmp_path / "texts" / f"{name}.csv").write_text(f"id,text\n{rows}")
    return tmp_path / "texts"


def run(graph, folder, model, before=lambda shard: None, **given):
    settings = SyncSettings(str(model), SMALL, engine=InProcessEngine(before), device="cpu", **given)
    return sync(graph, folder, settings)


def rows(graph):
    """Return the rows of a graph. Scores depend a little on the texts that are in the same batch."""
    with open_graph(graph) as opened:
        tables = [
            opened.query(f"SELECT * {'EXCLUDE (votes)' if name == 'nodes' else ''} FROM {name} ORDER BY ALL")
            for name in TABLES
        ]
    return [
        [{k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in table] for table in tables
    ]


def test_a_graph_follows_a_folder(folder, model, tmp_path):
    graph = tmp_path / "graph"
    assert run(graph, folder, model).changes == NOTHING | {"added": 10}
    with open_graph(graph) as opened:
        documents = opened.query("SELECT document_id, shard, input FROM documents ORDER BY document")
    names = [f"{number}.txt" if number % 2 == 0 else f"sub/{number}.txt" for number in range(6)]
    assert {row["input"] for row in documents} == {*names, "a.csv", "b.csv"}
    assert all(row["shard"] == row["input"] for row in documents)
    assert [row["document_id"] for row in documents].count("0") == 2
    before = contents(graph)
    assert run(graph, folder, model).changes == NOTHING
    assert contents(graph) == before
    (folder / "sub" / "1.txt").unlink()
    (folder / "2.txt").write_text("Another text about parsing.")
    (folder / "b.csv").write_text(f"id,text\n1,{texts(1, seed=3)[0]}\n")
    (folder / "sub" / "new.txt").write_text(texts(1, seed=4)[0])
    processed = []
    assert run(graph, folder, model, processed.append).changes == {"added": 1, "replaced": 2, "removed": 2}
    assert sum(shard.n_rows for shard in processed) == 3
    run(tmp_path / "fresh", folder, model)
    assert rows(graph) == rows(tmp_path / "fresh")
    assert sorted(os.listdir(tmp_path)) == ["fresh", "graph", "texts"]


def test_only_documents_that_are_gone_need_no_extraction(folder, model, tmp_path):
    run(tmp_path / "graph", folder, model)
    (folder / "a.csv").unlink()
    processed = []
    assert run(tmp_path / "graph", folder, model, processed.append).changes == NOTHING | {"removed": 2}
    assert not processed


def test_what_was_extracted_before_an_interruption_is_used(folder, model, tmp_path):
    class StopError(Exception):
        pass

    seen = []

    def stop(shard):
        seen.append(shard)
        if len(seen) == 3:
            raise StopError

    with pytest.raises(StopError):
        run(tmp_path / "graph", folder, model, stop)
    assert not (tmp_path / "graph").exists()
    (folder / "0.txt").write_text("This file has changed since.")
    processed = []
    run(tmp_path / "graph", folder, model, processed.append)
    assert sum(shard.n_rows for shard in processed) < 10
    run(tmp_path / "fresh", folder, model)
    assert rows(tmp_path / "graph") == rows(tmp_path / "fresh")
    assert sorted(os.listdir(tmp_path)) == ["fresh", "graph", "texts"]


def test_files_that_cannot_be_processed_are_reported_and_tried_again(folder, model, tmp_path):
    (folder / "lines.jsonl").write_text('{"text": "A parser."}\n{"no": 1}\n')
    report = run(tmp_path / "graph", folder, model)
    assert list(report.failed) == ["lines.jsonl"]
    assert report.counts["documents"] == 11
    assert list(run(tmp_path / "graph", folder, model).failed) == ["lines.jsonl"]


def test_another_model_and_other_settings_are_refused(folder, model, tmp_path):
    graph = tmp_path / "graph"
    run(graph, folder, model)
    before = contents(graph)
    with pytest.raises(ConfigError, match=r"the model has the checksum .*, but .*graph was made with"):
        run(graph, folder, save_model(tmp_path / "other", seed=1))
    with pytest.raises(ConfigError, match=r"min_count is 2, but .*graph was made with 1"):
        sync(graph, folder, SyncSettings(str(model), graph=GraphSettings(min_count=2)))
    with pytest.raises(DataError, match="follows a folder"):
        remove(graph, ["2.txt"])
    with pytest.raises(DataError, match="is not a folder"):
        run(graph, folder / "a.csv", model)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(DataError, match="no file"):
        run(graph, folder, model)
    assert contents(graph) == before


def test_a_graph_of_a_build_does_not_follow_a_folder(folder, model, tmp_path):
    build(write_lines(DOCUMENTS, tmp_path / "a.jsonl"), tmp_path / "graph")
    with pytest.raises(DataError, match="was not made by `graph sync`"):
        run(tmp_path / "graph", folder, model)


@pytest.mark.slow
def test_twenty_kills_lose_nothing(folder, model, tmp_path):
    graph, rng = tmp_path / "graph", random.Random(0)
    run(tmp_path / "first", folder, model)
    shutil.copytree(tmp_path / "first", graph)
    (folder / "2.txt").write_text("Another text about parsing.")
    (folder / "b.csv").unlink()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    run(tmp_path / "second", folder, model)
    old, new = contents(tmp_path / "first"), contents(tmp_path / "second")
    kills, longest = 0, 4.0
    while kills < 20:
        child = os.fork()
        if child == 0:
            run(graph, folder, model)
            os._exit(0)
        time.sleep(rng.uniform(0.05, longest))
        os.kill(child, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        kills += killed
        found = contents(graph)
        assert found in ((old, new) if killed else (new,))
        if found == new:
            shutil.rmtree(graph)
            shutil.copytree(tmp_path / "first", graph)
        if not killed:
            longest *= 0.7
    atomic._clean_once.cache_clear()  # another process cleans up; the children have that of this one
    run(graph, folder, model)
    assert contents(graph) == new
    assert sorted(os.listdir(tmp_path)) == ["first", "graph", "second", "texts"]


def test_a_changed_vocabulary_links_nodes_again(folder, model, tmp_path):
    vocabulary = tmp_path / "vocabulary.csv"
    engine = InProcessEngine(lambda shard: None)
    linked = GraphSettings(vocabulary=str(vocabulary))
    settings = SyncSettings(str(model), SMALL, engine=engine, device="cpu", graph=linked)
    with pytest.raises(DataError, match="does not exist"):
        sync(tmp_path / "graph", folder, settings)
    vocabulary.write_text("id,name\n1,unheard of\n")
    first = sync(tmp_path / "graph", folder, settings)
    assert first.links["unlinked"] == first.counts["nodes"]
    with open_graph(tmp_path / "graph") as opened:
        name = opened.query("SELECT name FROM nodes ORDER BY node")[0]["name"]
    assert run(tmp_path / "graph", folder, model).links == first.links
    vocabulary.write_text(f'id,name\n1,"{name}"\n')
    report = run(tmp_path / "graph", folder, model, lambda shard: pytest.fail("extracted"))
    assert (report.changes, report.links["exact"]) == (NOTHING, 1)
    assert "has changed" in report.notes[0]
