"""``cascade-srn graph serve``: explore a graph in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.apps.web.settings import ServeSettings, find_api_key
from cascade_srn.cli.options import AllowedHosts, ApiKeyFile, Host, OpenPage, Port, Quiet
from cascade_srn.cli.serve import prepare_service, print_line


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that graph build has written.")],
    pdfs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the PDF files that the texts come from, to show evidence on pages."
        ),
    ] = None,
    host: Host = ServeSettings.host,
    port: Port = 8001,
    api_key_file: ApiKeyFile = None,
    allowed_host: AllowedHosts = None,
    browser: OpenPage = False,
    quiet: Quiet = False,
) -> None:
    """Explore a graph in a browser: search, neighbourhoods, evidence and rankings."""
    settings = ServeSettings(
        host=host, port=port, api_key=find_api_key(api_key_file), allowed_hosts=tuple(allowed_host or ())
    )
    from cascade_srn.apps.graph.explorer.app import serve_graph

    prepare_service(settings, quiet=quiet)

    def report(address: str) -> None:
        print_line(f"Serving {folder.name} at {address} (Ctrl-C stops it)")
        if browser:
            typer.launch(address)

    serve_graph(folder, settings, pdfs=pdfs, on_ready=report)
