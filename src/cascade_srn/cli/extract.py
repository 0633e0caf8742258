"""``cascade-srn extract``: extract entities and relations from raw text."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.failures import CLOSED_PIPE, FoldedNotes, discard_stdout, print_note, was_closed
from cascade_srn.cli.options import (
    BundledModel,
    Constraints,
    Device,
    IdField,
    KeptParts,
    OptionalBatchWords,
    Overlaps,
    PromisedPrecision,
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
from cascade_srn.config import check_overlaps
from cascade_srn.errors import ConfigError
from cascade_srn.runs.resources import count_cores

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor
    from cascade_srn.inputs.sources import Sources

SOME_SKIPPED = 1
# Bytes of input, and most processes, for splitting texts ahead of a GPU unless the user decides.
_MUCH_TEXT, _MOST_SPLIT_WORKERS = 1 << 20, 6
_MISSING = "Give a file, a folder, a pattern or - for standard input, or pass the text itself"


def extract(
    inputs: RawText = None,
    text: Annotated[list[str] | None, typer.Option(metavar="T", help="A text to extract from. Repeatable.")] = None,
    model: BundledModel = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="table|jsonl|csv|tsv|parquet|brat|html",
            help="Output format. Default: from the file ending of --output; else table on a terminal, jsonl in a pipe.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="P", help="Output file; a folder for brat. Default: standard output."),
    ] = None,
    per: UnitOfText = "auto",
    field: TextField = "text",
    id_field: IdField = "id",
    encoding: TextEncoding = None,
    keep: Annotated[
        str,
        typer.Option(metavar="NAME,…", help="Fields of the records to copy to the output: jsonl, csv, tsv or parquet."),
    ] = "",
    labels: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Extract only entities and relations of these types.")
    ] = None,
    segmenter: SegmenterName = "rules",
    skip: SkippedParts = "",
    keep_parts: KeptParts = "",
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X|TURN=X|LABEL=X",
            help="Minimum score, 0 to 1: for all turns, one turn (entity, subject, object), one label, entities with a "
            "relation (related) or whole relations (relation). Repeatable.",
        ),
    ] = None,
    overlaps: Overlaps = None,
    constraints: Constraints = None,
    batch_words: OptionalBatchWords = None,
    split_workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Processes that split and tokenize texts ahead of the model. Default: up to 6 for a GPU and a "
            "megabyte of text, else none.",
            show_default=False,
        ),
    ] = None,
    precision: PromisedPrecision = "auto",
    device: Device = "auto",
    strict: Strict = False,
) -> None:
    """Extract entities and relations from raw text.

    Unreadable texts are skipped with a note, and the exit code is then 1. It is 2 if nothing was extracted.
    """
    from cascade_srn.apps.extract.writers import check_kept, check_output, choose_format
    from cascade_srn.inputs.find import MissingInputError
    from cascade_srn.inputs.sources import Sources
    from cascade_srn.runs.display import show_status
    from cascade_srn.runs.process import sigterm_as_exit

    if output is None and was_closed("stdout"):
        raise ConfigError("standard output is closed", "Pass a file for the results", option="output")
    output_format = choose_format(format, output, terminal=sys.stdout.isatty())
    kept = split_names(keep)
    check_kept(kept, output_format)
    notes = FoldedNotes()
    try:
        sources = Sources(
            find_given_inputs(inputs, text),
            text or (),
            per=per,
            field=field,
            id_field=id_field,
            keep=kept,
            keep_parts=split_names(keep_parts),
            output=output,
            encoding=encoding,
            tell=notes.tell,
        )
    except MissingInputError as error:
        error.hint, error.option = _MISSING, "text"  # only this command takes texts themselves
        raise
    check_output(output_format, output)
    check_overlaps(overlaps)
    split = find_segmenter(segmenter, skip)
    with show_status(f"Loading {model or 'the model'} …"):
        # After the checks, since these imports take seconds.
        from cascade_srn.extractor import Extractor, find_model
        from cascade_srn.runtime.device import find_model_device

        folder = find_model(model)
        extractor = Extractor.from_pretrained(
            folder,
            device=find_model_device(device, folder, precision),
            precision=precision,
            segmenter=split,
            overlaps=overlaps,
            constraints=constraints,
        )
    try:
        # Documents that are finished before SIGTERM are kept, as after Ctrl-C.
        with sigterm_as_exit():
            n_skipped = _run(
                extractor,
                sources,
                notes,
                source=_describe_source(folder) if output_format == "jsonl" else {},
                folder=folder,
                format=output_format,
                output=output,
                threshold=threshold or [],
                labels=None if labels is None else split_names(labels),
                batch_words=batch_words,
                split_workers=_choose_split_workers(extractor, sources, split_workers),
                strict=strict,
            )
    except BrokenPipeError:
        # The reader has closed the pipe deliberately, as head does.
        discard_stdout()
        raise typer.Exit(CLOSED_PIPE) from None
    if n_skipped:
        raise typer.Exit(SOME_SKIPPED)


def _choose_split_workers(extractor: Extractor, sources: Sources, given: int | None) -> int:
    """Return the number of processes that split texts ahead. A small input does not wait for them to start."""
    if given is not None:
        return given
    has_gpu = getattr(extractor.model.device, "type", None) == "cuda"
    return min(_MOST_SPLIT_WORKERS, count_cores() // 2) if has_gpu and (sources.n_bytes or 0) > _MUCH_TEXT else 0


def find_given_inputs(inputs: list[str] | None, text: list[str] | None = None) -> list[str]:
    """Return the inputs, or standard input if there are none."""
    if was_closed("stdin") and "-" in (inputs or []):
        raise ConfigError("standard input is closed, but - was given", "Pipe a text in, or pass a file")
    if inputs or text:
        return inputs or []
    if was_closed("stdin") or sys.stdin.isatty():
        raise ConfigError("no input was given", "Pass files, folders, - for standard input, or --text")
    return ["-"]


def _describe_source(folder: Path) -> dict[str, str]:
    """Return the checksum of a loaded model, as corpus jobs compute it, and the version of the package."""
    from cascade_srn.model.folder import model_checksum, read_config
    from cascade_srn.version import __version__

    # Loading has compared the files with their checksums: SHA-256, or CRC-32 if the model is exported.
    *_, known = read_config(folder)
    return {"model": model_checksum(folder, known), "version": __version__}


def _read_languages(folder: Path) -> tuple[str, ...]:
    from cascade_srn.model.info import read_languages

    return read_languages(folder)


def _run(
    extractor: Extractor,
    sources: Sources,
    notes: FoldedNotes,
    *,
    source: dict[str, str],
    folder: Path,
    format: str,
    output: Path | None,
    threshold: list[str],
    labels: list[str] | None,
    batch_words: int | None,
    split_workers: int,
    strict: bool,
) -> int:
    """Extract, write the results, and return the number of skipped texts."""
    from cascade_srn.apps.extract.run import extract_all, format_totals, show_extraction_progress
    from cascade_srn.apps.extract.writers import make_writer
    from cascade_srn.formats.label_filter import select_labels
    from cascade_srn.inference.options import parse_thresholds

    thresholds = parse_thresholds(threshold, extractor.schema, extractor.model.settings.thresholds)
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal and output is None else 0
    if labels is not None:
        select_labels(labels, extractor.schema)  # raises before the output is created
    writer = make_writer(
        format, output, schema=extractor.schema, terminal=terminal, width=width, kept=sources.keep, source=source
    )
    # Results on the terminal show the progress themselves.
    shown = sys.stderr.isatty() and (output is not None or not terminal)
    try:
        with show_extraction_progress(sources.n_bytes, shown=shown) as progress:
            counts = extract_all(
                extractor,
                sources,
                writer,
                batch_words=batch_words,
                thresholds=thresholds,
                labels=labels,
                strict=strict,
                read_languages=partial(_read_languages, folder),
                split_workers=split_workers,
                tell=notes.tell,
                progress=progress,
            )
    finally:
        notes.finish()
    for name in sorted(sources.unseen):
        print_note(f"no record has the field {name!r}, which was to be kept")
    if output is not None or counts.bad:
        typer.echo(format_totals(counts, output), err=True)
    return counts.bad
