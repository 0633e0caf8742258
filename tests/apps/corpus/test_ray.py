import http.server
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tests.apps.corpus import fake_workers
from tests.apps.corpus.jobs import fingerprints, rows_of, save_model, settings, texts, write_lines

from cascade_srn.apps.corpus import ray as ray_engine
from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.local import LocalEngine
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest
from cascade_srn.apps.corpus.ray import RayEngine
from cascade_srn.apps.corpus.ray_worker import check_node
from cascade_srn.apps.corpus.settings import CorpusSettings, JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import ConfigError, ModelError

SHARDS = tuple(Shard(f"s{n}", ((0, n, n + 1),)) for n in range(4))
N_SLOTS = 4
PATIENCE = 240.0
ROOT = Path(__file__).parents[3]
_CLUSTER = """
import sys
from cascade_srn.apps.corpus.ray_cluster import OBJECT_STORE_BYTES, connection, import_ray
ray = import_ray()
with connection(ray, "local", int(sys.argv[1]), 0, OBJECT_STORE_BYTES):
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""
_DRIVER = """
import sys
from pathlib import Path
from tests.apps.corpus import fake_workers
from tests.apps.corpus.jobs import settings
from cascade_srn.apps.corpus import ray
from cascade_srn.apps.corpus.job import run
from cascade_srn.apps.corpus.ray import RayEngine
ray.start_on_node = fake_workers.start_unhurried
folder = Path(sys.argv[1])
run(folder / "in.jsonl", folder / "out", model=folder / "model", engine=RayEngine(2), settings=settings())
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
    command = [sys.executable, "-c", _CLUSTER, str(N_SLOTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as head:
        address = head.stdout.readline().strip()
        assert address, "Ray did not start"
        yield address
        # It ends with its standard input.
        head.communicate(timeout=PATIENCE)


@pytest.fixture
def start(monkeypatch):
    """Return a function that sets the function which workers start with."""
    return lambda function: monkeypatch.setattr(ray_engine, "start_on_node", function)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Folder with a model, an input with a word that kills workers, one without, and the tables of the latter."""
    folder = tmp_path_factory.mktemp("corpus")
    save_model(folder / "model")
    given = texts(40)
    write_lines(folder / "in.jsonl", given)
    write_lines(folder / "poisoned.jsonl", [*given[:13], "a poison", *given[14:]])
    run(folder / "in.jsonl", folder / "local", model=folder / "model", engine=LocalEngine(1), settings=settings())
    return folder


def results(job, address, *, workers=1, control=None, shards=SHARDS, **options):
    found = list(RayEngine(workers, address=address, **options).run(job, shards, control or Control()))
    return {result.shard: result for result in found}


def notes(job, what):
    return sorted(path.stem for path in Path(job.output).glob(f"*.{what}"))


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# Without Ray.


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"workers": "many"},
        {"cpus_per_worker": 0},
        {"gpus_per_worker": -1},
        {"gpus_per_worker": 1.5},
        {"shard_timeout": -1},
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        RayEngine(**wrong)


def test_a_job_without_shards_does_not_start_ray(job):
    assert list(RayEngine().run(job, (), Control())) == []


def test_ray_is_named_if_it_is_missing(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        list(RayEngine().run(job, SHARDS, Control()))
    assert "cascade-srn[ray]" in caught.value.hint


def describe(job, **changes):
    """Write the manifest of a job, with changed versions of software."""
    manifest = Manifest.describe((), Path(job.model), "", job.settings, SHARDS)
    manifest.software.update(changes)
    JobFolder(Path(job.output)).write_manifest(manifest)


def test_a_node_that_sees_everything_is_accepted(job):
    describe(job)
    check_node(job)


@pytest.mark.parametrize("missing", ["model", "output/scratch"])
def test_a_node_without_the_shared_storage_is_refused(job, tmp_path, missing):
    describe(job)
    (tmp_path / missing).rmdir()
    with pytest.raises(JobError) as caught:
        check_node(job)
    assert str(tmp_path / missing.partition("/")[0]) in caught.value.problem
    assert socket.gethostname() in caught.value.problem


def test_a_node_with_another_version_is_refused(job):
    describe(job, torch="0.1")
    with pytest.raises(JobError, match="torch"):
        check_node(job)


# With Ray and workers without a model.


@pytest.mark.slow
def test_dead_workers_are_replaced_and_their_shards_tried_again(job, cluster, start):
    start(fake_workers.start_dying)
    found = results(job, cluster)
    assert found["s0"].attempts == found["s3"].attempts == 1
    assert found["s1"].attempts == 2
    assert isinstance(found["s2"], ShardFailure)
    assert found["s2"].attempts == 3
    assert "died" in found["s2"].reason
    assert len(Path(job.output, "s2.begun").read_text().split()) == 3


@pytest.mark.slow
def test_errors_fail_only_their_shard_and_warnings_are_repeated_once(job, cluster, start):
    start(fake_workers.start_raising)
    found = results(job, cluster)
    assert isinstance(found["s1"], ShardFailure)
    assert "the device is lost" in found["s1"].reason
    assert all(isinstance(found[name], ShardResult) for name in ("s0", "s2", "s3"))
    start(fake_workers.start_printing)
    with pytest.warns(UserWarning, match="a limit was reached") as caught:
        results(job, cluster, workers=2)
    assert len(caught) == 1


@pytest.mark.slow
def test_an_error_of_the_job_stops_it_with_its_fields(job, cluster, start):
    start(fake_workers.start_full_disk)
    with pytest.raises(JobError) as caught:
        results(job, cluster)
    assert (caught.value.problem, caught.value.hint, caught.value.option) == (
        "the disk is full",
        "Free some space",
        "resume",
    )
    start(fake_workers.start_without_model)
    with pytest.raises(ModelError) as caught:
        results(job, cluster)
    assert caught.value.hint == "Give another"


@pytest.mark.slow
def test_an_error_of_the_network_stops_the_job_only_if_it_remains(job, cluster, start):
    start(fake_workers.start_network)
    found = results(job, cluster, shards=SHARDS[:2])
    assert {name: result.attempts for name, result in found.items()} == {"s0": 1, "s1": 2}
    with pytest.raises(JobError, match="no network"):
        results(job, cluster, shards=SHARDS[2:])


@pytest.mark.slow
def test_workers_that_die_while_loading_stop_the_job(job, cluster, start):
    start(fake_workers.start_and_die)
    with pytest.raises(JobError, match="before they are ready"):
        results(job, cluster)


@pytest.mark.slow
def test_fewer_workers_go_on_if_memory_is_short(job, cluster, start):
    start(fake_workers.start_first_only)
    found = results(job, cluster, workers=2)
    assert all(isinstance(result, ShardResult) for result in found.values())
    assert len(found) == len(SHARDS)


@pytest.mark.slow
def test_a_shard_that_takes_too_long_fails(job, cluster, start):
    start(fake_workers.start_slow)
    found = results(job, cluster, workers=2, shard_timeout=2.0)
    assert isinstance(found["s1"], ShardFailure)
    assert "2 seconds" in found["s1"].reason
    assert sorted(found) == ["s0", "s1", "s2", "s3"]


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_replaced(job, cluster, start, monkeypatch):
    monkeypatch.setattr(ray_engine, "_ASK_SECONDS", 0.5)
    monkeypatch.setattr(ray_engine, "_SILENT_SECONDS", 10.0)
    start(fake_workers.start_silent)
    found = results(job, cluster)
    assert found["s1"].attempts == 2
    assert len(found) == len(SHARDS)


@pytest.mark.slow
def test_stopping_finishes_or_abandons_running_shards(job, cluster, start):
    start(fake_workers.start_good)
    control, found = Control(), []
    for result in RayEngine(1, address=cluster).run(job, SHARDS, control):
        found.append(result.shard)
        control.stop()
    assert found == notes(job, "done") == ["s0"]

    start(fake_workers.start_all_slow)
    control = Control()

    def stop_when_begun():
        wait_for(lambda: notes(job, "begun"))
        control.stop(grace=0.0)

    thread = threading.Thread(target=stop_when_begun)
    thread.start()
    assert results(job, cluster, control=control) == {}
    thread.join()
    assert is_gone(int(next(Path(job.output).glob("*.begun")).read_text()))


@pytest.mark.slow
def test_workers_without_room_do_not_stop_the_others(job, cluster, start):
    start(fake_workers.start_good)
    with pytest.warns(UserWarning, match="room for 2 of 4"):
        found = results(job, cluster, workers=4, cpus_per_worker=2)
    assert len(found) == len(SHARDS)
    with pytest.warns(UserWarning, match="room for 0"), pytest.raises(JobError, match="64 CPUs"):
        results(job, cluster, cpus_per_worker=64, start_timeout=1.0)


@pytest.mark.slow
def test_the_handler_of_sigterm_is_kept(job, cluster, start):
    start(fake_workers.start_good)
    before = signal.getsignal(signal.SIGTERM)
    for _ in RayEngine(1, address=cluster).run(job, SHARDS[:1], Control()):
        assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_wrong_addresses_are_refused_at_once(job, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "init", lambda **options: pytest.fail("Ray tried to connect"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        other = f"127.0.0.1:{server.server_port}"
        for address in ("127.0.0.1:1", "ray://127.0.0.1:1", other, "http://127.0.0.1:8265", "head", "head:port", ":1"):
            with pytest.raises(ConfigError) as caught:
                results(job, address)
            assert caught.value.option == "address"
            assert "\n" not in str(caught.value)
        server.shutdown()


# With Ray and a model.


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_tables_are_equal_to_those_of_the_local_engine(corpus, cluster, workers):
    output = corpus / f"ray-{workers}"
    report = run(
        corpus / "in.jsonl",
        output,
        model=corpus / "model",
        engine=RayEngine(workers, address=cluster),
        settings=settings(),
    )
    assert report.is_finished
    assert report.rows["documents"] == 40
    assert report.rows["entities"] > 40
    assert fingerprints(output) == fingerprints(corpus / "local")


@pytest.mark.slow
def test_a_poisoned_shard_ends_in_errors_and_the_rest_completes(corpus, cluster, start):
    start(fake_workers.start_poisoned)
    output = corpus / "ray-poisoned"
    report = run(
        corpus / "poisoned.jsonl",
        output,
        model=corpus / "model",
        engine=RayEngine(2, address=cluster),
        settings=settings(max_attempts=2),
    )
    assert report.is_finished
    assert (report.rows["documents"], report.rows["errors"]) == (36, 4)
    errors = rows_of(output, "errors")
    assert [row["document_id"] for row in errors] == ["d12", "d13", "d14", "d15"]
    assert {row["attempts"] for row in errors} == {2}


@pytest.mark.slow
def test_killed_workers_and_drivers_leave_nothing_behind_and_the_job_is_resumed(corpus, cluster, environment, tmp_path):
    for name in ("model", "in.jsonl"):
        (tmp_path / name).symlink_to(corpus / name)
    printed, records = tmp_path / "printed", tmp_path / "out" / "shards"

    def n_done():
        return len(list(records.iterdir())) if records.is_dir() else 0

    # As for a user who has not chosen a token.
    environment = {name: value for name, value in environment.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    with printed.open("wb") as stream:
        driver = subprocess.Popen([sys.executable, "-c", _DRIVER, tmp_path], env=environment, stdout=stream)
    try:
        wait_for(lambda: n_done() or driver.poll() is not None)
        started = psutil.Process(driver.pid).children(recursive=True)
        workers = [process for process in started if "RayWorker" in "".join(process.cmdline())]
        assert len(workers) == 2
        workers[0].kill()
        n_before = n_done()
        wait_for(lambda: n_done() > n_before or driver.poll() is not None)
        assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait()
    wait_for(lambda: all(is_gone(process.pid) for process in started))
    assert printed.read_text() == ""
    assert not (tmp_path / ".ray").exists()
    assert 0 < n_done() < 10
    report = run(
        tmp_path / "in.jsonl",
        tmp_path / "out",
        model=tmp_path / "model",
        engine=RayEngine(2, address=cluster),
        settings=settings(),
        resume=True,
    )
    assert report.is_finished
    assert fingerprints(tmp_path / "out") == fingerprints(corpus / "local")


def test_workers_that_fail_to_start_are_counted_by_max_attempts():
    pool = SimpleNamespace(
        ray=SimpleNamespace(kill=lambda handle: None),
        control=Control(),
        job=SimpleNamespace(settings=CorpusSettings(max_attempts=5)),
        n_failed_starts=0,
        members=[],
    )
    for _ in range(4):
        pool.members.append(member := SimpleNamespace(handle=None, shard=None, is_ready=False))
        assert ray_engine._Pool._replace(pool, member, "it was killed") is None
    pool.members.append(member := SimpleNamespace(handle=None, shard=None, is_ready=False))
    with pytest.raises(JobError):
        ray_engine._Pool._replace(pool, member, "it was killed")
