"""``cascade-srn annotate``: annotate texts in a browser."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.apps.web.settings import ServeSettings, find_api_key
from cascade_srn.cli.failures import print_note
from cascade_srn.cli.options import AllowedHosts, ApiKeyFile, Host, OpenPage, Port, Quiet
from cascade_srn.cli.serve import prepare_service, print_line
from cascade_srn.errors import ConfigError


def annotate(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")],
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="Create the project from this raw text: file, folder or pattern. Repeatable."
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --texts: YAML file with labels and definitions.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="With --texts: model for suggestions: folder, name or hub id.")
    ] = None,
    host: Host = ServeSettings.host,
    port: Port = 8002,
    api_key_file: ApiKeyFile = None,
    allowed_host: AllowedHosts = None,
    browser: OpenPage = False,
    quiet: Quiet = False,
) -> None:
    """Annotate entities and relations in a browser, with suggestions of a model.

    With --texts, the project is created first if the folder does not exist. See project create for all options.
    """
    settings = ServeSettings(
        host=host, port=port, api_key=find_api_key(api_key_file), allowed_hosts=tuple(allowed_host or ())
    )
    if not texts and (labels is not None or model is not None):
        raise ConfigError("labels and a model are only used to create a project", "Give texts as well", option="texts")
    if texts and not (project.exists() and (not project.is_dir() or bool(os.listdir(project)))):
        from cascade_srn.apps.annotation.exchange import ProjectInput, create_project

        given = ProjectInput(texts=texts, labels=labels, model=model)
        create_project(project, given, tell=print_note).close()
        print_line(f"Created {project}")
    elif texts:
        print_note(f"{project} exists and is opened. The options to create a project are not used.")
    from cascade_srn.apps.annotation.server.app import serve_project

    prepare_service(settings, quiet=quiet)

    def report(address: str) -> None:
        print_line(f"Annotate {project.resolve().name} at {address} (Ctrl-C stops it)")
        if browser:
            typer.launch(address)

    serve_project(project, settings, on_ready=report)
