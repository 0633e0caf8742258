"""A graph of made-up papers, and an explorer of it on its own port."""

import pytest

pytest.importorskip("duckdb")

from tests.apps.graph.explorer.live_graph import live_graph
from tests.apps.graph.explorer.made_graph import write_made_graph


@pytest.fixture(scope="session")
def made_graph(tmp_path_factory):
    """Folder of the graph. Do not write to it."""
    return write_made_graph(tmp_path_factory.mktemp("explorer") / "made")


@pytest.fixture(scope="session")
def explored(made_graph):
    """A client of the explorer."""
    with live_graph(made_graph) as client:
        yield client
