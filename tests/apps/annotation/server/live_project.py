"""An annotation service in this process, with a client."""

from contextlib import contextmanager

from fastapi.testclient import TestClient

from cascade_srn.apps.annotation.server.app import create_annotator
from cascade_srn.apps.web.settings import ServeSettings

HERE = "http://127.0.0.1"


@contextmanager
def live_project(project, **settings):
    """Yield a client of the service of a project."""
    app = create_annotator(project, ServeSettings(**settings))
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield client
