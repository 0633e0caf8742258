"""The annotation service as an ASGI application: JSON about a project, and a page to annotate it."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import Scope

from cascade_srn.apps.annotation.learning import Learner
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.server.routes import AnnotationBody, project_routes
from cascade_srn.apps.web.app import WebPart, create_web_app
from cascade_srn.apps.web.assets import page_assets
from cascade_srn.apps.web.bodies import BodyReader
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.middleware import Check
from cascade_srn.apps.web.refusals import Refusal
from cascade_srn.apps.web.run import serve_app
from cascade_srn.apps.web.settings import ServeSettings

logger = logging.getLogger("cascade_srn.apps.annotation")

DESCRIPTION = "Documents, annotations and training of a project. Every error has a code, a problem and a hint."
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class OriginCheck(Check):
    """Refuses changes that a page of another origin asks for.

    Browsers send some requests of foreign pages, such as a POST without a body, without asking the service first.
    """

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return a refusal if the request is a change and comes from another origin."""
        if scope["method"] in SAFE_METHODS:
            return None
        headers = Headers(scope=scope)
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            is_own = site in ("same-origin", "none")
        else:
            is_own = origin is None or urlsplit(origin).netloc == headers.get("host")
        if is_own:
            return None
        return Refusal(403, "foreign_origin", "the request comes from a page of another site", "Use the page itself")


BODIES = {f"/api/documents/{{id}}/{name}": AnnotationBody for name in ("annotation", "adjudication")}


def create_annotator(project: Project, settings: ServeSettings | None = None) -> FastAPI:
    """Make the ASGI application that serves a project.

    The project is closed with the lifespan of the application. If it has a model and no suggestions, these are computed
    in the background.

    Args:
        project: A project. If it is open for reading only, all changes are refused.
        settings: Settings of the service; those about the model are not used.

    Returns:
        The application. ``app.state.learner`` trains models.

    Example:
        >>> app = create_annotator(Project.open("project"))  # doctest: +SKIP
    """
    settings = ServeSettings() if settings is None else settings
    metrics = Metrics()
    learner = Learner(project)

    def start() -> None:
        learner.suggestions.refresh()
        if not project.read_only and len(learner.suggestions) < len(project.documents):
            learner.suggest()

    def close() -> None:
        learner.close()
        project.close()

    own = WebPart(
        project_routes(project, learner, BodyReader(settings, metrics)),
        page_assets("annotation/page"),
        BODIES,
        start,
        close,
    )
    app = create_web_app(
        own, settings, metrics, title="cascade-srn annotate", description=DESCRIPTION, checks=[OriginCheck]
    )
    app.state.learner = learner
    return app


def open_project(folder: str | Path) -> Project:
    """Open a project for writing, or for reading only if its disk or folder cannot be written."""
    try:
        return Project.open(folder)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT):
            raise
        logger.warning("%s is opened for reading only (%s)", folder, error.strerror)
        return Project.open(folder, read_only=True)


def serve_project(
    folder: str | Path, settings: ServeSettings | None = None, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve the project in a folder until SIGINT or SIGTERM."""
    settings = ServeSettings() if settings is None else settings
    with open_project(folder) as project:
        app = create_annotator(project, settings)
        try:
            serve_app(app, settings, on_ready=on_ready)
        finally:
            app.state.learner.close()
