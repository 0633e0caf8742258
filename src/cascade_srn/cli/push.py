"""``cascade-srn push``: upload a model to the hub."""

from typing import Annotated

import typer


def push(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder or name.")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository; created if it is missing.")],
    public: Annotated[
        bool, typer.Option("--public", help="Create a public repository, or upload to one. Default: private.")
    ] = False,
    message: Annotated[str | None, typer.Option(metavar="TEXT", help="Message of the commit.")] = None,
    revision: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Branch; created if it is missing. Default: main.")
    ] = None,
) -> None:
    """Upload a model to the Hugging Face hub, with its card.

    The token is that of HF_TOKEN or of hf auth login. Other files in the folder are not uploaded.
    """
    from cascade_srn.model.info import push_model

    address = push_model(model, repository, private=not public, message=message, revision=revision)
    typer.echo(f"Uploaded {model} to {address}")
