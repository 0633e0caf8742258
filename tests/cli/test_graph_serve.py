"""``cascade-srn graph serve``: options, errors, and a run that a signal ends."""

import re
import signal
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("duckdb")

from tests.apps.graph.conftest import write_sample

from cascade_srn.cli import app


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("serve") / "my-graph")


@pytest.mark.parametrize(
    "arguments", [["--port", "70000"], ["--allowed-host", "http://a/b"], ["--host", "no.such.host.invalid"]]
)
def test_invalid_options(graph, arguments):
    result = CliRunner().invoke(app, ["graph", "serve", str(graph), *arguments])
    assert result.exit_code == 2
    assert arguments[0] in result.output
    assert "Traceback" not in result.output


def test_folder_without_a_graph(tmp_path):
    result = CliRunner().invoke(app, ["graph", "serve", str(tmp_path)])
    assert result.exit_code == 2
    assert str(tmp_path) in result.output.replace("\n", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="uses signals of POSIX")
def test_a_graph_is_served_until_a_signal(graph):
    command = [sys.executable, "-m", "cascade_srn", "graph", "serve", str(graph), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", first)[0]
        assert "my-graph" in first
        assert httpx.get(f"{address}/api/overview", timeout=60).json()["n_nodes"] == 5
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
