"""The service as an application that any ASGI server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from cascade_srn.drawing.templating import environment
from cascade_srn.extractor import Extractor
from cascade_srn.serving.answering import Answerer
from cascade_srn.serving.description import describe
from cascade_srn.serving.engine import Engine
from cascade_srn.serving.files import file_routes
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.observing import Observer
from cascade_srn.serving.refusals import Refusal, answer_http, answer_refusal
from cascade_srn.serving.routes import api_routes
from cascade_srn.serving.security import HostCheck, KeyCheck, SecurityHeaders
from cascade_srn.serving.settings import ServeSettings
from cascade_srn.version import __version__


def create_app(extractor: Extractor | Callable[[], Extractor], settings: ServeSettings | None = None) -> FastAPI:
    """The service over an extractor, or over a function that loads one while the service answers already.

    The model's thread lives as long as the application: it starts and ends with the server's lifespan.
    ``app.state.engine`` is what runs the model, ``app.state.answerer`` what does the rest.
    """
    settings = ServeSettings() if settings is None else settings
    environment()  # drawings need a library of the extra: better missed now than at the first drawing
    metrics = Metrics()
    engine = Engine(extractor, settings, metrics)
    metrics.gauge("cascade_srn_queue_texts", "Texts that wait for the model.", lambda: engine.waiting.n_texts)
    metrics.gauge("cascade_srn_queue_words", "Words that wait for the model.", lambda: engine.waiting.n_words)
    metrics.gauge("cascade_srn_ready", "1 once the model is loaded and warm.", lambda: engine.is_ready)
    answerer = Answerer(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.close()
        answerer.close()

    app = FastAPI(
        title="cascade-srn",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=_middleware(settings, metrics),
        exception_handlers={Refusal: answer_refusal, HTTPException: answer_http},
    )
    app.include_router(api_routes(answerer))
    described = describe(app)
    app.openapi = lambda: described  # type: ignore[method-assign]
    app.include_router(file_routes(app))
    app.state.engine = engine
    app.state.answerer = answerer
    return app


def _middleware(settings: ServeSettings, metrics: Metrics) -> list[Middleware]:
    """From the outside in."""
    layers = [
        Middleware(SecurityHeaders),  # on the answers of the observer, too
        Middleware(Observer, metrics=metrics),
        Middleware(HostCheck, host=settings.host, allowed=settings.allowed_hosts),
    ]
    if settings.cors_origins:
        # Outside the key: browsers ask for permission without it.
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-API-Key"],
                expose_headers=["Retry-After"],
            )
        )
    return [*layers, Middleware(KeyCheck, api_key=settings.api_key)]
