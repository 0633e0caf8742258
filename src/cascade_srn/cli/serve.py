"""``cascade-srn serve``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.errors import ConfigError
from cascade_srn.serving.settings import KEY_VARIABLE, Limits, ServeSettings, find_api_key
from cascade_srn.storage.bundled import DEFAULT

# Settings that can be refused, and the options that set them.
OPTIONS = {
    "port": "--port",
    "precision": "--precision",
    "batch_words": "--batch-words",
    "batch_wait": "--batch-wait",
    "queue_texts": "--queue-texts",
    "queue_words": "--queue-words",
    "request_seconds": "--timeout",
    "shutdown_seconds": "--shutdown-timeout",
    "limits.body_bytes": "--max-bytes",
    "limits.texts": "--max-texts",
    "limits.characters": "--max-characters",
    "limits.threshold": "--min-threshold",
    "head_seconds": "--head-timeout",
    "keep_alive_seconds": "--keep-alive",
    "max_connections": "--max-connections",
    "bodies_bytes": "--bodies-bytes",
    "allowed_hosts": "--allowed-host",
    "cors_origins": "--cors-origin",
}


def serve(
    model: Annotated[
        str | None, typer.Option(help="A model, by folder or hub id; the one in the package when left out.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 is every one.")] = ServeSettings.host,
    port: Annotated[int, typer.Option(help="The port to listen at; 0 is any free one.")] = ServeSettings.port,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
    precision: Annotated[
        str, typer.Option(help="Of the pretrained encoder: auto (bf16 on a GPU), float32 or bf16.")
    ] = "auto",
    batch_words: Annotated[int, typer.Option(help="Words of a batch, about.")] = ServeSettings.batch_words,
    batch_wait: Annotated[
        float, typer.Option(help="Seconds that a batch waits for more, where several clients ask at once.")
    ] = ServeSettings.batch_wait,
    queue_texts: Annotated[
        int, typer.Option(help="Texts that wait for the model at most; more are answered by 503.")
    ] = ServeSettings.queue_texts,
    queue_words: Annotated[
        int, typer.Option(help="Words that wait for the model at most; more are answered by 503.")
    ] = ServeSettings.queue_words,
    max_bytes: Annotated[int, typer.Option(help="Bytes of a request's body at most.")] = Limits.body_bytes,
    max_texts: Annotated[int, typer.Option(help="Texts of a request at most.")] = Limits.texts,
    max_characters: Annotated[int, typer.Option(help="Characters of a text at most.")] = Limits.characters,
    min_threshold: Annotated[
        float, typer.Option(help="The lowest threshold that a request may set.")
    ] = Limits.threshold,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which a request is given up.")
    ] = ServeSettings.request_seconds,
    shutdown_timeout: Annotated[
        float, typer.Option(help="Seconds to finish what was taken when the service is stopped.")
    ] = ServeSettings.shutdown_seconds,
    head_timeout: Annotated[
        float, typer.Option(help="Seconds for the head of a request to arrive.")
    ] = ServeSettings.head_seconds,
    keep_alive: Annotated[
        float, typer.Option(help="Seconds after which an idle connection is closed.")
    ] = ServeSettings.keep_alive_seconds,
    max_connections: Annotated[
        int | None, typer.Option(help="Open connections at most; as many as the limit of open files allows by default.")
    ] = ServeSettings.max_connections,
    bodies_bytes: Annotated[
        int, typer.Option(help="Memory for the bodies of all requests in progress; more are answered by 503.")
    ] = ServeSettings.bodies_bytes,
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"A file with a key that requests must carry; else ${KEY_VARIABLE}."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A further name that the Host header may have; again for more, '*' is every one."
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="An origin whose pages may ask, as in https://example.org; again for more."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No line for each request.")] = False,
) -> None:
    """Answer over HTTP: texts in, entities and relations out, and a page to try it at /.

    Requests of many clients share batches. On Ctrl-C or SIGTERM, complete requests are finished. See docs/serve.md.
    """
    with _options_named():
        settings = ServeSettings(
            host=host,
            port=port,
            batch_words=batch_words,
            batch_wait=batch_wait,
            queue_texts=queue_texts,
            queue_words=queue_words,
            request_seconds=timeout,
            shutdown_seconds=shutdown_timeout,
            head_seconds=head_timeout,
            keep_alive_seconds=keep_alive,
            max_connections=max_connections,
            bodies_bytes=bodies_bytes,
            limits=Limits(max_bytes, max_texts, max_characters, threshold=min_threshold),
            api_key=find_api_key(api_key_file),
            allowed_hosts=tuple(allowed_host or ()),
            cors_origins=tuple(cors_origin or ()),
            model_name=Path(model or DEFAULT).name,
        )
    from cascade_srn.serving.run import serve as run_service  # first: it needs an extra that may be missing

    # isort: split
    from cascade_srn.extractor import Extractor, find_model
    from cascade_srn.runs.device import find_device

    where, folder = find_device(device), find_model(model)
    # Large texts are tokenized in a thread of low priority; threads of the tokenizer's own would not be.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("cascade_srn.serving").setLevel(logging.WARNING if quiet else logging.INFO)
    if settings.api_key is None and not _is_loopback(host):
        _say(f"Warning: {host} can be reached from elsewhere, and there is no API key.")
    with _options_named():
        run_service(
            lambda: Extractor.from_pretrained(folder, device=where, precision=precision),
            settings,
            on_ready=lambda address: _say(f"Serving {folder.name} at {address} (Ctrl-C stops it)"),
        )


def _say(message: str) -> None:
    """Write a line to standard error; a service goes on when nobody reads it any more."""
    with suppress(OSError):
        typer.echo(message, err=True)


@contextmanager
def _options_named() -> Iterator[None]:
    """Name the option in errors about a setting."""
    try:
        yield
    except ConfigError as error:
        name, told, value = str(error).partition(" is ")
        if name not in OPTIONS:
            raise
        raise ConfigError(f"{OPTIONS[name]}{told}{value}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
