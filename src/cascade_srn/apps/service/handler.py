"""Process requests within their time limit: prepare the texts, queue them for the model, wait for the result."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request

from cascade_srn.apps.service.engine import ModelEngine
from cascade_srn.apps.service.messages import DrawRequest, ExtractRequest
from cascade_srn.apps.service.queue import QueueClosed, QueueFull, RequestTooLarge
from cascade_srn.apps.service.requests import (
    check_lengths,
    count_given,
    prepare_items,
    refuse_text,
    request_texts,
)
from cascade_srn.apps.web.bodies import wait_for_disconnect
from cascade_srn.apps.web.refusals import CLIENT_GONE, Refusal, shutting_down, unavailable
from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.types import Document

T = TypeVar("T")

# Longer texts are processed in a thread, because all requests share the event loop.
INLINE_CHARACTERS = 4_000
# Still longer texts are processed in a second thread.
LARGE_CHARACTERS = 50_000
# Size of an entity, a relation or a sentence in characters, to decide where to process it.
ANNOTATION_CHARACTERS = 50


class RequestHandler:
    """Runs the work of requests: the model's in the engine, other work in the event loop or in background threads."""

    def __init__(self, engine: ModelEngine) -> None:
        self.engine = engine
        self.settings = engine.settings
        # One thread for large work and one for the rest, so that the rest does not wait behind it. More threads would
        # compete with the model for the interpreter.
        self._pools = [
            ThreadPoolExecutor(1, thread_name_prefix="cascade-srn-background", initializer=_lower_priority)
            for _ in range(2)
        ]
        self._in_progress: set[Future[Any]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether work in background threads is in progress or waiting."""
        return bool(self._in_progress)

    def extractor(self) -> Extractor:
        """Return the model."""
        if self.engine.extractor is not None:
            return self.engine.extractor
        if self.engine.failure is not None:
            raise unavailable(
                "not_loaded", "the model could not be loaded", "See the log of the service", retry_after=60
            )
        raise unavailable("not_ready", "the model is still being loaded", "Try again soon", retry_after=2)

    async def extract(self, request: Request, body: ExtractRequest | DrawRequest) -> list[Document]:
        """Run the model on the texts of a request."""
        extractor, limits = self.extractor(), self.settings.limits
        texts = request_texts(body)
        check_lengths(texts, limits)
        if self.engine.queue.is_full:
            raise self._queue_full()
        size = sum(map(len, texts)) + ANNOTATION_CHARACTERS * count_given(body)
        try:
            items = await self.run(
                request, size, lambda: prepare_items(body, extractor, limits, max_cost=self.settings.queue_words)
            )
            queued = self.engine.submit(items)
        except QueueFull:
            raise self._queue_full() from None
        except RequestTooLarge:
            self.engine.counted.refused.inc()
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "request_too_large",
                f"the texts cost more than {self.settings.queue_words:,} words, the size of the queue",
                "Send fewer or shorter texts. Long words count by their word pieces",
            ) from None
        except QueueClosed:
            raise shutting_down() from None
        try:
            outcomes = await self._wait(request, queued.future, lambda: queued.progressed)
        except BaseException:
            self.engine.drop(queued)
            raise
        # The response has its own time: a long text has used that of the request.
        now = asyncio.get_running_loop().time()
        request.state.deadline = max(request.state.deadline, now + self.settings.request_seconds)
        return [_require_document(position, outcome) for position, outcome in enumerate(outcomes)]

    async def run(self, request: Request, size: int, work: Callable[[], T]) -> T:
        """Run work in the event loop if its size in characters is small, else in a background thread."""
        if size <= INLINE_CHARACTERS:
            return work()
        future = self._pools[size > LARGE_CHARACTERS].submit(work)
        self._in_progress.add(future)
        future.add_done_callback(self._in_progress.discard)
        try:
            return await self._wait(request, future)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Start no more work. Work in progress continues and is not waited for."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, request: Request, future: Future[T], progressed: Callable[[], float] | None = None) -> T:
        """Return the result of a future, unless the request times out or the client disconnects first.

        ``progressed`` returns the time of the last progress, from which the time limit counts again. The text of a
        request may be long and the machine slow, so that no fixed limit fits both. What must not happen is that a
        client waits for nothing.
        """
        result = asyncio.wrap_future(future)
        disconnected = asyncio.ensure_future(wait_for_disconnect(request))
        waited: set[asyncio.Future[Any]] = {result, disconnected}

        def seconds_left() -> float:
            deadline: float = request.state.deadline
            if progressed is not None:
                deadline = max(deadline, progressed() + self.settings.request_seconds)
            return deadline - asyncio.get_running_loop().time()

        try:
            # At least once, because the result may be there already.
            await asyncio.wait(waited, timeout=max(0.0, seconds_left()), return_when=asyncio.FIRST_COMPLETED)
            while not result.done() and not disconnected.done() and (left := seconds_left()) > 0:
                await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if disconnected.done():
                raise Refusal(CLIENT_GONE, "client_gone", "the client disconnected")
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT,
                "timeout",
                f"there was no progress with the request for {self.settings.request_seconds:g} s",
                "Send less text, or try again later",
            )
        finally:
            disconnected.cancel()
            result.cancel()
            with suppress(asyncio.CancelledError):
                await disconnected

    def _queue_full(self) -> Refusal:
        self.engine.counted.refused.inc()
        return unavailable("queue_full", "the request queue is full", "Try again soon", retry_after=1)


def _lower_priority() -> None:
    """Give the model and the event loop priority over this thread. Linux only."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def _require_document(position: int, outcome: Document | Exception) -> Document:
    if isinstance(outcome, Document):
        return outcome
    if isinstance(outcome, CascadeError):
        raise refuse_text(position, outcome)
    raise Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "model_failed",
        f"text {position}: the model failed on it ({type(outcome).__name__})",
        "Send the other texts without it",
    )
