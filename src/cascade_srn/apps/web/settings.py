"""Settings of the service. This module needs no extra, so the command line can import it quickly."""

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from cascade_srn.config import Settings, require_range
from cascade_srn.errors import ConfigError

KEY_VARIABLE = "CASCADE_SRN_API_KEY"
LOG_FORMAT = "%(asctime)s %(message)s"

# Origins without a host: all origins, and the origin of pages from files.
ANY_ORIGIN, NO_ORIGIN = "*", "null"
# Accepts every name in the Host header.
ANY_HOST = "*"
# Ports that browsers omit.
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Limits(Settings):
    """Limits of one request. ``GET /schema`` returns them.

    Attributes:
        body_bytes: Bytes of the body.
        texts: Texts of a request.
        characters: Characters of a text.
        sentence_words: Words of a sentence, which goes through the model in one piece.
        sentence_entities: Given entities of a sentence; the model compares each of them with all others.
        annotations: Given entities of a text; entities and relations of a document to draw or convert.
        drawn: Words under the entities and relations of a drawing, counted once for each of them.
        drawn_characters: Characters under the entities and relations of a drawing, counted in the same way.
        sentence_arcs: Relations that are drawn over one sentence.
        values: JSON values of a body, each of which takes much more memory than its few bytes.
        threshold: Lowest threshold. Near zero, nearly every pair of words passes, and a short text takes very long.
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
                require_range(f"limits.{limit.name}", getattr(self, limit.name), 1, option=f"limits.{limit.name}")
        require_range("limits.threshold", self.threshold, 0, 1, option="limits.threshold")


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Settings of a web application. Those about texts, batches and the queue are used by the service only.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        workers: Number of processes, each with its own model. The following settings hold for each of them.
        batch_words: Approximate number of words in a batch.
        batch_wait: Seconds that a batch waits to fill if several clients are active.
        queue_texts: Texts that may wait for the model; further requests are refused.
        queue_words: Words that may wait for the model; further requests are refused.
        request_seconds: Time limit of a request, of its body, and of a client that does not read its response. While
            the model makes progress with the texts of a request, the limit starts again.
        shutdown_seconds: Time to finish complete requests on shutdown.
        keep_alive_seconds: Time after which an idle connection is closed.
        max_requests: Requests in progress; further ones are refused.
        bodies_bytes: Memory for the bodies of all requests in progress, including parsed values.
        limits: Limits of one request.
        api_key: Key that requests must carry; None for no key.
        allowed_hosts: Names accepted in the Host header besides those of ``host``; "*" accepts every name.
        cors_origins: Origins whose pages may send requests, such as "https://example.org"; "*" for all origins.
        model_name: Name of the model in ``/schema``.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    batch_words: int = 1024
    batch_wait: float = 0.005
    queue_texts: int = 4096
    queue_words: int = 1 << 17
    request_seconds: float = 30.0
    shutdown_seconds: float = 30.0
    keep_alive_seconds: float = 15.0
    max_requests: int = 2000
    bodies_bytes: int = 256 << 20
    limits: Limits = field(default_factory=Limits)
    # Not in the repr, because settings are printed and logged.
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    model_name: str = ""

    def __post_init__(self) -> None:
        require_range("port", self.port, 0, 65535, option="port")
        for name in ("workers", "batch_words", "queue_texts", "queue_words", "max_requests"):
            require_range(name, getattr(self, name), 1, option=name)
        require_range("batch_wait", self.batch_wait, 0, 1, option="batch_wait")
        for name in ("request_seconds", "shutdown_seconds", "keep_alive_seconds"):
            require_range(name, getattr(self, name), 0.01, 86_400, option=name)
        if self.bodies_bytes < self.limits.body_bytes:
            raise ConfigError(
                f"bodies_bytes is {self.bodies_bytes}, but one body may have {self.limits.body_bytes} bytes",
                "Use at least that number",
                option="bodies_bytes",
            )
        key = self.api_key
        if key is not None and not (key and key.isascii() and key.isprintable() and key == key.strip()):
            raise ConfigError(
                "the API key is empty, starts or ends with a space, or has characters other than printable ASCII",
                "Use letters and digits",
            )
        for host in self.allowed_hosts:
            _require_host(host)
        for origin in self.cors_origins:
            _require_origin(origin)


def _require_host(given: str) -> None:
    """Refuse a value that cannot occur in a Host header, such as a URL."""
    if not given.strip() or any(char in "/@" or char.isspace() for char in given):
        raise ConfigError(
            f"allowed_hosts is {given!r}, which is not a host name",
            f"Use a name or an address without scheme and path, or {ANY_HOST} for all hosts",
            option="allowed_hosts",
        )


def _require_origin(given: str) -> None:
    """Refuse an origin that no browser sends, because it is invalid or not in normal form."""
    if given in (ANY_ORIGIN, NO_ORIGIN):
        return
    normalized = _normalize_origin(given)
    if given != normalized:
        suggested = normalized or "a scheme and a host, such as https://example.org"
        raise ConfigError(
            f"cors_origins is {given!r}, which no browser sends as an origin",
            f"Use {suggested}, or {ANY_ORIGIN} for all origins",
            option="cors_origins",
        )


def _normalize_origin(given: str) -> str | None:
    """Return an origin as browsers send it; None if it has no scheme or no host."""
    try:
        parts = urlsplit(given.strip())
        host, port = parts.hostname or "", parts.port
        name = host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # an invalid port, an open bracket or an invalid host name
        return None
    if not parts.scheme or not name or any(char.isspace() for char in name):
        return None
    name = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{name}" + ("" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}")


def find_api_key(path: str | Path | None = None) -> str | None:
    """Read the API key from a file, or from the environment variable if there is no file.

    None: neither is given. An empty file or variable is an error: the service must not start without the intended key.
    """
    if path is None:
        given = os.environ.get(KEY_VARIABLE)
        if given is not None and not given.strip():
            raise ConfigError(
                f"the environment variable {KEY_VARIABLE} is set but empty",
                "Set it to the key, or unset it to serve without one",
            )
        return None if given is None else given.strip()
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(
            f"the API key file {str(path)!r} is not a text file", "Use a file that contains only the key"
        ) from None
    if not key:
        raise ConfigError(f"the API key file {str(path)!r} is empty", "Write the key into it")
    return key
