"""``cascade-srn graph serve``: explore a graph in a browser."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.serve import is_loopback, print_line
from cascade_srn.serving.settings import KEY_VARIABLE, ServeSettings, find_api_key


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that graph build has written.")],
    host: Annotated[str, typer.Option(help="Address to listen on. 0.0.0.0: all addresses.")] = ServeSettings.host,
    port: Annotated[int, typer.Option(help="Port to listen on. 0: any free port.")] = 8001,
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File with the key that requests must send. Default: ${KEY_VARIABLE}."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Additional name allowed in the Host header; '*' for all. Repeatable."),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Explore a graph in a browser: search, neighbourhoods, evidence and rankings."""
    settings = ServeSettings(
        host=host, port=port, api_key=find_api_key(api_key_file), allowed_hosts=tuple(allowed_host or ())
    )
    from cascade_srn.serving.explorer import serve_graph

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("cascade_srn.serving").setLevel(logging.WARNING if quiet else logging.INFO)
    if settings.api_key is None and not is_loopback(host):
        print_line(f"Warning: {host} can be reached from other machines, and no API key is set.")

    def report(address: str) -> None:
        print_line(f"Serving {folder.name} at {address} (Ctrl-C stops it)")
        if browser:
            typer.launch(address)

    serve_graph(folder, settings, on_ready=report)
