"""An explorer on its own port."""

from contextlib import contextmanager

from tests.apps.web.live_app import run_app

from cascade_srn.apps.graph.explorer.app import create_explorer
from cascade_srn.apps.graph.store import open_graph


@contextmanager
def live_graph(folder, settings=None, **options):
    """Serve a graph for the duration of the block, and yield a client."""
    with run_app(create_explorer(open_graph(folder), settings, **options), settings) as (_, client):
        yield client
