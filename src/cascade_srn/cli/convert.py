"""``cascade-srn convert``: convert annotated documents between formats."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import typer

from cascade_srn.cli.failures import format_option, print_note
from cascade_srn.cli.options import (
    FORMAT_NAMES,
    Alignment,
    KeepEscapes,
    LabelMapFile,
    SegmenterName,
    TextEncoding,
    find_segmenter,
)
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.files import DocumentStream
from cascade_srn.types import Document

# Losses that are reported before anything is written.
SEVERE = {"places of entities", "relations"}


def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="IN", help="File to read, also .gz, .xz or .bz2. For brat, cas and datasets, a folder."),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write.")],
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="F", help=f"{FORMAT_NAMES}. Default: detected from the content.")
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option("--to", metavar="F", help="One of these. Default: from the file ending of OUT."),
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Skip and count malformed records instead of stopping.")
    ] = False,
    align: Alignment = "exact",
    segmenter: SegmenterName = "rules",
    keep_escapes: KeepEscapes = False,
    encoding: TextEncoding = None,
    map: LabelMapFile = None,
) -> None:
    """Convert annotated documents from one format to another.

    Counts of records read, skipped and lost are printed on standard error. The segmenter is used for formats without
    words.

    Examples:

        cascade-srn convert project.json corpus.jsonl --from label-studio

        cascade-srn convert annotations/ corpus.jsonl --from brat --align expand --map labels.yaml
    """
    from cascade_srn.formats.label_map import read_label_map
    from cascade_srn.formats.registry import find_format, read_documents, write_documents

    with format_option("from"):
        documents = read_documents(
            source,
            from_format,
            strict=not skip_malformed,
            align=cast(Align, align),
            segmenter=find_segmenter(segmenter),
            keep_escapes=keep_escapes,
            encoding=encoding,
            labels=read_label_map(map),
        )
    with format_option("to"):
        if to_format is not None and (lost := SEVERE.intersection(find_format(to_format).loses)):
            print_note(f"{to_format} does not hold {' or '.join(sorted(lost))}, so that they cannot be read back")
        written = write_documents(_read(documents), target, to_format)
    typer.echo(str(documents.report), err=True)
    if written.lost:
        typer.echo(str(written), err=True)


def _read(documents: DocumentStream) -> Iterator[Document]:
    """Yield the documents. They are read while others are written, and errors name the option of the input."""
    with format_option("from", skips=True):
        yield from documents
