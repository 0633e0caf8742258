"""What every engine does. Each test runs with the local engine and, where it is installed, with Ray."""

import os
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.apps.corpus import fake_workers
from tests.apps.corpus.jobs import fingerprints, rows_of, save_model, settings, texts, write_lines
from tests.processes import command_line, is_alive

from cascade_srn.apps.corpus import local
from cascade_srn.apps.corpus import ray as ray_engine
from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.local import LocalEngine
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest
from cascade_srn.apps.corpus.ray import RayEngine, check_node
from cascade_srn.apps.corpus.settings import CorpusSettings, JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import ConfigError, MissingExtraError, ModelError

SHARDS = tuple(Shard(f"s{n}", ((0, n, n + 1),)) for n in range(4))
PATIENCE = 240.0
ROOT = Path(__file__).parents[3]
slow = pytest.mark.slow
_CLUSTER = """
import sys
from cascade_srn.apps.corpus.ray_cluster import OBJECT_STORE_BYTES, connection, import_ray
ray = import_ray()
with connection(ray, "local", 4, 0, OBJECT_STORE_BYTES):
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""
# A script without a guard against being imported.
_DRIVER = """
import sys
from pathlib import Path
from tests.apps.corpus import fake_workers
from tests.apps.corpus.jobs import settings
from cascade_srn.apps.corpus import local, ray
from cascade_srn.apps.corpus.job import run
local.start_worker = ray.start_on_node = fake_workers.start_unhurried
folder, engine = Path(sys.argv[1]), {"local": local.LocalEngine, "ray": ray.RayEngine}[sys.argv[2]]
run(folder / "in.jsonl", folder / "out", model=folder / "model", engine=engine(2), settings=settings())
"""


@pytest.fixture
def job(tmp_path):
    """A job without a model, for fake workers."""
    for name in ("model", "output/scratch"):
        (tmp_path / name).mkdir(parents=True)
    return JobSpec(
        output=str(tmp_path / "output"),
        scratch="scratch",
        model=str(tmp_path / "model"),
        model_checksum="",
        files=(),
        settings=CorpusSettings(device="cpu"),
    )


@pytest.fixture(scope="module")
def environment():
    """Environment of processes that import the package and the tests. All use the same Ray, which asks for a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.delenv("RAY_ADDRESS", raising=False)
        paths = [str(ROOT), *(path or os.getcwd() for path in sys.path)]
        yield {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(scope="module")
def cluster(environment):
    """Address of a Ray with four CPU slots, which several tests use, because its start takes long."""
    pytest.importorskip("ray")
    command = [sys.executable, "-c", _CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as head:
        address = head.stdout.readline().strip()
        assert address, "Ray did not start"
        yield address
        # It ends with its standard input.
        head.communicate(timeout=PATIENCE)


@pytest.fixture(params=["local", "ray"])
def kind(request):
    return request.param


@pytest.fixture
def make(kind, request):
    """Return a function that makes an engine."""
    if kind == "local":
        return LocalEngine
    address = request.getfixturevalue("cluster")
    return lambda workers, **options: RayEngine(workers, address=address, **options)


@pytest.fixture
def start(monkeypatch):
    """Return a function that sets the function which workers start with."""

    def replace(function):
        monkeypatch.setattr(local, "start_worker", function)
        monkeypatch.setattr(ray_engine, "start_on_node", function)

    return replace


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Folder with a model, an input with a word that kills workers, one without, and the tables of the latter."""
    folder = tmp_path_factory.mktemp("corpus")
    save_model(folder / "model")
    given = texts(40)
    write_lines(folder / "in.jsonl", given)
    write_lines(folder / "poisoned.jsonl", [*given[:13], "a poison", *given[14:]])
    run(folder / "in.jsonl", folder / "expected", model=folder / "model", engine=LocalEngine(1), settings=settings())
    return folder


def results(engine, job, *, control=None, shards=SHARDS):
    found = {result.shard: result for result in filter(None, engine.run(job, shards, control or Control()))}
    assert local_workers() == []
    return found


def local_workers():
    """Return the worker processes of this process that are alive."""
    started = psutil.Process().children(recursive=True)
    return [child for child in started if "cascade_srn.runs.children" in command_line(child)]


def notes(job, what):
    return sorted(path.stem for path in Path(job.output).glob(f"*.{what}"))


def pids(job, what):
    return [int(line) for path in Path(job.output).glob(f"*.{what}") for line in path.read_text().split()]


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Workers without a model.


@slow
def test_each_shard_is_processed_once(job, make, start):
    start(fake_workers.start_good)
    found = results(make(2), job)
    assert sorted(found) == ["s0", "s1", "s2", "s3"]
    assert all(isinstance(result, ShardResult) for result in found.values())
    assert len(pids(job, "done")) == 4
    assert len(set(pids(job, "done"))) <= 2
    assert os.getpid() not in pids(job, "done")


@slow
def test_a_dead_worker_is_replaced_and_its_shard_is_tried_again(job, kind, make, start):
    start(fake_workers.start_dying)
    found = results(make(1), job)
    assert found["s0"].attempts == found["s3"].attempts == 1
    assert found["s1"].attempts == 2
    assert isinstance(found["s2"], ShardFailure)
    assert found["s2"].attempts == 3
    assert {"local": "SIGKILL", "ray": "died"}[kind] in found["s2"].reason
    assert len(Path(job.output, "s2.begun").read_text().split()) == 3


@slow
def test_a_worker_is_not_used_again_after_an_error(job, make, start):
    start(fake_workers.start_raising)
    found = results(make(1), job)
    assert isinstance(found["s1"], ShardFailure)
    assert "the device is lost" in found["s1"].reason
    before, after = (Path(job.output, f"{name}.done").read_text() for name in ("s0", "s2"))
    assert before != after


@slow
@pytest.mark.parametrize(
    ("function", "error", "fields"),
    [
        (fake_workers.start_full_disk, JobError, ("the disk is full", "Free some space", "resume")),
        (fake_workers.start_without_model, ModelError, ("there is no model", "Give another", "")),
    ],
)
def test_an_error_of_the_job_stops_it_with_its_fields(job, make, start, function, error, fields):
    start(function)
    with pytest.raises(error) as caught:
        results(make(1), job)
    assert (caught.value.problem, caught.value.hint, caught.value.option) == fields
    assert local_workers() == []


@slow
def test_an_error_of_the_network_stops_the_job_only_if_it_remains(job, make, start):
    start(fake_workers.start_network)
    found = results(make(1), job, shards=SHARDS[:2])
    assert {name: result.attempts for name, result in found.items()} == {"s0": 1, "s1": 2}
    with pytest.raises(JobError, match="no network"):
        results(make(1), job, shards=SHARDS[2:])


@slow
def test_a_shard_that_takes_too_long_fails(job, make, start):
    start(fake_workers.start_slow)
    found = results(make(2, shard_timeout=2.0), job)
    assert isinstance(found["s1"], ShardFailure)
    assert "2 seconds" in found["s1"].reason
    assert sorted(found) == ["s0", "s1", "s2", "s3"]


@slow
def test_workers_that_die_while_loading_stop_the_job(job, kind, make, start):
    start(fake_workers.start_and_die)
    with pytest.raises(JobError, match=r"some library failed" if kind == "local" else "died"):
        results(make(1), job)
    assert len(pids(job, "loading")) == job.settings.max_attempts


@slow
def test_fewer_workers_go_on_if_memory_is_short(job, make, start):
    start(fake_workers.start_first_only)
    found = results(make(2), job)
    assert all(isinstance(result, ShardResult) for result in found.values())
    assert len(found) == len(SHARDS)


@slow
def test_output_of_libraries_does_not_disturb_and_warnings_are_repeated_once(job, make, start):
    start(fake_workers.start_printing)
    with pytest.warns(UserWarning, match="a limit was reached") as caught:
        found = results(make(2), job)
    assert len(found) == 4
    assert len(caught) == 1


@slow
def test_stopping_lets_running_shards_finish(job, make, start):
    start(fake_workers.start_good)
    control, found = Control(), []
    for result in filter(None, make(1).run(job, SHARDS, control)):
        found.append(result.shard)
        control.stop()
    assert found == notes(job, "done") == ["s0"]


@slow
def test_stopping_abandons_shards_after_the_grace_period(job, make, start):
    start(fake_workers.start_all_slow)
    control = Control()

    def stop_when_begun():
        wait_for(lambda: notes(job, "begun"))
        control.stop(grace=0.0)

    thread = threading.Thread(target=stop_when_begun)
    thread.start()
    assert results(make(1), job, control=control) == {}
    thread.join()
    assert not any(map(is_alive, pids(job, "begun")))


# Workers with a model.


@slow
def test_several_workers_write_the_bytes_of_one(corpus, kind, make):
    output = corpus / f"{kind}-3"
    report = run(corpus / "in.jsonl", output, model=corpus / "model", engine=make(3), settings=settings())
    assert report.is_finished
    assert report.rows["documents"] == 40
    assert report.rows["entities"] > 40
    assert report.rows["relations"] > 0
    assert fingerprints(output) == fingerprints(corpus / "expected")


@slow
def test_a_poisoned_document_ends_in_errors_with_its_shard_only(corpus, kind, make, start):
    start(fake_workers.start_poisoned)
    output = corpus / f"{kind}-poisoned"
    report = run(
        corpus / "poisoned.jsonl", output, model=corpus / "model", engine=make(2), settings=settings(max_attempts=2)
    )
    assert report.is_finished
    assert report.n_shards_failed == 1
    assert (report.rows["documents"], report.rows["errors"]) == (36, 4)
    errors = rows_of(output, "errors")
    assert [row["document_id"] for row in errors] == ["d12", "d13", "d14", "d15"]
    assert {row["attempts"] for row in errors} == {2}
    assert all(("SIGKILL" if kind == "local" else "died") in row["reason"] for row in errors)


@slow
def test_killed_workers_and_drivers_leave_nothing_behind_and_the_job_is_resumed(
    corpus, kind, make, environment, tmp_path
):
    for name in ("model", "in.jsonl"):
        (tmp_path / name).symlink_to(corpus / name)
    printed, records = tmp_path / "printed", tmp_path / "out" / "shards"

    def n_done():
        return len(list(records.iterdir())) if records.is_dir() else 0

    # As for a user who has not chosen a token.
    environment = {name: value for name, value in environment.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    with printed.open("wb") as stream:
        driver = subprocess.Popen([sys.executable, "-c", _DRIVER, tmp_path, kind], env=environment, stdout=stream)
    try:
        wait_for(lambda: n_done() or driver.poll() is not None)
        started = psutil.Process(driver.pid).children(recursive=True)
        mark = {"local": "cascade_srn.runs.children", "ray": "RayWorker"}[kind]
        workers = [process for process in started if mark in command_line(process)]
        assert len(workers) == 2
        workers[0].kill()
        n_before = n_done()
        wait_for(lambda: n_done() > n_before or driver.poll() is not None)
        assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait()
    wait_for(lambda: not any(is_alive(process.pid) for process in started))
    assert printed.read_text() == ""
    assert not (tmp_path / ".ray").exists()
    assert 0 < n_done() < 10
    source, output = tmp_path / "in.jsonl", tmp_path / "out"
    report = run(source, output, model=tmp_path / "model", engine=make(2), settings=settings(), resume=True)
    assert report.is_finished
    assert fingerprints(output) == fingerprints(corpus / "expected")


# Ray only.


@pytest.mark.parametrize(
    "wrong",
    [{"workers": 0}, {"workers": "many"}, {"cpus_per_worker": 0}, {"gpus_per_worker": 1.5}, {"shard_timeout": -1}],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        RayEngine(**wrong)


def test_ray_is_named_if_it_is_missing(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError) as caught:
        list(RayEngine().run(job, SHARDS, Control()))
    assert "cascade-srn[ray]" in caught.value.hint


@pytest.mark.parametrize(
    ("missing", "software", "problem"),
    [("", {}, None), ("model", {}, "model"), ("output/scratch", {}, "output"), ("", {"torch": "0.1"}, "torch")],
)
def test_a_node_without_the_shared_storage_or_with_other_versions_is_refused(job, tmp_path, missing, software, problem):
    manifest = Manifest.describe((), Path(job.model), "", job.settings, SHARDS)
    manifest.software.update(software)
    JobFolder(Path(job.output)).write_manifest(manifest)
    if missing:
        (tmp_path / missing).rmdir()
    if problem is None:
        return check_node(job)
    with pytest.raises(JobError, match=problem):
        check_node(job)


@slow
def test_a_worker_that_does_not_answer_is_replaced(job, cluster, start, monkeypatch):
    monkeypatch.setattr(ray_engine, "_ASK_SECONDS", 0.5)
    monkeypatch.setattr(ray_engine, "_SILENT_SECONDS", 10.0)
    start(fake_workers.start_silent)
    found = results(RayEngine(1, address=cluster), job)
    assert found["s1"].attempts == 2
    assert len(found) == len(SHARDS)


@slow
def test_workers_without_room_do_not_stop_the_others(job, cluster, start):
    start(fake_workers.start_good)
    with pytest.warns(UserWarning, match="room for 2 of 4"):
        found = results(RayEngine(4, address=cluster, cpus_per_worker=2), job)
    assert len(found) == len(SHARDS)
    with pytest.warns(UserWarning, match="room for 0"), pytest.raises(JobError, match="64 CPUs"):
        results(RayEngine(1, address=cluster, cpus_per_worker=64, start_timeout=1.0), job)


@slow
@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://127.0.0.1", "head:port"])
def test_an_address_without_a_cluster_is_refused_at_once(job, address):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError) as caught:
        results(RayEngine(1, address=address), job)
    assert caught.value.option == "address"
    assert "\n" not in str(caught.value)
