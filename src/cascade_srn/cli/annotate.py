"""``cascade-srn annotate``: annotate texts in a browser."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.failures import print_note
from cascade_srn.cli.serve import is_loopback, print_line
from cascade_srn.errors import ConfigError
from cascade_srn.serving.settings import KEY_VARIABLE, ServeSettings, find_api_key


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
    host: Annotated[str, typer.Option(help="Address to listen on. 0.0.0.0: all addresses.")] = ServeSettings.host,
    port: Annotated[int, typer.Option(help="Port to listen on. 0: any free port.")] = 8002,
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
    """Annotate entities and relations in a browser, with suggestions of a model.

    With --texts, the project is created first if the folder does not exist. See project create for all options.
    """
    settings = ServeSettings(
        host=host, port=port, api_key=find_api_key(api_key_file), allowed_hosts=tuple(allowed_host or ())
    )
    if not texts and (labels is not None or model is not None):
        raise ConfigError("labels and a model are only used to create a project", "Give texts as well", option="texts")
    if texts and not _is_filled(project):
        from cascade_srn.annotation.creation import ProjectInput, create_project

        given = ProjectInput(texts=texts, labels=labels, model=model)
        create_project(project, given, tell=print_note).close()
        print_line(f"Created {project}")
    elif texts:
        print_note(f"{project} exists and is opened. The options to create a project are not used.")
    from cascade_srn.serving.annotate import serve_project

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("cascade_srn.serving").setLevel(logging.WARNING if quiet else logging.INFO)
    if settings.api_key is None and not is_loopback(host):
        print_line(f"Warning: {host} can be reached from other machines, and no API key is set.")

    def report(address: str) -> None:
        print_line(f"Annotate {project.resolve().name} at {address} (Ctrl-C stops it)")
        if browser:
            typer.launch(address)

    serve_project(project, settings, on_ready=report)


def _is_filled(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or bool(os.listdir(folder)))
