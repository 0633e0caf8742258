"""Sockets, addresses and signals."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.serving import ServeSettings
from cascade_srn.serving.queue import QueueClosed, Ticket
from cascade_srn.serving.run import address, allow_many_connections, listening_socket, make_server

ROOT = Path(__file__).parents[2]


def test_any_free_port():
    with listening_socket("127.0.0.1", 0) as one, listening_socket("127.0.0.1", 0) as other:
        assert one.getsockname()[1] != other.getsockname()[1]
        assert address("127.0.0.1", one) == f"http://127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("localhost", "localhost")],
)
def test_what_to_type_into_a_browser(host, shown):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert address(host, listening) == f"http://{shown}:{listening.getsockname()[1]}"


def test_hosts_that_do_not_exist():
    with pytest.raises(ConfigError, match=r"there is no host 'no host' \(.*\); give an address of this machine"):
        listening_socket("no host", 0)


def test_signals(extractor):
    """The first one stops gently; Ctrl-C after that stops at once; SIGTERM is never hasty."""
    server = make_server(extractor, ServeSettings())
    assert not server.engine.is_stopping
    server.handle_exit(signal.SIGTERM, None)
    assert server.engine.is_stopping
    server.engine.waiting.put(Ticket([]))  # of a request that was there before
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit
    with pytest.raises(QueueClosed):
        server.engine.waiting.put(Ticket([]))


STOPPED_AT_WORK = """
import os, signal, sys, threading
import httpx
from tests.serving.live import TEXT, Held, until
from cascade_srn.serving import ServeSettings, routes, serve

held = Held()
drawing = threading.Event()

def draw(document, schema):
    drawing.set()
    threading.Event().wait()

routes.DRAWINGS["html"] = draw, "text/html"

def stop_at_work(address):
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
    threading.Thread(target=stop_at_work, args=(address,), daemon=True).start()

serve(held.extractor, ServeSettings(port=0, shutdown_seconds=0.05), on_ready=ready)
print("returned")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself this signal there")
@pytest.mark.parametrize("what", ["model", "drawing"])
def test_work_that_does_not_end_does_not_keep_the_process(what):
    command = [sys.executable, "-c", STOPPED_AT_WORK, what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "at work\n"), done.stderr
    assert "what is still in work after the time to stop is given up" in done.stderr


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
def test_files_that_may_be_open(monkeypatch, now, most, asked):
    """None is no limit. Some systems refuse to have none, and whatever they refuse, the service goes on."""
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
