"""``cascade-srn serve``: serve a model over HTTP."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer

from cascade_srn.apps.web.settings import LOG_FORMAT, Limits, ServeSettings, find_api_key
from cascade_srn.cli.options import (
    AllowedHosts,
    ApiKeyFile,
    Constraints,
    Device,
    Host,
    Overlaps,
    Port,
    PromisedPrecision,
    Quiet,
    make_settings,
)
from cascade_srn.config import check_overlaps
from cascade_srn.storage.bundled import DEFAULT


def serve(
    model: Annotated[str | None, typer.Option(help="Model folder, name or hub id. Default: the bundled model.")] = None,
    host: Host = ServeSettings.host,
    port: Port = ServeSettings.port,
    workers: Annotated[
        int, typer.Option(help="Number of processes, each with its own model. Several GPUs are shared out.")
    ] = ServeSettings.workers,
    device: Device = "auto",
    precision: PromisedPrecision = "auto",
    overlaps: Overlaps = None,
    constraints: Constraints = None,
    batch_words: Annotated[
        int, typer.Option(help="Approximate number of words in a batch.")
    ] = ServeSettings.batch_words,
    batch_wait: Annotated[
        float, typer.Option(help="Seconds that a batch waits for requests of other clients.")
    ] = ServeSettings.batch_wait,
    queue_texts: Annotated[
        int, typer.Option(help="Maximum texts in the queue. Further ones are answered with 503.")
    ] = ServeSettings.queue_texts,
    queue_words: Annotated[
        int, typer.Option(help="Maximum words in the queue. Further ones are answered with 503.")
    ] = ServeSettings.queue_words,
    max_bytes: Annotated[int, typer.Option(help="Maximum bytes of a request body.")] = Limits.body_bytes,
    max_texts: Annotated[int, typer.Option(help="Maximum texts in a request.")] = Limits.texts,
    max_characters: Annotated[int, typer.Option(help="Maximum characters of a text.")] = Limits.characters,
    min_threshold: Annotated[float, typer.Option(help="Lowest threshold that a request may set.")] = Limits.threshold,
    timeout: Annotated[
        float, typer.Option(help="Time limit of a request, in seconds.")
    ] = ServeSettings.request_seconds,
    shutdown_timeout: Annotated[
        float, typer.Option(help="Seconds to finish accepted requests on shutdown.")
    ] = ServeSettings.shutdown_seconds,
    keep_alive: Annotated[
        float, typer.Option(help="Seconds after which an idle connection is closed.")
    ] = ServeSettings.keep_alive_seconds,
    max_requests: Annotated[
        int, typer.Option(help="Maximum requests in progress. Further ones are answered with 503.")
    ] = ServeSettings.max_requests,
    bodies_bytes: Annotated[
        int, typer.Option(help="Memory for all request bodies in progress. Further ones are answered with 503.")
    ] = ServeSettings.bodies_bytes,
    api_key_file: ApiKeyFile = None,
    allowed_host: AllowedHosts = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Origin whose pages may send requests, such as https://example.org. Repeatable."
        ),
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Graph to explore at /graph/, written by graph build.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve a model over HTTP, with a page to try it at /.

    Requests of several clients are batched. On Ctrl-C or SIGTERM, accepted requests are finished first.
    """
    check_overlaps(overlaps)
    settings = make_settings(
        ServeSettings,
        locals(),
        request_seconds=timeout,
        shutdown_seconds=shutdown_timeout,
        keep_alive_seconds=keep_alive,
        limits=Limits(max_bytes, max_texts, max_characters, threshold=min_threshold),
        api_key=find_api_key(api_key_file),
        allowed_hosts=tuple(allowed_host or ()),
        cors_origins=tuple(cors_origin or ()),
        model_name=Path(model or DEFAULT).name,
    )
    from cascade_srn.apps.service.run import ModelSource  # first, since it needs an extra

    # isort: split
    from cascade_srn.apps.service.run import serve as run_service
    from cascade_srn.extractor import find_model
    from cascade_srn.runtime.device import find_model_device

    folder = find_model(model)
    find_model_device(device, folder, precision)  # refuses a device that does not exist before the model is loaded
    # Large texts are tokenized in a thread of low priority. Threads of the tokenizer itself would have normal priority.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    prepare_service(settings, quiet=quiet)
    run_service(
        ModelSource(folder, device, precision, overlaps, constraints),
        settings,
        parts=_graph_part(graph),
        on_ready=lambda address: print_line(f"Serving {folder.name} at {address} (Ctrl-C stops it)"),
    )


def _graph_part(folder: Path | None) -> dict[str, Callable[[], Any]]:
    """Return a function that makes the explorer of a graph, by its path in the service."""
    if folder is None:
        return {}
    from cascade_srn.apps.graph.explorer.app import explorer_part

    return {"/graph": partial(explorer_part, folder)}


def prepare_service(settings: ServeSettings, *, quiet: bool) -> None:
    """Set up the log of a service, and warn if other machines can use it without a key."""
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    logging.getLogger("cascade_srn.apps.web").setLevel(logging.WARNING if quiet else logging.INFO)
    if settings.api_key is None and not is_loopback(settings.host):
        print_line(f"Warning: {settings.host} can be reached from other machines, and no API key is set.")


def print_line(message: str) -> None:
    """Print a line on standard error. The service continues if standard error is closed."""
    with suppress(OSError):
        typer.echo(message, err=True)


def is_loopback(host: str) -> bool:
    """Return whether a host can only be reached from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
