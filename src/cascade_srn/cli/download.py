"""``cascade-srn download``: download a published corpus and check its files."""

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.errors import ConfigError


def download(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="Name of the corpus: scierc.")],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the files. Default: data/CORPUS.")
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="U", help="Another address of the published archive.")] = None,
    archive: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Archive that has been downloaded already.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", metavar="HEX", help="SHA-256 to check before the archive is unpacked.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace other files of the same names.")] = False,
) -> None:
    """Download a published corpus from the site of its authors.

    Files are installed only if their SHA-256 checksums are correct. Interrupted downloads are resumed, and files that
    exist are not downloaded again.
    """
    from cascade_srn.formats import corpora

    if url is not None and archive is not None:
        raise ConfigError("--url and --archive were both given", "Pass one of them")
    folder = Path("data") / corpus if output is None else output
    last = -1

    def print_progress(done: int, total: int | None) -> None:
        nonlocal last
        tenth = -1 if not total else 10 * done // total
        if tenth > last:
            last = tenth
            typer.echo(f"{10 * tenth} % of {total} bytes", err=True)

    result = corpora.download(
        corpora.find_corpus(corpus),
        folder,
        url=url,
        archive=archive,
        sha256=sha256,
        overwrite=overwrite,
        progress=print_progress,
    )
    state = "are in" if result.fetched else "were already in"
    typer.echo(f"The files of {corpus} {state} {folder}: {', '.join(path.name for path in result.files)}")
