"""Ctrl-C while modules are imported or a model is loaded: exit code 130 and no traceback."""

import signal
import subprocess
import sys

import pytest

# Raises KeyboardInterrupt when a certain module is imported, as Ctrl-C at that moment does.
INTERRUPTED_IMPORT = """
import runpy, sys

interrupted = sys.argv.pop(1)

class Interrupter:
    def find_spec(self, name, *_):
        if name == interrupted:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupter())
runpy.run_module("cascade_srn", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module", ["typer", "cascade_srn.cli.failures", "cascade_srn.cli.project", "cascade_srn.apps.annotation.exchange"]
)
def test_during_imports(tmp_path, module):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "project", "create", "p", "t"]
    (tmp_path / "t").write_text("A text.", encoding="utf-8")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "p").exists()


LOADING = """
import sys, threading
from cascade_srn.apps.service import run
from cascade_srn.cli import main

def load(source):
    print("loading", flush=True)
    threading.Event().wait()

run.ModelSource.__call__ = load
main(["serve", "--port", "0"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="uses signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_while_serve_loads_a_model(number, code):
    with subprocess.Popen(
        [sys.executable, "-c", LOADING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "loading\n"
            process.send_signal(number)
            _, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == code, errors
    assert "Traceback" not in errors
