"""``cascade-srn serve``: started as users start it, stopped as systems stop it."""

import inspect
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
from tests.cli.conftest import output_and_modules, start
from tests.cli.conftest import run as run_command
from tests.serving.live import PATIENCE, until
from tests.small_models import small_model

from cascade_srn.cli.serve import OPTIONS, _is_loopback, serve


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    small_model().save(folder)
    return folder


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("CASCADE_SRN_API_KEY", raising=False)


def run(capsys, *arguments):
    return run_command("serve", *arguments), capsys.readouterr().err


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


class Process:
    """The command in a process of its own, once it says where it serves."""

    def __init__(self, *arguments, limit=None):
        def lower():
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        self.process = start(
            "serve",
            *arguments,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            preexec_fn=lower if limit else None,
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

    def start(*arguments, **named):
        running.append(Process(*arguments, **named))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        one.process.stderr.close()


@pytest.mark.slow
def test_what_it_took_is_finished_on_sigterm(started, model, tmp_path):
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
            # Begun, and not all of it.
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
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_file_descriptors_do_not_run_out(started, model):
    """Silent connections make room for a request, all of them are still open at the client, and the log stays short."""
    service = started("--model", model, "--port", 0, "--quiet", limit=96)
    place = "127.0.0.1", int(service.url.rpartition(":")[2])
    held = [socket.create_connection(place, timeout=PATIENCE) for _ in range(150)]
    assert httpx.get(f"{service.url}/health").status_code == 200
    figures = httpx.get(f"{service.url}/metrics").text
    for one in held:
        one.close()
    assert 'cascade_srn_connections_dropped_total{reason="no_files"} 0' in figures
    evicted = re.search(r'cascade_srn_connections_dropped_total{reason="evicted"} ([0-9]+)', figures)
    assert int(evicted[1]) > 50
    assert service.end(signal.SIGTERM) == 0
    assert len(service.lines) == 1, service.lines


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(model, closed, tmp_path):
    """No socket takes their descriptors, and nothing fails for want of them."""
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_nobody_reads_standard_error(model):
    """The line that says where it serves cannot be written, and the model works on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reading, writing = os.pipe()
    os.close(reading)
    process = start("serve", "--model", model, "--port", port, stderr=writing)
    os.close(writing)
    try:

        def answered():
            assert process.poll() is None
            try:
                return httpx.post(f"http://127.0.0.1:{port}/extract", json={"text": "A tagger."}).status_code == 200
            except httpx.TransportError:
                return False

        until(answered)
    finally:
        process.terminate()
    assert process.wait(PATIENCE) == 0


def test_a_port_in_use(capsys, model, taken_port):
    code, told = run(capsys, "--model", model, "--port", taken_port)
    assert code == 2
    assert told == (
        f"Error: port {taken_port} of 127.0.0.1 is in use; stop what uses it, or give another --port (0 is any free "
        "one)\n"
    )


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_key_in_the_environment(capsys, model, monkeypatch, value):
    monkeypatch.setenv("CASCADE_SRN_API_KEY", value)
    code, told = run(capsys, "--model", model, "--port", 0)
    assert code == 2
    assert told == (
        "Error: the environment variable CASCADE_SRN_API_KEY is set but empty; set it to the key, or unset it to "
        "serve without one\n"
    )


def test_reachable_without_a_key(capsys, model):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        code, told = run(capsys, "--model", model, "--port", taken.getsockname()[1], "--host", "0.0.0.0")
    assert code == 2
    assert told.startswith("Warning: 0.0.0.0 can be reached from elsewhere, and there is no API key.\n")


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)]
)
def test_what_can_be_reached_from_elsewhere(host, loopback):
    assert _is_loopback(host) == loopback


def test_a_model_that_cannot_be_loaded(capsys, model, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text(json.dumps({"format_version": 99}), encoding="utf-8")
    code, told = run(capsys, "--model", broken, "--port", 0)
    assert code == 2
    assert told.startswith("Error: the model in ")
    assert "has format version 99" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "./nowhere"], "there is no model folder './nowhere'"),
        (["--port", "70000"], "Error: --port is 70000; give a number from 0 to 65535"),
        (["--batch-words", "0"], "Error: --batch-words is 0; give a number at least 1"),
        (["--batch-wait", "2"], "Error: --batch-wait is 2.0; give a number from 0 to 1"),
        (["--queue-texts", "0"], "Error: --queue-texts is 0; give a number at least 1"),
        (["--queue-words", "0"], "Error: --queue-words is 0; give a number at least 1"),
        (["--max-bytes", "0"], "Error: --max-bytes is 0; give a number at least 1"),
        (["--max-texts", "0"], "Error: --max-texts is 0; give a number at least 1"),
        (["--max-characters", "0"], "Error: --max-characters is 0; give a number at least 1"),
        (["--min-threshold", "2"], "Error: --min-threshold is 2.0; give a number from 0 to 1"),
        (["--timeout", "0"], "Error: --timeout is 0.0; give a number from 0.01"),
        (["--shutdown-timeout", "0"], "Error: --shutdown-timeout is 0.0; give a number from 0.01"),
        (["--precision", "half", "--port", "0"], "Error: --precision is 'half'"),
        (
            ["--cors-origin", "foo"],
            "Error: --cors-origin is 'foo', which no browser sends as an origin; give https://example.org, a scheme "
            "and a host, or * for every origin",
        ),
        (["--head-timeout", "0"], "Error: --head-timeout is 0.0; give a number from 0.01"),
        (["--keep-alive", "0"], "Error: --keep-alive is 0.0; give a number from 0.01"),
        (["--max-connections", "0"], "Error: --max-connections is 0; give a number at least 1"),
        (
            ["--max-connections", str(1 << 40), "--port", "0"],
            f"Error: --max-connections is {1 << 40}, but the limit of open files allows ",
        ),
        (
            ["--bodies-bytes", "1000"],
            "Error: --bodies-bytes is 1000, but one body may have 2097152 bytes; give at least as many",
        ),
        (["--allowed-host", "http://a"], "Error: --allowed-host is 'http://a'; give a name or an address without"),
        (["--api-key-file", "no-such-file"], "no-such-file: No such file or directory"),
        (["--device", "gpu"], "there is no device 'gpu'"),
    ],
)
def test_mistakes_are_one_sentence(capsys, arguments, message):
    code, told = run(capsys, *arguments)
    assert code == 2
    assert message in told
    assert told.count("\n") == 1


def test_options_are_called_by_names_that_they_have():
    known = inspect.signature(serve).parameters
    assert {option.removeprefix("--").replace("-", "_") for option in OPTIONS.values()} <= set(known)


def test_an_address_that_is_not_ours(capsys, model):
    code, told = run(capsys, "--model", model, "--host", "192.0.2.1")
    assert code == 2
    assert "port 8000 of 192.0.2.1 cannot be listened at" in told


def test_a_missing_extra(capsys, model, monkeypatch):
    monkeypatch.delitem(sys.modules, "cascade_srn.serving.run", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, told = run(capsys, "--model", model)
    assert code == 2
    assert told == "Error: uvicorn is not installed; install it by pip install 'cascade-srn[serve]'\n"


def test_help_needs_neither_torch_nor_the_extra():
    text, modules = output_and_modules("serve", "--help")
    assert "--port" in text
    assert not modules & {"torch", "fastapi", "uvicorn", "starlette"}
