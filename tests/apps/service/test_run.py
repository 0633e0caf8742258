"""Sockets, addresses and signals."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cascade_srn.apps.service.queue import QueueClosed, QueuedRequest
from cascade_srn.apps.service.run import allow_many_connections, listening_socket, make_server, service_url
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ConfigError

ROOT = Path(__file__).parents[3]


def test_any_free_port():
    with listening_socket("127.0.0.1", 0) as one, listening_socket("127.0.0.1", 0) as other:
        assert one.getsockname()[1] != other.getsockname()[1]
        assert service_url("127.0.0.1", one) == f"http://127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("localhost", "localhost")],
)
def test_the_url_for_a_browser(host, shown):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert service_url(host, listening) == f"http://{shown}:{listening.getsockname()[1]}"


def test_hosts_that_do_not_exist():
    with pytest.raises(ConfigError, match="'no host'") as caught:
        listening_socket("no host", 0)
    assert caught.value.option == "host"


def test_ports_in_use():
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{port} of 127.0.0.1") as caught:
            listening_socket("127.0.0.1", port)
    assert caught.value.option == "port"


def test_signals(extractor):
    """The first signal starts a graceful shutdown. A second Ctrl-C forces it, a second SIGTERM does not."""
    server = make_server(extractor, ServeSettings())
    assert not server.engine.is_stopping
    server.handle_exit(signal.SIGTERM, None)
    assert server.engine.is_stopping
    server.engine.queue.put(QueuedRequest([]))  # a request that arrived before
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit
    with pytest.raises(QueueClosed):
        server.engine.queue.put(QueuedRequest([]))


STOP_DURING_WORK = """
import os, signal, sys, threading
import httpx
from tests.apps.service.live import TEXT, Held, until
from cascade_srn.apps.service import routes
from cascade_srn.apps.service.workers import serve
from cascade_srn.apps.web.settings import ServeSettings

held = Held()
drawing = threading.Event()

def draw(document, schema):
    drawing.set()
    threading.Event().wait()

routes.DRAWINGS["html"] = draw, "text/html"

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


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(
    ("now", "most", "asked"),
    [
        (256, None, (65_536, None)),
        (1024, 4096, (4096, 4096)),
        (1024, 1 << 20, (65_536, 1 << 20)),
        (4096, 4096, None),
        (100_000, 1 << 20, None),
        (None, None, None),
    ],
)
def test_the_limit_of_open_files(monkeypatch, now, most, asked):
    """None is no limit. The service continues if the system refuses to change the limit."""
    import resource

    def number(limit):
        return resource.RLIM_INFINITY if limit is None else limit

    requests = []

    def refuse(kind, limits):
        requests.append((kind, limits))
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (number(now), number(most)))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    allow_many_connections()
    assert requests == ([] if asked is None else [(resource.RLIMIT_NOFILE, tuple(map(number, asked)))])
