import errno
import json
import os
import shutil
import signal
from dataclasses import asdict, replace

import pytest
from tests.apps.corpus.jobs import (
    InProcessEngine,
    fingerprints,
    members,
    rows_of,
    run_here,
    save_model,
    settings,
    texts,
    write_lines,
)
from tests.formats.other_processes import held_elsewhere

from cascade_srn.apps.corpus import job as jobs
from cascade_srn.apps.corpus import writing
from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.job import JobInterrupted, run
from cascade_srn.apps.corpus.manifest import JobFolder
from cascade_srn.apps.corpus.tables import TABLES
from cascade_srn.errors import CascadeError, ConfigError

FINISHED = ["documents", "entities", "errors", "manifest.json", "relations", "shards"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("job") / "model")


@pytest.fixture
def source(tmp_path):
    """Fourteen texts in four shards."""
    return write_lines(tmp_path / "in.jsonl", texts(14))


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    """Checksums of the tables that a job without interruption writes for ``source``."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_here(write_lines(folder / "in.jsonl", texts(14)), folder / "out", model)
    return fingerprints(folder / "out")


def fail_at(number, error):
    """Return a function that raises an error at the n-th shard."""
    seen = []

    def before(shard):
        seen.append(shard)
        if len(seen) == number:
            raise error

    return before


def test_a_job_writes_all_tables_and_counts_them(source, model, tmp_path):
    shown = []
    report, processed = run_here(source, tmp_path / "out", model, progress=shown.append)
    assert report.is_finished
    assert not report.was_finished
    assert len(processed) == report.n_shards == report.n_shards_done == 4
    assert report.rows["documents"] == report.n_input_rows == 14
    assert members(tmp_path / "out") == FINISHED
    counts = JobFolder(tmp_path / "out").read_manifest().counts
    assert counts == {**report.rows, "words": report.n_words, "sentences": report.n_sentences}
    for table, count in report.rows.items():
        assert len(rows_of(tmp_path / "out", table)) == count
    assert [p.n_shards_done for p in shown] == [0, 1, 2, 3, 4]
    assert [p.n_documents_done for p in shown] == [0, 4, 8, 12, 14]
    assert (shown[-1].n_words, shown[-1].n_documents) == (report.n_words, 14)


def test_a_finished_job_is_not_done_again(source, model, tmp_path):
    run_here(source, tmp_path / "out", model)
    before = fingerprints(tmp_path / "out")
    report, processed = run_here(source, tmp_path / "out", model, resume=True)
    assert report.was_finished
    assert report.is_finished
    assert report.rows["documents"] == 14
    assert processed == []
    assert fingerprints(tmp_path / "out") == before


def test_an_existing_job_is_refused_without_resume(source, model, tmp_path):
    run_here(source, tmp_path / "out", model)
    with pytest.raises(ConfigError) as caught:
        run_here(source, tmp_path / "out", model)
    assert caught.value.option == "resume"


@pytest.mark.parametrize("number", [2, 4])
def test_a_job_that_died_is_resumed(source, model, tmp_path, undisturbed, number):
    with pytest.raises(MemoryError):
        run_here(source, tmp_path / "out", model, before=fail_at(number, MemoryError()))
    assert JobFolder(tmp_path / "out").read_manifest().counts is None
    report, processed = run_here(source, tmp_path / "out", model, resume=True)
    assert len(processed) == 5 - number
    assert report.rows["documents"] == 14
    assert fingerprints(tmp_path / "out") == undisturbed
    assert members(tmp_path / "out") == FINISHED


def test_an_error_before_the_first_shard_leaves_nothing(source, model, tmp_path):
    with pytest.raises(CascadeError, match="broken"):
        run_here(source, tmp_path / "out", model, before=fail_at(1, CascadeError("broken")))
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError):
        run_here(source, tmp_path / "out", model, thresholds={"entity_types": {"Animal": 0.3}})
    assert members(tmp_path / "out") == []


@pytest.mark.parametrize("damage", ["truncate", "remove", "record", "half", "documents", "relations", "n_words"])
def test_damaged_shards_are_done_again(source, model, tmp_path, undisturbed, damage):
    out = tmp_path / "out"
    run_here(source, out, model)
    victim = sorted((out / "entities").iterdir())[1]
    record = out / "shards" / f"{victim.stem}.json"
    if damage == "truncate":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "remove":
        victim.unlink()
    elif damage == "half":
        record.write_text(record.read_text()[:50])
    elif damage != "record":  # a wrong count
        values = json.loads(record.read_text())
        counts = values if damage == "n_words" else values["rows"]
        counts[damage] += 1
        record.write_text(json.dumps(values))
    else:
        record.unlink()
    report, processed = run_here(source, out, model, resume=True)
    assert processed == [victim.stem]
    assert report.is_finished
    assert fingerprints(out) == undisturbed


@pytest.mark.parametrize("name", ["documents", "words"])
def test_wrong_counts_of_a_finished_job_are_repaired(source, model, tmp_path, name):
    run_here(source, tmp_path / "out", model)
    folder = JobFolder(tmp_path / "out")
    manifest = folder.read_manifest()
    folder.write_manifest(replace(manifest, counts={**manifest.counts, name: 99}))
    assert run_here(source, tmp_path / "out", model, resume=True)[1] == []
    assert folder.read_manifest() == manifest


def test_the_content_does_not_depend_on_the_measured_size_of_shards(model, tmp_path, monkeypatch):
    """Ids repeat in the small files. The sizes are those of three machines."""
    monkeypatch.setattr("cascade_srn.apps.corpus.shards.UNIT_BYTES", 1500)
    for at, number in enumerate((25, 2, 1, 3, 9, 2)):
        write_lines(tmp_path / "in" / f"{at}.jsonl", texts(number, seed=at))
    (tmp_path / "in" / "z.txt").write_text("We train a parser.")
    found = []
    for number, size in enumerate((1500, 3000, 12000)):
        monkeypatch.setattr(jobs, "find_shard_size", lambda *args, size=size: replace(args[2].inputs, shard_bytes=size))
        report, _ = run_here(tmp_path / "in", out := tmp_path / f"out{number}", model, shard_documents=None)
        tables = {table: [{**row, "shard": ""} for row in rows_of(out, table)] for table in TABLES}
        found.append((report.rows, tables))
        # A job is resumed with its own size.
        monkeypatch.setattr(jobs, "find_shard_size", None)
        assert run_here(tmp_path / "in", out, model, shard_documents=None, resume=True)[0].n_shards == report.n_shards
        assert JobFolder(out).read_manifest().settings["inputs"]["shard_bytes"] == size
    assert found[0] == found[1] == found[2]
    assert any(":" in row["document_id"] for row in found[0][1]["documents"])


def test_a_worker_that_outlives_its_driver_cannot_change_the_output(source, model, tmp_path, undisturbed):
    """It writes to the temporary folder of its driver, which the next driver has removed."""
    orphan = None

    class Remembering(InProcessEngine):
        def run(self, job, shards, control):
            nonlocal orphan
            orphan = jobs.write_failed_shard, job, shards[1]
            yield next(filter(None, super().run(job, shards, control)))
            raise MemoryError

    with pytest.raises(MemoryError):
        run(source, tmp_path / "out", model=model, engine=Remembering(), settings=settings())
    run_here(source, tmp_path / "out", model, resume=True)
    write, job, shard = orphan
    with pytest.raises(JobError):
        write(job, shard, "late", 1)
    assert fingerprints(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("n_renames", [1, 4, 5])
def test_a_full_disk_stops_the_job_which_can_be_resumed(source, model, tmp_path, undisturbed, monkeypatch, n_renames):
    count = 0
    rename = writing.replace_durably

    def fill_up(origin, target):
        nonlocal count
        count += 1
        if count > n_renames + 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(origin, target)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "replace_durably", fill_up)
        with pytest.raises(JobError, match="No space left") as caught:
            run_here(source, tmp_path / "out", model)
    assert caught.value.option == "resume"
    assert members(tmp_path / "out") == FINISHED
    report, _ = run_here(source, tmp_path / "out", model, resume=True)
    assert report.is_finished
    assert fingerprints(tmp_path / "out") == undisturbed


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ("input", "in.jsonl has changed"),
        ("model", "the model is 'other'"),
        ("setting", 'overlaps is "nested", not "flat"'),
    ],
)
def test_a_changed_job_is_not_resumed(source, model, tmp_path, changed, problem):
    run_here(source, tmp_path / "out", model)
    if changed == "input":
        write_lines(source, texts(14, seed=1))
    other = save_model(tmp_path / "other", seed=1) if changed == "model" else model
    with pytest.raises(ConfigError, match=problem):
        run_here(source, tmp_path / "out", other, resume=True, overlaps="nested" if changed == "setting" else "flat")


def test_a_model_that_changes_under_a_job_is_refused(source, model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "model")

    class Changing(InProcessEngine):
        def run(self, job, shards, control):
            config = copy / "config.json"
            config.write_text(config.read_text() + "\n")
            yield from super().run(job, shards, control)

    with pytest.raises(JobError, match="not the model of the job"):
        run(source, tmp_path / "out", model=copy, engine=Changing(), settings=settings())


def test_an_input_that_changes_under_a_job_stops_it(source, model, tmp_path):
    def before(shard):
        write_lines(source, texts(14, seed=2))

    with pytest.raises(JobError) as caught:
        run_here(source, tmp_path / "out", model, before=before)
    assert not caught.value.is_temporary


def test_foreign_folders_are_left_alone(source, model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(ConfigError):
            run_here(source, out, model, resume=resume)
    assert members(out) == ["thesis.txt"]


def test_a_folder_in_use_is_refused(source, model, tmp_path):
    with held_elsewhere(tmp_path / "out") as other, pytest.raises(ConfigError, match=f"pid {other.pid}"):
        run_here(source, tmp_path / "out", model)
    report, _ = run_here(source, tmp_path / "out", model)
    assert report.is_finished


@pytest.mark.slow
def test_a_failed_shard_is_written_to_errors(source, model, tmp_path):
    ids = []

    def before(shard):
        ids.append(shard.id)
        return "the worker was ended by SIGKILL" if len(ids) == 2 else None

    report, _ = run_here(source, tmp_path / "out", model, before=before)
    assert report.n_shards_failed == 1
    assert (report.rows["documents"], report.rows["errors"]) == (10, 4)
    errors = rows_of(tmp_path / "out", "errors")
    assert [(row["document_id"], row["row"]) for row in errors] == [(f"d{n}", n) for n in range(4, 8)]
    assert {(row["reason"], row["attempts"], row["shard"]) for row in errors} == {
        ("the worker was ended by SIGKILL", 3, ids[1])
    }
    report, processed = run_here(source, tmp_path / "out", model, resume=True)
    assert report.was_finished
    assert processed == []


def test_a_failed_shard_that_cannot_be_read_is_written_to_errors_all_the_same(source, model, tmp_path, monkeypatch):
    def crash(*arguments, **options):
        raise CascadeError("the worker was ended by SIGSEGV")

    monkeypatch.setattr(jobs, "call_once", crash)
    report, _ = run_here(source, tmp_path / "out", model, before=lambda shard: "crashed")
    assert report.rows["errors"] == 14
    assert report.is_finished
    assert [row["row"] for row in rows_of(tmp_path / "out", "errors")] == list(range(14))


@pytest.mark.parametrize(("share", "stops"), [(0.04, True), (0.05, False), (None, False)])
def test_too_many_errors_stop_the_job(model, tmp_path, share, stops):
    given = [{"id": str(n), "text": None if n % 20 == 0 else "A tagger."} for n in range(160)]
    source = write_lines(tmp_path / "in.jsonl", given)
    if not stops:
        report, _ = run_here(source, tmp_path / "out", model, shard_documents=20, max_error_share=share)
        assert (report.rows["documents"], report.rows["errors"]) == (152, 8)
        return
    with pytest.raises(CascadeError) as caught:
        run_here(source, tmp_path / "out", model, shard_documents=20, max_error_share=share)
    assert caught.value.option == "max_error_share"
    assert len(rows_of(tmp_path / "out", "documents")) == 95
    report, processed = run_here(source, tmp_path / "out", model, shard_documents=20, resume=True)
    assert len(processed) == 3
    assert report.rows["errors"] == 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_job_after_the_shard(source, model, tmp_path, undisturbed, number):
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(JobInterrupted) as caught:
        run_here(source, tmp_path / "out", model, before=lambda shard: os.kill(os.getpid(), number))
    assert caught.value.signal == number
    assert (caught.value.report.n_shards_done, caught.value.report.is_finished) == (1, False)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert members(tmp_path / "out") == FINISHED
    run_here(source, tmp_path / "out", model, resume=True)
    assert fingerprints(tmp_path / "out") == undisturbed


def test_a_second_signal_stops_the_job_at_once(source, model, tmp_path):
    def before(shard):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        run_here(source, tmp_path / "out", model, before=before)
    assert not isinstance(caught.value, JobInterrupted)
    assert members(tmp_path / "out") == FINISHED


def test_tasks_of_an_array_share_a_job(source, model, tmp_path, undisturbed):
    out = tmp_path / "out"
    first, processed = run_here(source, out, model, array=(0, 3))
    assert (first.n_shards, first.n_shards_done, first.is_finished) == (2, 2, False)
    assert len(processed) == 2
    last, _ = run_here(source, out, model, array=(2, 3))
    assert (last.n_shards, last.is_finished) == (1, False)
    again, processed = run_here(source, out, model, array=(0, 3))
    assert (again.n_shards_done, processed) == (2, [])
    middle, _ = run_here(source, out, model, array=(1, 3))
    assert middle.is_finished
    assert fingerprints(out) == undisturbed
    assert JobFolder(out).read_manifest().counts["documents"] == 14
    assert members(out) == FINISHED


def test_a_job_leaves_running_tasks_of_an_array_alone(source, model, tmp_path):
    out = tmp_path / "out"
    run_here(source, out, model, array=(0, 2))
    folder = out / ".array-1-of-2-.tmp"
    with held_elsewhere(folder) as other, pytest.raises(ConfigError, match=f"pid {other.pid}"):
        run_here(source, out, model, resume=True)
    report, processed = run_here(source, out, model, resume=True)
    assert report.is_finished
    assert len(processed) == 2


def test_the_manifest_describes_the_job(source, model, tmp_path):
    run_here(source, tmp_path / "out", model)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["settings"] == json.loads(json.dumps(asdict(settings())))
    assert [(file["name"], file["n_rows"]) for file in manifest["inputs"]] == [("in.jsonl", 14)]
    assert [shard["parts"] for shard in manifest["shards"]] == [[[0, 0, 4]], [[0, 4, 8]], [[0, 8, 12]], [[0, 12, 14]]]
    assert manifest["software"]["torch"]
    assert manifest["model"]["sha256"] == rows_of(tmp_path / "out", "documents")[0]["model"]
