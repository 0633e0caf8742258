"""``cascade-srn mcp``: tools for language models, by the Model Context Protocol."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.apps.web.settings import ServeSettings, find_api_key
from cascade_srn.cli.options import AllowedHosts, ApiKeyFile, BundledModel, Host, Port, Quiet
from cascade_srn.cli.serve import prepare_service, print_line
from cascade_srn.errors import require


def mcp(
    graph: Annotated[Path | None, typer.Option(metavar="GRAPH", help="Graph to ask, written by graph build.")] = None,
    model: BundledModel = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP. Default: standard input and output.")] = False,
    host: Host = ServeSettings.host,
    port: Port = 8002,
    api_key_file: ApiKeyFile = None,
    allowed_host: AllowedHosts = None,
    sql_seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="Seconds after which a query in SQL is stopped.")
    ] = 5.0,
    quiet: Quiet = False,
) -> None:
    """Offer extraction, and questions to a graph, as tools to agents (Model Context Protocol).

    Standard output belongs to the protocol. Messages go to standard error.
    """
    require("mcp", extra="serve")
    from cascade_srn.apps.graph.agents import PATH, create_agent_app, create_agent_server
    from cascade_srn.apps.graph.safe_sql import SafeSql
    from cascade_srn.apps.graph.store import open_graph
    from cascade_srn.extractor import Extractor, find_model

    folder = find_model(model)
    opened = None if graph is None else open_graph(graph)
    sql = None if graph is None else SafeSql(graph, seconds=sql_seconds)
    server = create_agent_server(partial(Extractor.from_pretrained, folder), opened, sql)
    if http:
        from cascade_srn.apps.web.run import serve_app

        settings = ServeSettings(
            host=host, port=port, api_key=find_api_key(api_key_file), allowed_hosts=tuple(allowed_host or ())
        )
        prepare_service(settings, quiet=quiet)
        report = partial(_report, path=PATH)
        serve_app(create_agent_app(server, settings), settings, on_ready=report)
        return
    if sys.stdin.isatty() and not quiet:
        print_line("Waiting for a client on standard input (Ctrl-C stops it). Agents start this command themselves.")
    server.run("stdio")


def _report(address: str, path: str) -> None:
    print_line(f"Serving tools at {address}{path} (Ctrl-C stops it)")
