"""``cascade-srn info`` and ``cascade-srn models``: describe models."""

from typing import Annotated

import typer

from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.storage.bundled import DEFAULT

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, name or hub id.")] = DEFAULT,
    json: AsJson = False,
    card: Annotated[bool, typer.Option("--card", help="Print the whole model card, in Markdown.")] = False,
) -> None:
    """Describe a model: family, labels, thresholds, size, checksum, scores, data and place.

    The exit code is 1 if files of the model are damaged.
    """
    from cascade_srn.formats.files import to_json
    from cascade_srn.model.info import describe_model

    found = describe_model(model)
    if card and json:
        raise ConfigError("--card and --json were both given", "Pass one of them")
    if card and not found.card:
        raise ModelError(f"the model {model!r} has no card", "Show its settings without this option", option="card")
    typer.echo(found.card.rstrip() if card else to_json(found.to_dict()) if json else str(found))
    if found.damaged:
        raise typer.Exit(1)


def models(json: AsJson = False) -> None:
    """List the models on this machine: bundled ones, and those in the cache of the hub."""
    from cascade_srn.formats.files import to_json
    from cascade_srn.model.info import list_models

    found = list_models()
    if json:
        typer.echo(to_json(found))
        return
    width = max((len(model["name"]) for model in found), default=0)
    for model in found:
        default = ", default" if model["source"] == "bundled" and model["name"] == DEFAULT else ""
        typer.echo(f"{model['name']:<{width}}  {model['source']}{default}  {model['folder']}")
    if not found:
        typer.echo("There are no models on this machine.", err=True)
