"""Ask an OpenAI-compatible server, which may be slow, busy, broken or wrong.

Texts and key go to the address that the user names and nowhere else: redirects are not followed, and passwords of
``.netrc`` are not used. Answers are limited in size and in time as a whole, since a server can send without an end.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from cascade_srn.apps.annotation.teaching.prompts import Question
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.version import __version__

KEY_VARIABLE = "CASCADE_SRN_TEACHER_KEY"
# An answer about one sentence is never this long.
MAX_BYTES = 256 << 10
_MAX_WAIT = 300.0
# Failures of one question that the server may charge for, such as timeouts, before it is given up.
_MAX_PAID_FAILURES = 2
_LOCAL = ("localhost", "127.0.0.1", "::1")
# Ways to ask, best first. A server that refuses one with 400 is asked in the next. The prompts describe the form, too.
_FORMS = tuple((schema, limit) for schema in (True, False) for limit in ("max_tokens", "max_completion_tokens"))
# Answers that the same question would get again: the whole run stops.
_FATAL = {
    401: "Set the environment variable " + KEY_VARIABLE + " to a valid key",
    402: "Check the account of the service",
    403: "Check the rights of the key in " + KEY_VARIABLE,
    404: "Check the address, which often ends in /v1, and the name of the model",
    405: "Check the address, which often ends in /v1",
}


class EndpointError(DataError):
    """The endpoint cannot be used, so the run stops."""


class QuestionFailed(Exception):
    """A question has no answer after all retries. The next run asks it again."""


class _Unusable(Exception):
    """A request has no usable answer. ``may_be_paid`` says whether the server may have worked on it."""

    def __init__(self, problem: str, *, may_be_paid: bool = True) -> None:
        super().__init__(problem)
        self.may_be_paid = may_be_paid


class Stopped(Exception):
    """The run is stopping, and the question was not asked."""


@dataclass(frozen=True)
class EndpointSettings:
    """How to ask.

    Attributes:
        url: Address of the server, such as ``http://localhost:8000/v1``.
        model: Name of the model.
        key: Key, which is sent as a bearer token; empty for none.
        max_tokens: Longest answer in tokens.
        timeout: Seconds for a whole answer.
        retries: How often a question is asked again after a failure.
        backoff: Seconds before the first retry. The time doubles with each.
    """

    url: str
    model: str
    key: str = ""
    max_tokens: int = 1024
    timeout: float = 120.0
    retries: int = 4
    backoff: float = 1.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"the endpoint {self.url!r} is not a web address",
                "Give one such as http://localhost:8000/v1",
                option="endpoint",
            )
        if parts.username or parts.password:
            raise ConfigError("the address has a password in it", f"Put the key into {KEY_VARIABLE}", option="endpoint")
        if not self.model.strip():
            raise ConfigError("the name of the model is empty", "Give the name that the server knows", option="model")
        if not (self.key.isascii() and self.key.isprintable()):
            raise ConfigError(f"the key in {KEY_VARIABLE} has characters that no header can have", "Copy it again")
        require_range("max_tokens", self.max_tokens, 16, option="max_tokens")
        require_range("timeout", self.timeout, 0.1, option="timeout")
        require_range("retries", self.retries, 0, 100, option="retries")

    @property
    def address(self) -> str:
        """Address of the chat completions."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/")
        path += "" if path.endswith("/chat/completions") else "/chat/completions"
        return parts._replace(path=path, fragment="").geturl()

    @property
    def sends_key_in_clear(self) -> bool:
        """Whether others on the network can read the key and the texts."""
        parts = urlsplit(self.url)
        return bool(self.key) and parts.scheme == "http" and parts.hostname not in _LOCAL

    @property
    def proxy(self) -> str:
        """Host of the proxy of the environment that requests go through; empty if there is none."""
        found = requests.utils.get_environ_proxies(self.address).get(urlsplit(self.url).scheme)
        return urlsplit(found).hostname or "" if found else ""


@dataclass(frozen=True)
class Reply:
    """A paid answer of the server."""

    content: str  # What the model says; empty for a refusal
    problem: str  # Why it is not usable, or empty
    tokens: tuple[int, int] | None  # Tokens of question and answer; None if the server does not say


class Endpoint:
    """A server that answers questions from several threads."""

    def __init__(
        self,
        settings: EndpointSettings,
        schema: Mapping[str, Any],
        *,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.settings, self._schema, self._tell = settings, schema, tell
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._form, self._is_form_known = 0, False
        self._not_before = 0.0

    def ask(self, question: Question, reserve: Callable[[], None], release: Callable[[], None]) -> Reply:
        """Ask a question until there is an answer.

        Args:
            question: The question.
            reserve: Called before each request.
            release: Called after each request that the server has certainly not worked on.

        Raises:
            QuestionFailed: There is no answer after all retries.
            EndpointError: No question can be answered.
            Stopped: The run is stopping.
        """
        where, n_failures, n_paid = f"{question.document}, answer {question.sample + 1}", 0, 0
        while True:
            self._wait()
            wait = min(_MAX_WAIT, self.settings.backoff * 2**n_failures) * random.uniform(0.75, 1.25)
            form = self._form
            reserve()
            try:
                status, headers, body = self._send(question, form)
                if status == 200:
                    reply = _read_reply(body)
                    self._is_form_known |= form == self._form
                    return reply
            except _Unusable as error:
                problem, n_paid = str(error), n_paid + error.may_be_paid
                if not error.may_be_paid:
                    release()
            else:
                release()
                problem = self._check_status(status, headers, body)
                if status in (400, 422):
                    if self._change_form(form, problem):
                        continue
                    raise QuestionFailed(f"{where}: {problem}")
                if status == 429 or "retry-after" in headers:
                    wait = _retry_after(headers, wait)
                    self._not_before = max(self._not_before, time.monotonic() + wait)
            n_failures += 1
            if n_failures > self.settings.retries or n_paid == _MAX_PAID_FAILURES:
                times = "attempt" if n_failures == 1 else "attempts"
                raise QuestionFailed(f"{where}: {problem}; given up after {n_failures} {times}")
            self._tell(f"{where}: {problem}; asking again in {wait:.0f} s")
            if self.stopping.wait(wait):
                raise Stopped

    def _wait(self) -> None:
        """Wait until the server accepts requests again, for all threads."""
        while (left := self._not_before - time.monotonic()) > 0:
            if self.stopping.wait(left):
                break
        if self.stopping.is_set():
            raise Stopped

    def _send(self, question: Question, form: int) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request, and read the whole answer within the limits of time and size.

        Raises:
            _Unusable: There is no complete answer.
        """
        has_schema, limit = _FORMS[form]
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": question.text}],
            limit: self.settings.max_tokens,
        }
        if limit == "max_tokens":  # newer services accept neither this name nor a temperature
            body |= {"temperature": question.temperature, "seed": question.sample}
        if has_schema:
            named = {"name": "annotations", "strict": True, "schema": self._schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        until = time.monotonic() + self.settings.timeout
        try:
            with requests.post(
                self.settings.address,
                json=body,
                headers={"User-Agent": f"cascade-srn/{__version__}", "Accept-Encoding": "identity"},
                auth=self._sign,
                timeout=self.settings.timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                received = bytearray()
                for part in _parts(response):
                    received += part
                    if len(received) > MAX_BYTES:
                        raise _Unusable(f"the answer has more than {MAX_BYTES >> 10} KiB")
                    if time.monotonic() > until:
                        raise _Unusable(f"the answer was not complete after {self.settings.timeout:g} s")
                return response.status_code, response.headers, bytes(received)
        except HTTPError as error:  # while reading
            raise _Unusable("the connection was cut before the end of the answer") from error
        except RequestException as error:
            raise _describe(error) from error

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key. Given as a function, because requests would otherwise look for a password in .netrc."""
        if self.settings.key:
            request.headers["Authorization"] = f"Bearer {self.settings.key}"
        return request

    def _change_form(self, form: int, reason: str) -> bool:
        """Take the next way to ask, unless one has worked. Return whether to ask again."""
        with self._lock:
            if form != self._form:
                return True  # another thread has changed it
            if self._is_form_known:
                return False
            if form + 1 == len(_FORMS):
                raise EndpointError(
                    f"{self.settings.address} refuses every form of request: {reason}", "Check the name of the model"
                )
            self._form += 1
        n = self._form + 1
        self._tell(f"the server refuses a request ({reason}); trying form {n} of {len(_FORMS)}")
        return True

    def _check_status(self, status: int, headers: Mapping[str, str], body: bytes) -> str:
        """Return the problem that an HTTP status means, if it can pass.

        Raises:
            EndpointError: It cannot.
        """
        if 300 <= status < 400:
            target = str(headers.get("location", "elsewhere"))[:200]
            raise EndpointError(
                f"{self.settings.address} redirects to {target}. Neither texts nor key are sent there",
                "Give that address if you trust it",
                option="endpoint",
            )
        reason = self._reason(status, body)
        if status in _FATAL:
            raise EndpointError(f"{self.settings.address} answers {reason}", _FATAL[status])
        return reason

    def _reason(self, status: int, body: bytes) -> str:
        """Return status and message of an error in one short line without the key."""
        try:
            found: Any = json.loads(body)
            found = found.get("error", found.get("message", found.get("detail", ""))) if isinstance(found, dict) else ""
            found = found.get("message", "") if isinstance(found, dict) else found
        except (ValueError, RecursionError):
            found = ""
        text = "".join(char if char.isprintable() else " " for char in str(found))
        text = " ".join((text.replace(self.settings.key, "…") if self.settings.key else text).split())[:200]
        return f"{status} ({text})" if text else str(status)


def _parts(response: requests.Response) -> Iterator[bytes]:
    """Yield the bytes of an answer as they arrive. Other ways to read wait until a whole block is there."""
    read1 = getattr(response.raw, "read1", None)
    if read1 is None:  # urllib3 before 2.2
        yield from response.iter_content(1)
        return
    while part := read1(1 << 14, decode_content=True):
        yield part


def _read_reply(body: bytes) -> Reply:
    """Read a chat completion.

    Raises:
        _Unusable: It is none.
    """
    try:
        record = json.loads(body)
        choice = record["choices"][0]
        message = choice["message"]
        content, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise _Unusable("the answer is not a chat completion in JSON") from None
    usage = record.get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    known = [n for n in counts if isinstance(n, int) and 0 <= n < 1 << 40]
    tokens = (known[0], known[1]) if len(known) == 2 else None
    if refusal or finish == "content_filter":
        return Reply("", "the model refuses to answer", tokens)
    if not isinstance(content, str) or not content.strip():
        return Reply("", "the answer is empty", tokens)
    content = content.encode(errors="replace").decode()  # half of a character outside the basic plane cannot be stored
    return Reply(content, "the answer was cut off at the limit of tokens" if finish == "length" else "", tokens)


def _retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Return the seconds to wait that a server asks for, as a number or a date, within limits."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return otherwise
    return min(_MAX_WAIT, max(0.0, seconds)) if seconds == seconds else otherwise


def _describe(error: RequestException) -> Exception:
    """Return the exception for a failed request."""
    if isinstance(error, requests.exceptions.SSLError):
        return EndpointError("the endpoint has no valid certificate", "Check the address", option="endpoint")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return _Unusable("the server cannot be reached in time", may_be_paid=False)
    if isinstance(error, requests.exceptions.Timeout):
        return _Unusable("the server does not answer in time")
    if isinstance(error, requests.exceptions.ConnectionError | requests.exceptions.ChunkedEncodingError):
        # The names of urllib3's errors for a refused connection and an unknown host.
        if "NewConnectionError" in repr(error) or "NameResolutionError" in repr(error):
            return _Unusable("the server cannot be reached", may_be_paid=False)
        return _Unusable("the connection was cut before the end of the answer")
    return EndpointError(f"no request can be sent ({type(error).__name__})", "Check the address", option="endpoint")
