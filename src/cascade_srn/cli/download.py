"""``cascade-srn download``: fetch a published corpus from its authors' site and verify it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def download(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="The name of the corpus: scierc.")],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder for its files; data/CORPUS when left out.")
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="U", help="Another address of the published archive.")] = None,
    archive: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The archive itself, downloaded by other means.")
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option("--sha256", metavar="HEX", help="The SHA-256 that the archive must have, before it is unpacked."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace other files of the same names.")] = False,
) -> None:
    """Download a published corpus into a folder that the recipes read.

    The files are installed only if their SHA-256 checksums are the known ones. An interrupted download is resumed;
    files that are there already are not fetched again. See docs/data.md, also for corpora that need a licence.
    """
    from cascade_srn.data import corpora as published
    from cascade_srn.errors import ConfigError

    if url is not None and archive is not None:
        raise ConfigError("--url and --archive were both given; give the address of an archive, or a file")
    wanted = published.find_corpus(corpus)
    folder = Path("data") / corpus if output is None else output
    last = -1

    def tell(done: int, total: int | None) -> None:
        nonlocal last
        tenth = -1 if not total else 10 * done // total
        if tenth > last:
            last = tenth
            typer.echo(f"{10 * tenth} % of {total} bytes", err=True)

    found = published.download(
        wanted, folder, url=url, archive=archive, sha256=sha256, overwrite=overwrite, progress=tell
    )
    state = "are in" if found.fetched else "were there already, in"
    typer.echo(f"The files of {corpus} {state} {folder}: {', '.join(path.name for path in found.files)}")
