"""Several worker processes behind one port."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest
from tests.apps.service.live import PATIENCE, TEXT, random_extractor

from cascade_srn.apps.service import workers
from cascade_srn.apps.service.run import listening_socket
from cascade_srn.apps.service.workers import ModelSource, WorkerPool, serve
from cascade_srn.apps.web.metrics import WorkerMetrics, merge_metrics
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import CascadeError, ConfigError, ModelError
from cascade_srn.lab.benchmarks.serve import is_equal


def load():
    raise AssertionError("no model is loaded in these tests")


class FakeProcess:
    """A process that lives until a test ends it."""

    def __init__(self, args, **_):
        self.control, self.is_replacement = args[6], args[8]
        self.exitcode = None
        self.sentinel, self._other = os.pipe()
        self.signals = []

    def start(self):
        # The parent closes its copy after the start, as that of a real process.
        self.control = os.dup(self.control.fileno())

    def is_alive(self):
        return self.exitcode is None

    def end(self, code):
        self.exitcode = code
        os.close(self._other)

    def terminate(self):
        self.signals.append("terminate")
        self.exitcode = 0 if self.exitcode is None else self.exitcode

    def kill(self):
        self.signals.append("kill")

    def join(self, timeout=None):
        pass


@pytest.fixture
def pool(tmp_path, monkeypatch):
    with listening_socket("127.0.0.1", 0) as listening:
        made = WorkerPool(load, ServeSettings(workers=2), listening, tmp_path)
        monkeypatch.setattr(made._context, "Process", lambda target, **named: FakeProcess(**named), raising=False)
        yield made


def say(pool, number, message):
    with workers.Connection(os.dup(pool.workers[number].process.control)) as control:
        control.send(message)
    pool._look()


def start_both(pool):
    for number in range(2):
        pool._start(number)
    for number in range(2):
        say(pool, number, "loaded")
    pool.is_ready = all(worker.is_loaded for worker in pool.workers.values())
    assert pool.is_ready


def test_a_worker_that_dies_is_replaced_by_one_that_loads_its_model_first(pool, monkeypatch):
    monkeypatch.setattr(workers, "_EARLY_SECONDS", 0)
    start_both(pool)
    first, second = (pool.workers[number].process for number in range(2))
    assert not first.is_replacement
    first.end(-9)
    pool._look()
    assert pool.workers[1].process is second
    assert pool.workers[0].process is not first
    assert pool.workers[0].process.is_replacement
    assert not pool.workers[0].is_loaded


def test_a_worker_that_dies_early_is_replaced_later(pool):
    start_both(pool)
    for n_early in (1, 2):
        pool.workers[0].process.end(1)
        pool._look()
        assert 0 not in pool.workers
        assert pool._n_early[0] == n_early
        assert pool._restarts[0] > time.monotonic() + n_early - 1.5
        pool._restarts[0] = 0.0
        pool._look()
        assert 0 in pool.workers


def test_a_model_that_cannot_be_loaded_ends_the_service(pool):
    for number in range(2):
        pool._start(number)
    say(pool, 0, ModelError("no weights", "Check the folder"))
    pool.workers[0].process.end(1)
    with pytest.raises(ModelError) as caught:
        pool._look()
    assert caught.value.hint == "Check the folder"


def test_a_worker_that_dies_before_the_service_is_ready_ends_it(pool):
    for number in range(2):
        pool._start(number)
    pool.workers[1].process.end(-9)
    with pytest.raises(CascadeError) as caught:
        pool._look()
    assert caught.value.option == "workers"


def test_all_workers_are_ended(pool):
    ready = []

    def stop():
        ready.append(True)
        pool.stop()

    started = pool._start

    def start(number):
        started(number)
        with workers.Connection(os.dup(pool.workers[number].process.control)) as control:
            control.send("loaded")
        processes.append(pool.workers[number].process)

    processes = []
    pool._start = start
    pool.run(stop)
    assert ready == [True]
    assert [process.signals for process in processes] == 2 * [["terminate", "kill"]]
    assert not pool.workers


def test_several_workers_need_a_function_that_can_be_pickled():
    with pytest.raises(ConfigError) as caught:
        serve(random_extractor(), ServeSettings(workers=2))
    assert caught.value.option == "workers"
    with pytest.raises(ConfigError):
        serve(lambda: random_extractor(), ServeSettings(workers=2))


def test_gpus_and_cores_are_shared_out(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "count_cores", lambda: 8)
    devices = {"auto": ["cuda:0", "cuda:1"], "cpu": ["cpu"]}
    monkeypatch.setattr(workers, "find_devices", lambda device, model: devices[device])
    slots = workers.worker_slots(ModelSource(tmp_path), 3)
    assert [slot.device for slot in slots] == ["cuda:0", "cuda:1", "cuda:0"]
    assert {slot.n_threads for slot in slots} == {2}
    assert {slot.device for slot in workers.worker_slots(ModelSource(tmp_path, "cpu"), 3)} == {"cpu"}


def test_metrics_have_a_label_for_each_worker(tmp_path):
    first, second = (WorkerMetrics(number, tmp_path) for number in range(2))
    first.texts.inc(3)
    second.texts.inc(5)
    second.requests.labels("/extract", 200).inc()
    second.write()
    text = first.render().decode()
    assert 'cascade_srn_texts_total{worker="0"} 3.0\ncascade_srn_texts_total{worker="1"} 5.0\n' in text
    assert text.count("# HELP cascade_srn_texts_total ") == 1
    assert 'cascade_srn_requests_total{route="/extract",status="200",worker="1"} 1.0\n' in text
    (tmp_path / "1.prom").unlink()
    assert 'worker="1"' not in first.render().decode()


def test_metrics_that_only_one_worker_has_are_kept():
    one, two = "# HELP a x\n# TYPE a gauge\na 1\n", "# HELP b x\n# TYPE b gauge\nb 2\n# HELP a x\n# TYPE a gauge\na 3\n"
    assert merge_metrics([one, two]) == "# HELP a x\n# TYPE a gauge\na 1\na 3\n# HELP b x\n# TYPE b gauge\nb 2\n"


def wait_until(condition):
    """Wait until a condition holds, for as long as a process may take to import torch on a busy machine."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_two_workers_answer_and_survive_the_death_of_one(tmp_path):
    psutil = pytest.importorskip("psutil")
    extractor = random_extractor()
    extractor.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "cascade_srn", "serve", "--model", str(tmp_path / "model"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--workers", "2", "--device", "cpu"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            url = next(line for line in process.stderr if " at http" in line).split(" at ")[1].split()[0]
            expected = [json.loads(json.dumps(extractor.extract(TEXT).to_dict()))]

            def answer():
                # A new connection each time, which any worker may accept.
                found = httpx.post(f"{url}/extract", json={"text": TEXT}, timeout=PATIENCE)
                assert found.status_code == 200, found.text
                assert is_equal(found.json()["documents"], expected)

            def pids():
                return {child.pid for child in parent.children() if "spawn_main" in " ".join(child.cmdline())}

            parent = psutil.Process(process.pid)
            before = pids()
            assert len(before) == 2
            answer()
            os.kill(min(before), signal.SIGKILL)
            for _ in range(3):
                answer()
            wait_until(lambda: len(pids()) == 2 and min(before) not in pids())
            wait_until(lambda: len(re.findall('ready{worker="[01]"} 1', httpx.get(f"{url}/metrics").text)) == 2)
            answer()
            last = pids()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            assert not any(map(psutil.pid_exists, last))
        finally:
            process.kill()
