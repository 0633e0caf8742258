"""``cascade-srn serve``: startup, shutdown, closed streams and errors."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from tests.apps.web.live_app import PATIENCE, until
from tests.cli.conftest import failure, run, start

from cascade_srn.cli.serve import is_loopback


@pytest.fixture
def model(tiny_model_folder):
    return tiny_model_folder


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("CASCADE_SRN_API_KEY", raising=False)


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


class Process:
    """The command in a new process. The constructor returns when the service listens."""

    def __init__(self, *arguments):
        self.process = start(
            "serve", *arguments, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")))
        self._reader.start()
        until(lambda: self.url is not None or self.process.poll() is not None)
        assert self.url is not None, self.lines

    @property
    def url(self):
        found = [
            re.search(r"Serving tiny at (http://127\.0\.0\.1:\d+) \(Ctrl-C stops it\)", line) for line in self.lines
        ]
        return next((match[1] for match in found if match), None)

    def end(self, sent):
        self.process.send_signal(sent)
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code


@pytest.fixture
def started():
    running = []

    def start(*arguments):
        running.append(Process(*arguments))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        one.process.stderr.close()


@pytest.mark.slow
def test_sigterm_finishes_accepted_requests(started, model, tmp_path):
    (tmp_path / "key").write_text("abc\n", encoding="ascii")
    service = started("--model", model, "--port", 0, "--batch-words", 16, "--api-key-file", tmp_path / "key")
    assert httpx.get(f"{service.url}/schema").status_code == 401
    texts = [f"This is text {number} about taggers . " * 60 for number in range(20)]
    with httpx.Client(base_url=service.url, timeout=PATIENCE, headers={"X-API-Key": "abc"}) as client:
        assert client.get("/schema").json()["model"]["name"] == "tiny"
        answers = []
        asking = threading.Thread(target=lambda: answers.append(client.post("/extract", json={"texts": texts})))
        asking.start()
        with httpx.Client(base_url=service.url, headers={"X-API-Key": "abc"}) as watcher:
            # The request has started and is not finished.
            until(lambda: re.search(r"cascade_srn_queue_words [1-9]", watcher.get("/metrics").text))
        code = service.end(signal.SIGTERM)
        asking.join()
    assert code == 0
    assert answers[0].status_code == 200
    assert [document["text"] for document in answers[0].json()["documents"]] == texts
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/health")
    logged = [line for line in service.lines if "POST /extract 200 " in line]
    assert len(logged) == 1
    assert "taggers" not in "".join(service.lines)
    assert "Traceback" not in "".join(service.lines)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(model, closed, tmp_path):
    """No socket gets the descriptor of a closed stream, and the service works without them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    command = f'"{sys.executable}" -m cascade_srn serve --model "{model}" --port {port} 2>"{log}" {closed}'
    process = subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"

        def ready():
            assert process.poll() is None, log.read_text(encoding="utf-8")
            try:
                return httpx.get(f"{url}/ready").status_code == 200
            except httpx.TransportError:
                return False

        until(ready)
        assert httpx.post(f"{url}/extract", json={"text": "A tagger."}).status_code == 200
        for descriptor in range(3) if sys.platform == "linux" else ():
            assert not os.readlink(f"/proc/{process.pid}/fd/{descriptor}").startswith("socket:")
    finally:
        process.terminate()
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_a_port_in_use(capsys, model, taken_port):
    assert str(taken_port) in failure(capsys, "serve", "--model", model, "--port", taken_port)


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_key_in_the_environment(capsys, model, monkeypatch, value):
    monkeypatch.setenv("CASCADE_SRN_API_KEY", value)
    assert "CASCADE_SRN_API_KEY" in failure(capsys, "serve", "--model", model, "--port", 0)


def test_reachable_without_a_key(capsys, model):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        assert run("serve", "--model", model, "--port", taken.getsockname()[1], "--host", "0.0.0.0") == 2
    assert capsys.readouterr().err.startswith("Warning: 0.0.0.0 ")


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)]
)
def test_loopback(host, loopback):
    assert is_loopback(host) == loopback


def test_a_model_that_cannot_be_loaded(capsys, model, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text(json.dumps({"format_version": 99}), encoding="utf-8")
    assert "99" in failure(capsys, "serve", "--model", broken, "--port", 0)


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["--model", "./nowhere"], "'./nowhere'"),
        (["--port", "70000"], "port is 70000"),
        (["--batch-words", "0"], "batch_words is 0"),
        (["--batch-wait", "2"], "batch_wait is 2.0"),
        (["--queue-texts", "0"], "queue_texts is 0"),
        (["--queue-words", "0"], "queue_words is 0"),
        (["--max-bytes", "0"], "limits.body_bytes is 0"),
        (["--max-texts", "0"], "limits.texts is 0"),
        (["--max-characters", "0"], "limits.characters is 0"),
        (["--min-threshold", "2"], "limits.threshold is 2.0"),
        (["--timeout", "0"], "request_seconds is 0.0"),
        (["--shutdown-timeout", "0"], "shutdown_seconds is 0.0"),
        (["--precision", "half", "--port", "0"], "'half'"),
        (["--overlaps", "some"], "'some'"),
        (["--constraints", "yes", "--port", "0"], "'yes'"),
        (["--cors-origin", "foo"], "'foo'"),
        (["--keep-alive", "0"], "keep_alive_seconds is 0.0"),
        (["--max-requests", "0"], "max_requests is 0"),
        (["--bodies-bytes", "1000"], "bodies_bytes is 1000"),
        (["--allowed-host", "http://a"], "'http://a'"),
        (["--api-key-file", "no-such-file"], "no-such-file"),
        (["--device", "gpu"], "'gpu'"),
    ],
)
def test_errors_are_one_line(capsys, model, arguments, data):
    assert data in failure(capsys, "serve", "--model", model, *arguments)


def test_an_address_that_is_not_ours(capsys, model):
    assert run("serve", "--model", model, "--host", "192.0.2.1") == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert "192.0.2.1" in warning
    assert error.startswith("Error: ")


def test_a_missing_extra(capsys, model, monkeypatch):
    for name in ("service.run", "web.run"):
        monkeypatch.delitem(sys.modules, f"cascade_srn.apps.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "'cascade-srn[serve]'" in failure(capsys, "serve", "--model", model)
