"""Progress reports: rates, the time left, and the lines of a display. The status of a job."""

import json
from dataclasses import replace

import pytest
from tests.apps.corpus.jobs import run_here, save_model, texts, write_lines
from tests.formats.other_processes import held_elsewhere

from cascade_srn.apps.corpus import progress
from cascade_srn.apps.corpus.progress import JobProgress, ProgressView, ShardProgress, count_running, status
from cascade_srn.errors import CascadeError


def report(n_shards, seconds, *, n_workers=1, before=0, n_errors=0):
    """Return a report of a job with ten shards of ten documents, of a hundred words each."""
    return JobProgress(
        n_shards=10,
        n_shards_done=n_shards,
        n_documents=100,
        n_documents_done=10 * n_shards,
        n_words=1000 * (n_shards - before),
        n_sentences=50 * (n_shards - before),
        n_errors=n_errors,
        n_workers=n_workers,
        seconds=seconds,
        n_documents_before=10 * before,
    )


def test_the_start_of_the_workers_does_not_count():
    view = ProgressView()
    # Loading takes a hundred seconds, and a shard two.
    for n_shards, seconds in ((0, 0.0), (1, 102.0), (2, 104.0), (3, 106.0)):
        last = report(n_shards, seconds)
        row = view.add(last)
    rates = view.rates(last)
    assert rates.documents_per_second == pytest.approx(5)
    assert rates.words_per_second == pytest.approx(500)
    assert rates.seconds_left == pytest.approx(14)
    assert (row.completed, row.total) == (30, 100)
    assert "14 s left" in row.line


def test_no_time_is_estimated_before_each_worker_has_finished_two_shards():
    view = ProgressView()
    for n_shards, seconds in ((0, 0.0), (1, 100.0), (2, 100.1), (3, 102.0), (4, 102.1)):
        last = report(n_shards, seconds, n_workers=2)
        assert "left" not in view.add(last).line
    assert view.rates(last).documents_per_second == pytest.approx(40 / 102.1)
    assert "left" in view.add(report(5, 104.0, n_workers=2)).line


def test_a_resumed_job_counts_its_own_documents_only():
    view = ProgressView()
    view.add(report(6, 0.0, n_workers=0, before=6))
    view.add(report(7, 10.0, before=6))
    assert view.rates(report(7, 10.0, before=6)).documents_per_second == pytest.approx(1)


def test_a_log_gets_the_first_and_the_last_line():
    view = ProgressView()
    rows = [view.add(report(n, float(n))) for n in (0, 1, 5, 10)]
    assert [row.to_file for row in rows] == [True, False, False, True]
    assert rows[0].line.endswith("starting")
    assert "0 errors  1 worker" in rows[1].line


def test_documents_of_a_running_shard_count():
    view = ProgressView()
    for documents, seconds in ((0, 0.0), (5, 30.0), (15, 40.0), (25, 50.0)):
        last = replace(report(0, seconds), n_documents_done=documents)
        row = view.add(last)
    assert row.completed == 25
    assert view.rates(last).documents_per_second == pytest.approx(1)
    assert "75 s left" in row.line


def test_a_long_document_shows_how_far_it_is():
    view = ProgressView()
    for part, seconds in ((0.0, 0.0), (0.1, 30.0), (0.2, 60.0), (0.3, 90.0)):
        done = replace(report(0, seconds), n_documents=1, n_part=part, n_words=int(1e5 * part))
        row = view.add(done)
    assert row.line.startswith("0 of 1 documents (30%)  ")
    assert "0.2 documents/min  333 words/s  4 min left" in row.line


def test_a_worker_counts_the_rows_of_its_shard(tmp_path, monkeypatch):
    monkeypatch.setattr("cascade_srn.apps.corpus.progress.COUNT_SECONDS", 0.0)
    scratch = tmp_path / ".run-1.tmp"
    scratch.mkdir()
    progress = ShardProgress(scratch, "00000-a")
    assert count_running(tmp_path, {"00000-a"}).n_rows == 0
    progress.begin(8, 400, 20)
    for n_sentences, n_rows in ((5, 2), (10, 4), (20, 8)):
        progress.update(n_sentences)
        assert count_running(tmp_path, {"00000-a"}).n_rows == n_rows
    progress.begin(1, 200, 10)
    progress.update(25)
    count = count_running(tmp_path, {"00000-a", "00001-b"})
    assert (count.n_rows, count.n_words) == (8.5, 500)
    assert count_running(tmp_path, {"00001-b"}).n_rows == 0


# The status of an output folder.


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
    assert progress._rate(times) == rate
