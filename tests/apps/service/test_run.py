"""The service in one process and in several: signals, workers that die, models that cannot be loaded."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from tests.apps.service.live import TEXT, random_extractor
from tests.apps.web.live_app import PATIENCE
from tests.processes import command_line

from cascade_srn.apps.service import run
from cascade_srn.apps.service.run import ModelSource, serve
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.lab.benchmarks.serve import is_equal

ROOT = Path(__file__).parents[3]

STOP_DURING_WORK = """
import os, signal, sys, threading
import httpx
from tests.apps.service.live import TEXT, Held
from tests.apps.web.live_app import until
from cascade_srn.apps.service import app
from cascade_srn.apps.service.run import serve
from cascade_srn.apps.web.settings import ServeSettings

held = Held()
drawing = threading.Event()

def draw(document, schema):
    drawing.set()
    threading.Event().wait()

app.DRAWINGS["html"] = draw, "text/html"

def stop_during_work(address):
    if sys.argv[1] == "model":
        held.hold()
        asked, is_at_work = ("/extract", {"text": TEXT}), lambda: held.n_waiting == 1
    else:
        asked, is_at_work = ("/draw", {"document": {"text": "a", "sentences": [[[0, 1]]]}}), drawing.is_set
    path, body = asked
    threading.Thread(target=lambda: httpx.post(address + path, json=body), daemon=True).start()
    until(is_at_work)
    print("at work")
    os.kill(os.getpid(), signal.SIGTERM)

def ready(address):
    threading.Thread(target=stop_during_work, args=(address,), daemon=True).start()

serve(held.extractor, ServeSettings(port=0, shutdown_seconds=0.05), on_ready=ready)
print("returned")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself this signal there")
@pytest.mark.parametrize("what", ["model", "drawing"])
def test_endless_work_does_not_keep_the_process_alive(what):
    command = [sys.executable, "-c", STOP_DURING_WORK, what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "at work\n"), done.stderr
    assert "shutdown" in done.stderr


def test_several_workers_need_a_function_that_can_be_pickled():
    with pytest.raises(ConfigError) as caught:
        serve(random_extractor(), ServeSettings(port=0, workers=2))
    assert caught.value.option == "workers"
    with pytest.raises(ConfigError):
        serve(lambda: random_extractor(), ServeSettings(port=0, workers=2))


def test_gpus_and_cores_are_shared_out(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "count_cores", lambda: 8)
    devices = {"auto": ["cuda:0", "cuda:1"], "cpu": ["cpu"]}
    monkeypatch.setattr(run, "find_devices", lambda device, model: devices[device])
    slots = run.worker_slots(ModelSource(tmp_path), 3)
    assert [slot.device for slot in slots] == ["cuda:0", "cuda:1", "cuda:0"]
    assert {slot.n_threads for slot in slots} == {2}
    assert {slot.device for slot in run.worker_slots(ModelSource(tmp_path, "cpu"), 3)} == {"cpu"}


def wait_until(condition):
    """Wait until a condition holds, for as long as a process may take to import torch on a busy machine."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="uses signals of POSIX")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_two_workers_answer_survive_the_death_of_one_and_end_with_their_parent(tmp_path, end):
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
                """Return the workers that live, without the resource tracker of Python."""
                return {child.pid for child in parent.children() if "spawn_main" in command_line(child)}

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
            process.send_signal(end)
            assert process.wait(PATIENCE) == (0 if end == signal.SIGTERM else -end)
            wait_until(lambda: not any(map(psutil.pid_exists, last)))
        finally:
            process.kill()


def fail_to_load():
    raise ModelError("there is no model here")


FAILING_WORKERS = """
from tests.apps.service.test_run import fail_to_load
from cascade_srn.apps.service.run import serve
from cascade_srn.apps.web.settings import ServeSettings

if __name__ == "__main__":
    serve(fail_to_load, ServeSettings(port=0, workers=2))
"""


@pytest.mark.slow
def test_workers_that_cannot_load_their_model_end_the_service(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FAILING_WORKERS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ModelError: there is no model here" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("cascade_srn.errors.CascadeError: a worker could not load")
