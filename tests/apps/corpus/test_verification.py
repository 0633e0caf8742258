import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.apps.corpus.jobs import run_here, save_model, texts, write_lines
from tests.formats.other_processes import held_elsewhere

from cascade_srn.apps.corpus import verification
from cascade_srn.apps.corpus.progress import status
from cascade_srn.apps.corpus.verification import verify
from cascade_srn.errors import DataError


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Output folders of a job in each format: ten documents and two errors in three shards. One id occurs twice."""
    folder = tmp_path_factory.mktemp("verified")
    records = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts(12))]
    records[3]["text"] = None
    records[9] = {"id": "d9"}
    records[7]["id"] = "d2"
    source, model = write_lines(folder / "in.jsonl", records), save_model(folder / "model")
    for format in ("parquet", "jsonl"):
        run_here(source, folder / format, model, format=format)
    return folder


@pytest.fixture(params=["parquet", "jsonl"])
def output(finished, tmp_path, request):
    """A copy of an output folder that a test may damage."""
    return shutil.copytree(finished / request.param, tmp_path / "out")


@pytest.fixture
def tables(finished, tmp_path):
    """A copy of the output folder with Parquet files."""
    return shutil.copytree(finished / "parquet", tmp_path / "out")


def first(output, table):
    return min((output / table).iterdir())


def write_record(output, table, **changes):
    """Change the record of the first shard, so that it matches the files of a table."""
    path = first(output, "shards")
    record = json.loads(path.read_text(encoding="utf-8"))
    file = first(output, table)
    record["sha256"][f"{table}/{file.name}"] = verification.checksum(file)
    path.write_text(json.dumps(record | changes), encoding="utf-8")


def test_a_finished_job_is_correct(output):
    seen = []
    report = verify(output, lambda *counts: seen.append(counts))
    assert report.is_correct
    assert report.is_complete
    assert (report.n_shards, report.n_rows) == (3, 12)
    assert (report.rows["documents"], report.rows["errors"]) == (10, 2)
    assert (report.n_repeated_ids, report.repeated_ids) == (1, ("d2",))
    assert report.problems == report.notes == ()
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert json.loads(json.dumps(report.to_dict()))["is_correct"]


@pytest.mark.parametrize("table", ["documents", "errors"])
def test_a_changed_file(output, table):
    path = first(output, table)
    path.write_bytes(path.read_bytes() + b"x")
    report = verify(output)
    assert report.is_complete
    assert not report.is_correct
    assert report.n_problems == 1
    assert path.name in report.problems[0]


def test_a_missing_file(output):
    path = first(output, "documents")
    path.unlink()
    report = verify(output)
    assert [path.name in problem for problem in report.problems] == [True]


def test_a_missing_record_leaves_the_job_incomplete(output):
    path = first(output, "shards")
    path.unlink()
    report = verify(output)
    assert report.n_shards_done == 2
    assert not report.is_complete
    # A reader would find rows of a shard that is not finished.
    assert all(path.stem in problem for problem in report.problems if problem.startswith(("documents", "errors")))
    assert report.n_problems


@pytest.mark.parametrize("content", ["", "{", "[]", '{"shard": 1}', {"rows": []}, {"rows": {}}, {"sha256": None}])
def test_a_damaged_record(output, content):
    path = first(output, "shards")
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text(encoding="utf-8")) | content)
    path.write_text(content, encoding="utf-8")
    assert status(output).n_shards_done == 2
    report = verify(output)
    assert any(problem.startswith("shards/") for problem in report.problems)
    assert not report.is_complete


def test_a_record_of_another_shard_reads_no_other_file(output, tmp_path):
    path = first(output, "shards")
    record = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    record["sha256"] = {"../secret": verification.checksum(tmp_path / "secret")}
    path.write_text(json.dumps(record), encoding="utf-8")
    assert any(problem.startswith("shards/") for problem in verify(output).problems)


def test_a_repeated_and_a_lost_row(tables):
    path = first(tables, "documents")
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, len(table) - 1), table.slice(0, 1)]), path)
    write_record(tables, "documents")
    report = verify(tables)
    assert f"rows of the input are missing or repeated in shard {path.stem}" in report.problems


def test_a_file_that_is_no_table(output):
    first(output, "documents").write_text("x\n", encoding="utf-8")
    write_record(output, "documents")
    assert verify(output).n_problems == 1


@pytest.mark.parametrize("table", ["documents", "entities"])
def test_another_number_of_rows_than_in_the_record(tables, table):
    path = first(tables, table)
    pq.write_table(pq.read_table(path).slice(1), path)
    write_record(tables, table)
    assert any(problem.startswith(table) for problem in verify(tables).problems)


@pytest.mark.parametrize("name", ["n_words", "n_sentences"])
def test_other_words_than_in_the_record(tables, name):
    number = json.loads(first(tables, "shards").read_text(encoding="utf-8"))[name]
    write_record(tables, "documents", **{name: number + 1})
    documents, manifest = verify(tables).problems
    assert documents.startswith(f"documents has {number} {name.removeprefix('n_')} of shard")
    assert manifest.startswith("manifest.json has other counts")


def test_fewer_rows_than_the_input(tables):
    path = first(tables, "documents")
    pq.write_table(pq.read_table(path).slice(1), path)
    rows = json.loads(first(tables, "shards").read_text(encoding="utf-8"))["rows"]
    write_record(tables, "documents", rows=rows | {"documents": rows["documents"] - 1})
    # The words, the sentences and the rows of the shard, and the counts of the manifest.
    assert [problem.split()[0] for problem in verify(tables).problems] == [*["documents"] * 2, "shard", "manifest.json"]


def test_other_files(tables):
    shutil.copy(first(tables, "documents"), tables / "documents" / "copy.parquet")
    (tables / "relations" / "notes.txt").touch()
    (tables / "entities" / ".hidden").touch()
    (tables / "README").touch()
    report = verify(tables)
    assert [problem.split()[0] for problem in report.problems] == ["documents/copy.parquet", "relations/notes.txt"]
    assert [note.split()[0] for note in report.notes] == ["README", "entities/.hidden"]


def test_files_of_an_unfinished_shard_are_no_problem_while_the_job_runs(tables):
    path = first(tables, "shards")
    path.unlink()
    with held_elsewhere(tables):
        report = verify(tables)
    assert report.n_problems == 0
    assert len([note for note in report.notes if path.stem in note]) == 4


@pytest.mark.parametrize("content", [None, "{", "[]", '{"version": 99}', '{"version": 1}'])
def test_no_job(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError):
        verify(tmp_path)
