"""An explorer on its own port."""

import threading
from contextlib import contextmanager

import httpx
from tests.apps.service.live import PATIENCE, until

from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.graph.explorer.app import create_explorer
from cascade_srn.apps.service.run import HttpServer, listening_socket, server_config
from cascade_srn.apps.web.settings import ServeSettings


@contextmanager
def live_graph(folder, settings=None):
    """Serve a graph for the duration of the block, and yield a client."""
    settings = ServeSettings(port=0) if settings is None else settings
    with listening_socket("127.0.0.1", 0) as listening:
        app = create_explorer(Explorer(folder), settings)
        server = HttpServer(server_config(app, settings, app.state.metrics), app.state.metrics)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE) as client:
                until(lambda: client.get("/health").status_code == 200)
                yield client
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
