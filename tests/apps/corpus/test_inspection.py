"""The status of a job."""

import json
import os

import pytest
from tests.apps.corpus.jobs import run_here, save_model, texts, write_lines
from tests.formats.other_processes import held_elsewhere

from cascade_srn.apps.corpus import inspection
from cascade_srn.apps.corpus.inspection import status
from cascade_srn.errors import CascadeError, DataError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("status") / "model")


@pytest.fixture
def source(tmp_path):
    """Twelve documents in three shards. Three of the second shard cannot be used, two of them for the same reason."""
    records = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts(12))]
    records[4]["text"] = records[5]["text"] = None
    del records[6]["text"]
    return write_lines(tmp_path / "in.jsonl", records)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_finished_job(source, model, tmp_path, format):
    job, _ = run_here(source, tmp_path / "out", model, format=format)
    report = status(tmp_path / "out")
    assert (report.state, report.holder) == ("finished", "")
    assert (report.n_shards_done, report.n_shards) == (3, 3)
    assert (report.n_rows_done, report.n_rows, report.n_errors) == (12, 12, 3)
    assert (report.n_words, report.n_sentences) == (job.n_words, job.n_sentences)
    assert [number for _, number in report.reasons] == [2, 1]
    assert report.seconds_left == 0
    assert json.loads(json.dumps(report.to_dict()))["state"] == "finished"


def test_a_job_that_stopped_after_two_shards(source, model, tmp_path):
    seen = []

    def before(shard):
        seen.append(shard)
        if len(seen) == 3:
            raise CascadeError("the disk is full")

    with pytest.raises(CascadeError):
        run_here(source, tmp_path / "out", model, before=before)
    stopped = status(tmp_path / "out")
    assert (stopped.state, stopped.n_shards_done, stopped.n_rows_done) == ("stopped", 2, 8)
    assert stopped.documents_per_second > 0
    assert stopped.seconds_left == pytest.approx(4 / stopped.documents_per_second)
    with held_elsewhere(tmp_path / "out") as other:
        running = status(tmp_path / "out")
    assert running.state == "running"
    assert f"pid {other.pid} " in running.holder


def test_a_running_task_of_an_array(source, model, tmp_path):
    run_here(source, tmp_path / "out", model, array=(0, 2))
    assert status(tmp_path / "out").state == "stopped"
    with held_elsewhere(tmp_path / "out" / ".array-1-of-2-.tmp") as other:
        report = status(tmp_path / "out")
    assert report.state == "running"
    assert f"pid {other.pid} " in report.holder


def test_errors_that_cannot_be_read(source, model, tmp_path):
    run_here(source, tmp_path / "out", model)
    for path in (tmp_path / "out" / "errors").iterdir():
        path.write_bytes(b"x")
    report = status(tmp_path / "out")
    assert report.n_errors == 3
    assert len(report.reasons) == 1


def test_no_job(tmp_path):
    with pytest.raises(DataError):
        status(tmp_path)


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        ([], None),
        ([(100.0, 0.0, 5)], None),
        ([(100.0, 10.0, 50)], 5.0),
        # Two workers at the same time.
        ([(100.0, 10.0, 50), (100.0, 10.0, 50), (110.0, 10.0, 50), (110.0, 10.0, 50)], 10.0),
        # The job was resumed after a day.
        ([(100.0, 10.0, 50), (90000.0, 20.0, 50), (90020.0, 20.0, 50)], 2.5),
    ],
)
def test_rates(times, rate):
    assert inspection._rate(times) == rate


def test_records_of_the_future_do_not_matter(source, model, tmp_path):
    run_here(source, tmp_path / "out", model)
    for path in (tmp_path / "out" / "shards").iterdir():
        os.utime(path, (2**32, 2**32))
    assert status(tmp_path / "out").state == "finished"


def test_the_number_of_reasons_is_bounded(source, model, tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "_MAX_REASONS", 1)
    run_here(source, tmp_path / "out", model)
    assert len(status(tmp_path / "out").reasons) == 1
