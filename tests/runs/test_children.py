import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tests.processes import is_alive

from cascade_srn.errors import CascadeError
from cascade_srn.runs.children import call_once, run_parallel

pytestmark = pytest.mark.slow


def test_all_are_run_each_with_its_log_and_code(tmp_path):
    commands = {"good": ["--version"], "bad": ["no-such-command"], "other": ["--version"]}
    ended = {each.name: each for each in run_parallel(commands, 2, tmp_path / "logs")}
    assert {name: each.code for name, each in ended.items()} == {"good": 0, "bad": 2, "other": 0}
    assert ended["good"].last_words.startswith("cascade-srn ")
    assert "no-such-command" in ended["bad"].log.read_text(encoding="utf-8")
    assert ended["bad"].log == tmp_path / "logs" / "bad.log"


def test_closing_the_iterator_ends_the_others(tmp_path, monkeypatch):
    started = []
    import subprocess

    true_popen = subprocess.Popen

    def popen(command, **options):
        # The first command ends at once, the others sleep.
        replaced = ["sleep", "0" if not started else "600"]
        started.append(true_popen(replaced, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    runs = run_parallel({"short": [], "long": [], "longer": []}, 3, tmp_path)
    assert next(runs).name == "short"
    runs.close()
    assert [process.returncode for process in started] == [0, -signal.SIGTERM, -signal.SIGTERM]
    for process in started[1:]:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


OTHER_PARENT = """
import sys
from pathlib import Path
from cascade_srn.runs.children import start_child
print(start_child("http.server", "0", log=Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


def test_a_child_ends_with_a_killed_parent(tmp_path):
    command = [sys.executable, "-c", OTHER_PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not is_alive(child.pid)


def test_call_once_returns_raises_and_survives(tmp_path):
    log = tmp_path / "log"
    assert call_once(pow, 2, 5, log=log, timeout=60) == 32
    with pytest.raises(CascadeError, match="ZeroDivisionError"):
        call_once(divmod, 1, 0, log=log, timeout=60)
    with pytest.raises(CascadeError, match="exit code 3"):
        call_once(os._exit, 3, log=log, timeout=60)
    with pytest.raises(CascadeError, match="SIGKILL"):
        call_once(time.sleep, 600, log=log, timeout=1.0)


PARENT = """
import sys
from pathlib import Path
import cascade_srn.runs.children as module
module.sys.executable = sys.argv[1]
for _ in module.run_parallel({"one": [], "other": []}, 2, Path(sys.argv[2])):
    pass
"""


def test_terminating_the_parent_ends_the_others(tmp_path):
    """Schedulers send SIGTERM, and no training must go on unnoticed."""
    waiting = tmp_path / "waiting"
    waiting.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 600\n", encoding="utf-8")
    waiting.chmod(0o755)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(waiting), str(tmp_path / "logs")])
    pids = tmp_path / "pids"
    while not (pids.is_file() and len(pids.read_text().split()) == 2):
        assert parent.poll() is None
        time.sleep(0.02)
    parent.terminate()
    assert parent.wait(60) == 128 + signal.SIGTERM
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
