import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.apps.corpus import fake_workers
from tests.apps.corpus.jobs import fingerprints, rows_of, save_model, settings, texts, write_lines

from cascade_srn.apps.corpus import local
from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.local import LocalEngine
from cascade_srn.apps.corpus.process import call_once
from cascade_srn.apps.corpus.settings import CorpusSettings, JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import CascadeError, ModelError

pytestmark = pytest.mark.slow

SHARDS = tuple(Shard(f"s{n}", ((0, n, n + 1),)) for n in range(4))
PATIENCE = 120.0


@pytest.fixture
def job(tmp_path):
    """A job without a model, for fake workers."""
    for name in ("scratch", "model", "output"):
        (tmp_path / name).mkdir()
    (tmp_path / "output" / "scratch").mkdir()
    return JobSpec(
        output=str(tmp_path / "output"),
        scratch="scratch",
        model=str(tmp_path / "model"),
        model_checksum="",
        files=(),
        settings=CorpusSettings(device="cpu"),
    )


@pytest.fixture
def start(monkeypatch):
    """Return a function that sets the function which workers start with."""
    return lambda function: monkeypatch.setattr(local, "start_worker", function)


def results(job, *, workers=1, control=None, shards=SHARDS, **options):
    found = list(LocalEngine(workers, **options).run(job, shards, control or Control()))
    assert children() == []
    return {result.shard: result for result in found}


def children():
    """Return the worker processes of this process that are alive."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and "cascade_srn.apps.corpus.process" in child.cmdline()
    ]


def notes(job, what):
    return sorted(path.stem for path in Path(job.output).glob(f"*.{what}"))


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_each_shard_is_processed_once(job, start):
    start(fake_workers.start_good)
    found = results(job, workers=2)
    assert sorted(found) == ["s0", "s1", "s2", "s3"]
    assert all(isinstance(result, ShardResult) for result in found.values())
    lines = [Path(job.output, f"{name}.done").read_text().split() for name in notes(job, "done")]
    assert all(len(line) == 1 for line in lines)
    assert len({line[0] for line in lines}) <= 2
    assert str(os.getpid()) not in {line[0] for line in lines}


def test_a_dead_worker_is_replaced_and_its_shard_is_tried_again(job, start):
    start(fake_workers.start_dying)
    found = results(job)
    assert found["s0"].attempts == found["s3"].attempts == 1
    assert found["s1"].attempts == 2
    assert isinstance(found["s2"], ShardFailure)
    assert found["s2"].attempts == 3
    assert "SIGKILL" in found["s2"].reason
    assert len(Path(job.output, "s2.begun").read_text().split()) == 3


@pytest.mark.slow
def test_a_worker_is_not_used_again_after_an_error(job, start):
    start(fake_workers.start_raising)
    found = results(job)
    assert isinstance(found["s1"], ShardFailure)
    assert "the device is lost" in found["s1"].reason
    before, after = (Path(job.output, f"{name}.done").read_text() for name in ("s0", "s2"))
    assert before != after


def test_a_full_disk_stops_the_job(job, start):
    start(fake_workers.start_full_disk)
    with pytest.raises(JobError) as caught:
        results(job)
    assert (caught.value.problem, caught.value.hint, caught.value.option) == (
        "the disk is full",
        "Free some space",
        "resume",
    )
    assert children() == []


@pytest.mark.slow
def test_an_error_of_the_network_stops_the_job_only_if_it_remains(job, start):
    start(fake_workers.start_network)
    engine = LocalEngine(1).run(job, SHARDS, Control())
    found = []
    with pytest.raises(JobError):
        found += [result for result in engine if found.append(result) is None]
    assert {result.shard: result.attempts for result in found} == {"s0": 1, "s3": 1, "s1": 2}


@pytest.mark.slow
def test_a_shard_that_takes_too_long_fails(job, start):
    start(fake_workers.start_slow)
    found = results(job, workers=2, shard_timeout=2.0)
    assert isinstance(found["s1"], ShardFailure)
    assert "2 seconds" in found["s1"].reason
    assert sorted(found) == ["s0", "s1", "s2", "s3"]


def test_a_model_that_cannot_be_loaded_stops_the_job(job, start):
    start(fake_workers.start_without_model)
    with pytest.raises(ModelError) as caught:
        results(job)
    assert caught.value.hint == "Give another"


@pytest.mark.slow
def test_workers_that_die_while_loading_stop_the_job(job, start):
    start(fake_workers.start_and_die)
    with pytest.raises(JobError, match="some library failed"):
        results(job)
    assert len(list(Path(job.output, "scratch").glob("*.log"))) == job.settings.max_attempts


@pytest.mark.slow
def test_fewer_workers_go_on_if_memory_is_short(job, start):
    start(fake_workers.start_first_only)
    found = results(job, workers=2)
    assert all(isinstance(result, ShardResult) for result in found.values())


@pytest.mark.slow
def test_output_of_libraries_does_not_disturb_and_warnings_are_repeated_once(job, start):
    start(fake_workers.start_printing)
    with pytest.warns(UserWarning, match="a limit was reached") as caught:
        found = results(job, workers=2)
    assert len(found) == 4
    assert len(caught) == 1


def test_stopping_lets_running_shards_finish(job, start):
    start(fake_workers.start_good)
    control = Control()
    found = []
    for result in LocalEngine(1).run(job, SHARDS, control):
        found.append(result.shard)
        control.stop()
    assert found == ["s0"]
    assert notes(job, "done") == ["s0"]


@pytest.mark.slow
def test_stopping_abandons_shards_after_the_grace_period(job, start):
    start(fake_workers.start_all_slow)
    control = Control()

    def stop_when_begun():
        wait_for(lambda: notes(job, "begun"))
        control.stop(grace=0.0)

    thread = threading.Thread(target=stop_when_begun)
    thread.start()
    assert results(job, control=control) == {}
    thread.join()


def test_closing_the_iterator_ends_the_workers(job, start):
    start(fake_workers.start_good)
    engine = LocalEngine(2).run(job, SHARDS, Control())
    next(engine)
    engine.close()
    assert children() == []


@pytest.mark.slow
def test_workers_end_with_their_driver(job, tmp_path):
    script = tmp_path / "driver.py"
    # A script without a guard against being imported.
    script.write_text(
        "import pickle, sys\n"
        "from tests.apps.corpus import fake_workers\n"
        "from cascade_srn.apps.corpus import local\n"
        "from cascade_srn.apps.corpus.engine import Control\n"
        "local.start_worker = fake_workers.start_all_slow\n"
        "job, shards = pickle.load(open(sys.argv[1], 'rb'))\n"
        "list(local.LocalEngine(1).run(job, shards, Control()))\n"
    )
    import pickle

    (tmp_path / "job").write_bytes(pickle.dumps((job, SHARDS)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    driver = subprocess.Popen([sys.executable, script, tmp_path / "job"], env=environment)
    try:
        wait_for(lambda: notes(job, "begun"))
        pid = int(Path(job.output, f"{notes(job, 'begun')[0]}.begun").read_text())
        assert psutil.pid_exists(pid)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
def test_call_once_returns_raises_and_survives(tmp_path):
    log = tmp_path / "log"
    assert call_once(pow, 2, 5, log=log, timeout=PATIENCE) == 32
    with pytest.raises(CascadeError, match="ZeroDivisionError"):
        call_once(divmod, 1, 0, log=log, timeout=PATIENCE)
    with pytest.raises(CascadeError, match="exit code 3"):
        call_once(os._exit, 3, log=log, timeout=PATIENCE)
    with pytest.raises(CascadeError, match="SIGKILL"):
        call_once(time.sleep, 600, log=log, timeout=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_writes_the_same_bytes(tmp_path_factory, workers):
    folder = tmp_path_factory.getbasetemp() / "workers"
    if not folder.exists():
        folder.mkdir()
        save_model(folder / "model")
        write_lines(folder / "in.jsonl", texts(40))
    report = run(
        folder / "in.jsonl", folder / str(workers), model=folder / "model", workers=workers, settings=settings()
    )
    assert report.is_finished
    assert report.rows["documents"] == 40
    assert report.rows["entities"] > 40
    assert report.rows["relations"] > 0
    assert fingerprints(folder / str(workers)) == fingerprints(folder / "1")


@pytest.mark.slow
def test_workers_do_without_pandas():
    code = (
        "import sys\n"
        "from cascade_srn.apps.corpus.local import _keep_pandas_out\n"
        "_keep_pandas_out()\n"
        "import pyarrow\n"
        "assert pyarrow.array(['a', None]).to_pylist() == ['a', None]\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.slow
def test_a_poisoned_document_ends_in_errors_with_its_shard_only(tmp_path, start):
    start(fake_workers.start_poisoned)
    given = [*texts(10), "This is poison.", "An unlucky text.", *texts(8, seed=1)]
    model, path = save_model(tmp_path / "model"), write_lines(tmp_path / "in.jsonl", given)
    report = run(path, tmp_path / "out", model=model, workers=2, settings=settings(max_attempts=2))
    errors = {row["document_id"]: row for row in rows_of(tmp_path / "out", "errors")}
    assert sorted(errors) == ["d10", "d11", "d8", "d9"]
    assert {row["attempts"] for row in errors.values()} == {2}
    assert all("SIGKILL" in row["reason"] for row in errors.values())
    assert report.rows["documents"] == 16
    assert report.n_shards_failed == 1
    assert report.is_finished
