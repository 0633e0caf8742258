"""From a request to its answer: prepared, queued, waited for, given up where nobody waits any more."""

from __future__ import annotations

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

from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.serving.engine import Engine, NotReady
from cascade_srn.serving.messages import DrawRequest, ExtractRequest
from cascade_srn.serving.queue import QueueClosed, QueueFull, RequestTooLarge
from cascade_srn.serving.refusals import CLIENT_GONE, Refusal, stopping, unavailable
from cascade_srn.serving.requests import failed_text, n_given, orders_of, require_lengths, texts_of
from cascade_srn.types import Document

T = TypeVar("T")

# Work on texts longer than this is done beside the event loop, which everyone shares.
INLINE_CHARACTERS = 4_000
# Work on more than this is done in a thread of its own.
LARGE_CHARACTERS = 50_000
# What an entity, a relation or a sentence counts as, in characters, where work goes by size.
ITEM = 50


class Answerer:
    """Does what requests ask for, within their time; ``aside`` are the threads for work that is not the model's."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.settings = engine.settings
        # One thread for large work and one for the rest, which must not wait behind it. More would compete with the
        # model for the interpreter.
        self._pools = [
            ThreadPoolExecutor(1, thread_name_prefix="cascade-srn-aside", initializer=_lower_priority) for _ in range(2)
        ]
        self._under_way: set[Future[Any]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether work beside the event loop is under way, or waits for a thread."""
        return bool(self._under_way)

    def extractor(self) -> Extractor:
        """The model, or a refusal while there is none."""
        try:
            return self.engine.extractor
        except NotReady:
            if self.engine.failure is not None:
                raise unavailable(
                    "not_loaded", "the model could not be loaded; the log of the service says why", retry_after=60
                ) from None
            raise unavailable("not_ready", "the model is still being loaded; try again soon", retry_after=2) from None

    def arrived(self, request: Request) -> None:
        """Note that all of a request is there, and whether that is in time; said again, it changes nothing.

        What was there when the service is told to stop is finished, however much is to be done before the queue.
        """
        if not hasattr(request.state, "is_late"):
            request.state.is_late = self.engine.is_stopping

    async def documents(self, request: Request, asked: ExtractRequest | DrawRequest) -> list[Document]:
        """What the model finds in the texts of a request that was there before the service was told to stop."""
        self.arrived(request)
        if request.state.is_late:
            raise stopping()
        extractor, limits = self.extractor(), self.settings.limits
        texts = texts_of(asked)
        require_lengths(texts, limits)
        if self.engine.waiting.is_full:
            raise self._full()
        size = sum(map(len, texts)) + ITEM * n_given(asked)
        try:
            orders = await self.aside(
                request, size, lambda: orders_of(asked, extractor, limits, max_cost=self.settings.queue_words)
            )
            ticket = self.engine.submit(orders)
        except QueueFull:
            raise self._full() from None
        except RequestTooLarge:
            self.engine.metrics.refused.add()
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "request_too_large",
                f"the texts cost more than {self.settings.queue_words:,} words, the size of the queue; send fewer or "
                "shorter texts (long words count by their word pieces)",
            ) from None
        except QueueClosed:
            raise stopping() from None
        try:
            outcomes = await self._within_time(request, ticket.future)
        except BaseException:
            self.engine.drop(ticket)
            raise
        return [_document(position, outcome) for position, outcome in enumerate(outcomes)]

    async def aside(self, request: Request, size: int, work: Callable[[], T]) -> T:
        """Do work that goes with the characters of a text: here where it is short, else beside the event loop."""
        if size <= INLINE_CHARACTERS:
            return work()
        future = self._pools[size > LARGE_CHARACTERS].submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        try:
            return await self._within_time(request, future)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Begin nothing any more; what has begun goes on, and is not waited for."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    async def _within_time(self, request: Request, future: Future[T]) -> T:
        """The result of a future, unless time runs out or the client goes away first."""
        result = asyncio.wrap_future(future)
        gone = asyncio.ensure_future(_gone(request))
        try:
            left = request.state.deadline - asyncio.get_running_loop().time()
            waited: set[asyncio.Future[Any]] = {result, gone}
            await asyncio.wait(waited, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if gone.done():
                raise Refusal(CLIENT_GONE, "client_gone", "the client went away")
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT,
                "timeout",
                f"the answer was not there within {self.settings.request_seconds:g} s; send less text, or try later",
            )
        finally:
            gone.cancel()
            result.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def _full(self) -> Refusal:
        self.engine.metrics.refused.add()
        return unavailable("queue_full", "too much is waiting for the model already; try again soon", retry_after=1)


def _lower_priority() -> None:
    """Let the model and the event loop go first: large bodies are prepared in this thread. Linux only."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


async def _gone(request: Request) -> None:
    """Come back when the client has gone. The body has been read: nothing else is left to receive."""
    message: dict[str, Any] = {}
    while message.get("type") != "http.disconnect":
        message = dict(await request.receive())


def _document(position: int, outcome: Document | Exception) -> Document:
    if isinstance(outcome, Document):
        return outcome
    if isinstance(outcome, CascadeError):
        raise failed_text(position, outcome)
    raise Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "model_failed",
        f"text {position}: the model failed on it ({type(outcome).__name__}); the other texts can be sent without it",
    )
