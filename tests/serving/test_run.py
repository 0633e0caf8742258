"""Sockets, addresses and signals."""

import signal
import socket

import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.serving import ServeSettings
from cascade_srn.serving.run import address, listening_socket, make_server


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
    assert not server.engine.waiting.is_closed
    server.handle_exit(signal.SIGTERM, None)
    assert server.engine.waiting.is_closed
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit
