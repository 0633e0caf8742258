"""Sockets, addresses and the limit of open files."""

import socket
import sys

import pytest

from cascade_srn.apps.web.run import limit_open_files, listening_socket, service_url
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ConfigError

FREE = ServeSettings(port=0)


def test_any_free_port():
    with listening_socket(FREE) as one, listening_socket(FREE) as other:
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
        listening_socket(ServeSettings(host="no host"))
    assert caught.value.option == "host"


def test_ports_in_use():
    with listening_socket(FREE) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{port} of 127.0.0.1") as caught:
            listening_socket(ServeSettings(port=port))
    assert caught.value.option == "port"


@pytest.mark.skipif(not hasattr(socket, "TCP_DEFER_ACCEPT"), reason="this system has no such option")
def test_a_silent_connection_is_not_accepted():
    with listening_socket(FREE) as listening, socket.create_connection(listening.getsockname()):
        with socket.create_connection(listening.getsockname()) as client:
            client.sendall(b"GET")
            accepted, address = listening.accept()
            accepted.close()
            assert address == client.getsockname()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(("hard", "asked"), [(None, 8192), (4096, 4096), (1 << 20, 8192)])
def test_the_limit_of_open_files(monkeypatch, hard, asked):
    """None is no limit. The service continues if the system refuses to change the limit."""
    import resource

    requests = []

    def refuse(kind, limits):
        requests.append((kind, limits))
        raise ValueError("current limit exceeds maximum limit")

    most = resource.RLIM_INFINITY if hard is None else hard
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, most))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    limit_open_files()
    assert requests == [(resource.RLIMIT_NOFILE, (asked, most))]
