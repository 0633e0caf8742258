"""``cascade-srn select``: select the texts that help most when they are annotated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.extract import SOME_SKIPPED, find_given_inputs
from cascade_srn.cli.failures import FoldedNotes, print_note, was_closed
from cascade_srn.cli.options import (
    BatchWords,
    Device,
    IdField,
    KeptParts,
    Precision,
    RawText,
    SegmenterName,
    SkippedParts,
    Strict,
    TextEncoding,
    TextField,
    UnitOfText,
    find_segmenter,
    split_names,
)
from cascade_srn.config import PRECISIONS, require_choice
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.apps.annotation.selection import ReadableTexts
    from cascade_srn.extractor import Extractor
    from cascade_srn.inputs.sources import Sources
    from cascade_srn.text.segment import Segmenter
    from cascade_srn.types import Document


def select(
    inputs: RawText = None,
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", help="Number of sentences or documents to select.")] = 200,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M", help="Model folder, name or hub id. Its predictions are written, too. Default: none."
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="combined|uncertainty|coverage|diversity|random",
            help="What helps most. The first three need a model. Default: combined with a model, else diversity.",
        ),
    ] = None,
    unit: Annotated[str, typer.Option(metavar="sentence|document", help="What is selected.")] = "sentence",
    annotated: Annotated[
        list[Path] | None,
        typer.Option(metavar="P", help="Documents that are annotated already. They are not selected. Repeatable."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="jsonl|label-studio",
            help="Output format. Default: label-studio if --output ends in .json, else jsonl.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="P", help="Output file. Default: standard output.")
    ] = None,
    per: UnitOfText = "auto",
    field: TextField = "text",
    id_field: IdField = "id",
    encoding: TextEncoding = None,
    segmenter: SegmenterName = "rules",
    skip: SkippedParts = "",
    keep_parts: KeptParts = "",
    min_words: Annotated[int, typer.Option(metavar="N", help="Leave out sentences with fewer words.")] = 4,
    max_words: Annotated[int, typer.Option(metavar="N", help="Leave out sentences with more words.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of random choices.")] = 0,
    batch_words: BatchWords = 4096,
    precision: Precision = "auto",
    device: Device = "auto",
    strict: Strict = False,
) -> None:
    """Select the sentences or documents that help most when they are annotated, best first.

    Unreadable texts are skipped with a note, and the exit code is then 1. It is 2 if nothing was selected.
    """
    from cascade_srn.apps.annotation.selection import ReadableTexts, choose_format, choose_strategy, write_selected
    from cascade_srn.apps.annotation.selection import select as select_units
    from cascade_srn.apps.annotation.units import UnitSettings
    from cascade_srn.apps.extract.writers import check_output
    from cascade_srn.config import require_range
    from cascade_srn.inputs.sources import Sources

    if output is None and was_closed("stdout"):
        raise ConfigError("standard output is closed", "Pass a file for the results", option="output")
    settings = UnitSettings(unit, min_words, max_words, seed)
    require_range("n", n, 1)
    strategy = choose_strategy(strategy, has_model=model is not None)
    format = choose_format(format, output)
    notes = FoldedNotes()
    sources = Sources(
        find_given_inputs(inputs),
        per=per,
        field=field,
        id_field=id_field,
        encoding=encoding,
        keep_parts=split_names(keep_parts),
        output=output,
        tell=notes.tell,
    )
    check_output(format, output)
    split = find_segmenter(segmenter, skip)
    known = _read_annotated(annotated or [], split)
    extractor = None if model is None else _load(model, device, precision, split)
    texts = ReadableTexts(sources, split, strict=strict, tell=notes.tell)
    try:
        with _show_progress(sources, texts) as progress:
            selected = select_units(
                texts,
                n,
                model=extractor,
                strategy=strategy,
                settings=settings,
                annotated=known,
                batch_words=batch_words,
                progress=progress,
            )
    finally:
        notes.finish()
    write_selected(selected, output, format, model="" if model is None else Path(model).name)
    found = f"{len(selected):,} {unit}{'' if len(selected) == 1 else 's'}"
    if len(selected) < n:
        print_note(f"only {found} can be selected, not {n:,}")
    if output is not None:
        typer.echo(f"{found} by the strategy {strategy} in {output}", err=True)
    if texts.n_bad:
        raise typer.Exit(SOME_SKIPPED)


def _read_annotated(paths: list[Path], segmenter: Segmenter) -> list[Document]:
    from cascade_srn.formats.registry import read_documents

    return [document for path in paths for document in read_documents(path, segmenter=segmenter)]


def _load(model: str, device: str, precision: str, segmenter: Segmenter) -> Extractor:
    from cascade_srn.runs.display import show_status

    require_choice("precision", precision, PRECISIONS, option="precision")
    with show_status(f"Loading {model} …"):
        # These imports take seconds.
        from cascade_srn.extractor import Extractor, find_model
        from cascade_srn.runtime.device import find_model_device

        folder = find_model(model)
        found = find_model_device(device, folder, precision)
        return Extractor.from_pretrained(folder, device=found, precision=precision, segmenter=segmenter)


@contextmanager
def _show_progress(sources: Sources, texts: ReadableTexts) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yield the function that updates it with the number of documents."""
    if not sys.stderr.isatty():
        yield lambda n_documents: None
        return
    from rich.console import Console

    from cascade_srn.runs.display import ProgressRow, show_progress

    def row(n_documents: int) -> ProgressRow:
        return ProgressRow("reading", texts.position, sources.n_bytes or None, f"{n_documents:,} documents")

    with show_progress(Console(stderr=True), row, counts=False) as display:
        yield display.progress
