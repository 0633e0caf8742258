"""Progress reports: rates, the time left, and the lines of a display."""

import pytest

from cascade_srn.apps.corpus.progress import Progress, ProgressView, with_number


def report(n_shards, seconds, *, n_workers=1, before=0, n_errors=0):
    """Return a report of a job with ten shards of ten documents, of a hundred words each."""
    return Progress(
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


def test_a_report_without_a_new_shard_keeps_the_rate_going():
    view = ProgressView()
    view.add(report(0, 0.0))
    view.add(report(1, 10.0))
    assert view.add(report(1, 20.0)).figures.startswith("0.5 documents/s")


def test_numbers():
    assert [with_number(n, "error") for n in (0, 1, 1200)] == ["0 errors", "1 error", "1,200 errors"]
