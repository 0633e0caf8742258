"""``cascade-srn convert``: annotated documents from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from cascade_srn.data.alignment import Align

FORMATS = "dygie, spert, brat or jsonl"


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file, also .gz, .xz or .bz2; for brat a folder.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file or folder to write.")],
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="F", help=f"{FORMATS}; guessed from the content when left out.")
    ] = None,
    to_format: Annotated[
        str | None, typer.Option("--to", metavar="F", help=f"{FORMATS}; told by the ending of OUT when left out.")
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Leave out what is malformed, and count it, instead of stopping.")
    ] = False,
    align: Annotated[
        str, typer.Option(metavar="exact|expand", help="Refuse offsets within a word, or take the whole word.")
    ] = "exact",
    segmenter: Annotated[
        str,
        typer.Option(
            metavar="rules|lines|spaces",
            help="How text is split; lines: a sentence a line; spaces: that, and words between spaces.",
        ),
    ] = "rules",
) -> None:
    """Convert annotated documents from one format to another.

    What was read, skipped and noted is told on stderr; docs/formats.md says what each format can hold.
    Text is split where its words do not come with it: in brat, and in jsonl without words.
    """
    from cascade_srn.config import require_choice
    from cascade_srn.data import read_documents, write_documents
    from cascade_srn.text.presplit import SEGMENTERS

    require_choice("--segmenter", segmenter, tuple(SEGMENTERS))
    documents = read_documents(
        source,
        from_format,
        strict=not skip_malformed,
        align=cast(Align, align),
        segmenter=SEGMENTERS[segmenter],
    )
    write_documents(documents, target, to_format)
    typer.echo(str(documents.report), err=True)
