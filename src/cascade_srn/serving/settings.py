"""What a service can be told; free of its libraries, so that a command line can show it at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from cascade_srn.config import Settings, require_range
from cascade_srn.errors import ConfigError

KEY_VARIABLE = "CASCADE_SRN_API_KEY"

# Origins that are none of a host: all of them, and that of pages from files.
ANY_ORIGIN, NO_ORIGIN = "*", "null"
# Allows every name in the Host header.
ANY_HOST = "*"
# Ports that browsers leave out.
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Limits(Settings):
    """The most that one request may ask for. ``/schema`` tells them.

    ``sentence_words`` bounds a sentence, which goes through the model in one piece while everyone waits, and
    ``sentence_entities`` the entities given with one, as each of them is held against all others. ``annotations``
    bounds the entities and relations of a document that is sent to be drawn or converted, and the entities that are
    given with a text. ``drawn`` bounds the words that lie under the bars and arcs of a drawing, each counted as often
    as it does, ``drawn_characters`` the characters there, as a word may be as long as a text, and ``sentence_arcs``
    the relations that are drawn over one sentence: by these a drawing grows, and the time it takes. ``values`` bounds
    the JSON values of a body, each of which takes far more memory than its few bytes. ``threshold`` is the lowest
    threshold: near zero nearly every pair of words would pass, and a short text would take very long.
    """

    body_bytes: int = 2 << 20
    texts: int = 128
    characters: int = 100_000
    sentence_words: int = 2_000
    sentence_entities: int = 300
    annotations: int = 5_000
    drawn: int = 30_000
    drawn_characters: int = 300_000
    sentence_arcs: int = 300
    values: int = 400_000
    threshold: float = 0.05

    def __post_init__(self) -> None:
        for limit in fields(self):
            if limit.name != "threshold":
                require_range(f"limits.{limit.name}", getattr(self, limit.name), 1)
        require_range("limits.threshold", self.threshold, 0, 1)


@dataclass(frozen=True)
class ServeSettings(Settings):
    """How a service answers.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 is any free one.
        batch_words: Approximate number of words in a batch.
        batch_wait: Seconds a batch waits to fill when several clients ask at once.
        queue_texts: Texts that may wait for the model; a request beyond that is refused.
        queue_words: Words that may wait for the model; a request beyond that is refused.
        request_seconds: Time limit of a request, and of each part of it that the client sends or reads.
        shutdown_seconds: Time to finish complete requests when the service is stopped.
        head_seconds: Time for the head of a request to arrive before the connection is closed.
        keep_alive_seconds: Time after which an idle connection is closed.
        max_connections: Open connections; None is as many as the limit of open files allows.
        bodies_bytes: Memory for the bodies of all requests in progress, parsed ones included.
        limits: What one request may ask for.
        api_key: Key that requests must carry; None serves everyone.
        allowed_hosts: Names accepted in the Host header besides those of ``host``; "*" accepts every name.
        cors_origins: Origins whose pages may ask, as browsers write them ("https://example.org"); "*" is every one.
        model_name: Name of the model in ``/schema``.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    batch_words: int = 1024
    batch_wait: float = 0.005
    queue_texts: int = 4096
    queue_words: int = 1 << 17
    request_seconds: float = 30.0
    shutdown_seconds: float = 30.0
    head_seconds: float = 10.0
    keep_alive_seconds: float = 15.0
    max_connections: int | None = None
    bodies_bytes: int = 256 << 20
    limits: Limits = field(default_factory=Limits)
    # Not shown: settings are printed and logged.
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    model_name: str = ""

    def __post_init__(self) -> None:
        require_range("port", self.port, 0, 65535)
        for name in ("batch_words", "queue_texts", "queue_words"):
            require_range(name, getattr(self, name), 1)
        require_range("batch_wait", self.batch_wait, 0, 1)
        for name in ("request_seconds", "shutdown_seconds", "head_seconds", "keep_alive_seconds"):
            require_range(name, getattr(self, name), 0.01, 86_400)
        if self.max_connections is not None:
            require_range("max_connections", self.max_connections, 1)
        if self.bodies_bytes < self.limits.body_bytes:
            raise ConfigError(
                f"bodies_bytes is {self.bodies_bytes}, but one body may have {self.limits.body_bytes} bytes; give at "
                "least as many"
            )
        key = self.api_key
        if key is not None and not (key and key.isascii() and key.isprintable() and key == key.strip()):
            raise ConfigError(
                "the API key is empty, starts or ends with a space, or holds more than printable ASCII; give letters "
                "and digits"
            )
        for host in self.allowed_hosts:
            _require_host(host)
        for origin in self.cors_origins:
            _require_origin(origin)


def _require_host(given: str) -> None:
    """Refuse what no Host header names: an empty name, a URL."""
    if not given.strip() or any(char in "/@" or char.isspace() for char in given):
        raise ConfigError(
            f"allowed_hosts is {given!r}; give a name or an address without a scheme or path, or {ANY_HOST} for every "
            "host"
        )


def _require_origin(given: str) -> None:
    """Refuse an origin that no browser will ever send, because it is none or is written in another way."""
    if given in (ANY_ORIGIN, NO_ORIGIN):
        return
    written = _as_browsers_write(given)
    if given != written:
        raise ConfigError(
            f"cors_origins is {given!r}, which no browser sends as an origin; give {written or 'https://example.org'}"
            f"{'' if written else ', a scheme and a host'}, or {ANY_ORIGIN} for every origin"
        )


def _as_browsers_write(given: str) -> str | None:
    """Scheme, host and an unusual port, in lower case; None where there is no scheme or no host."""
    try:
        parts = urlsplit(given.strip())
        host, port = parts.hostname or "", parts.port
        name = host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # a port that is no number, brackets that do not close, no name of a host
        return None
    if not parts.scheme or not name or any(char.isspace() for char in name):
        return None
    name = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{name}" + ("" if port in (None, _USUAL_PORTS.get(parts.scheme)) else f":{port}")


def find_api_key(path: str | Path | None = None) -> str | None:
    """Read the API key from a file, or else from the environment variable; None if there is neither.

    Raises:
        ConfigError: The file or the variable is there but holds no key. Serving without one then would be a mistake.
    """
    if path is None:
        given = os.environ.get(KEY_VARIABLE)
        if given is not None and not given.strip():
            raise ConfigError(
                f"the environment variable {KEY_VARIABLE} is set but empty; set it to the key, or unset it to serve "
                "without one"
            )
        return None if given is None else given.strip()
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"the file of the API key, {str(path)!r}, is no text; give one with the key alone") from None
    if not key:
        raise ConfigError(f"the file of the API key, {str(path)!r}, is empty; write the key into it")
    return key
