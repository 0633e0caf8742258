"""``cascade-srn convert``: convert annotated documents between formats."""

from pathlib import Path
from typing import Annotated, cast

import typer

from cascade_srn.cli.options import Alignment, KeepEscapes, SegmenterName, find_segmenter
from cascade_srn.data.alignment import Align

FORMATS = "dygie, spert, brat or jsonl"


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="File to read, also .gz, .xz or .bz2. For brat, a folder.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write.")],
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="F", help=f"{FORMATS}. Default: detected from the content.")
    ] = None,
    to_format: Annotated[
        str | None, typer.Option("--to", metavar="F", help=f"{FORMATS}. Default: from the file ending of OUT.")
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Skip and count malformed records instead of stopping.")
    ] = False,
    align: Alignment = "exact",
    segmenter: SegmenterName = "rules",
    keep_escapes: KeepEscapes = False,
) -> None:
    """Convert annotated documents from one format to another.

    Counts of records read and skipped are printed on standard error. The segmenter is used for brat, and for jsonl
    without words.
    """
    from cascade_srn.data import read_documents, write_documents

    documents = read_documents(
        source,
        from_format,
        strict=not skip_malformed,
        align=cast(Align, align),
        segmenter=find_segmenter(segmenter),
        keep_escapes=keep_escapes,
    )
    write_documents(documents, target, to_format)
    typer.echo(str(documents.report), err=True)
