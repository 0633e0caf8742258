"""``cascade-srn extract``: entities and relations of raw text."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.failures import CLOSED_PIPE, give_up_stdout, one_line, was_closed
from cascade_srn.errors import ConfigError
from cascade_srn.runs.process import sigterm_as_exit

if TYPE_CHECKING:
    from cascade_srn.extraction.sources import Sources
    from cascade_srn.extractor import Extractor

SOME_BAD = 1


def extract(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|FOLDER|PATTERN|-]…",
            help="Raw text: .txt and .jsonl files (also .gz, .xz, .bz2), folders of them, patterns in quotes; "
            "- is standard input.",
        ),
    ] = None,
    text: Annotated[list[str] | None, typer.Option(metavar="T", help="A text itself; again for more.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="M", help="By folder, name or hub id; the one that ships with the package if left out."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="table|jsonl|brat|html",
            help="Told by the ending of --output if left out; else table on a terminal, jsonl in a pipe.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="P", help="A file, or a folder for brat; standard output if left out."),
    ] = None,
    per: Annotated[
        str,
        typer.Option(
            metavar="auto|file|line|record",
            help="What a document is; auto is a record in .jsonl and a file in .txt.",
        ),
    ] = "auto",
    field: Annotated[str, typer.Option(help="The field of JSON records that holds the text.")] = "text",
    id_field: Annotated[str, typer.Option(help="The field of JSON records that holds a document's name.")] = "id",
    segmenter: Annotated[
        str,
        typer.Option(
            metavar="rules|lines|spaces",
            help="How text is split; lines: a sentence a line; spaces: that, and words between spaces.",
        ),
    ] = "rules",
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X|TURN=X|LABEL=X",
            help="What scores must reach, 0 to 1: in all turns, in one (entity, subject, object), for a label, "
            "for entities with a relation (related), or for relations as a whole (relation).",
        ),
    ] = None,
    batch_words: Annotated[int, typer.Option(help="Words of a batch at most, padding included.")] = 4096,
    precision: Annotated[
        str, typer.Option(help="Of the pretrained encoder: auto (bf16 on a GPU), float32 or bf16.")
    ] = "auto",
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first text that cannot be used, instead of going on.")
    ] = False,
) -> None:
    """Extract entities and relations from raw text.

    What cannot be read is told on stderr and left out; the exit code is then 1. It is 2 where nothing was done.
    docs/extract.md tells the rest.
    """
    from cascade_srn.extraction.sources import Sources
    from cascade_srn.extraction.writers import check_output, chosen_format

    if output is None and was_closed("stdout"):
        raise ConfigError("standard output is closed; name a file for the results by --output")
    chosen = chosen_format(format, output, terminal=sys.stdout.isatty())
    sources = Sources(
        _arguments(inputs, text), text or (), per=per, field=field, id_field=id_field, output=output, tell=_note
    )
    check_output(chosen, output)
    extractor = _extractor(model, segmenter=segmenter, device=device, precision=precision)
    try:
        # What was extracted until then is kept, as it is after Ctrl-C.
        with sigterm_as_exit():
            n_bad = _run(
                extractor,
                sources,
                format=chosen,
                output=output,
                threshold=threshold or [],
                batch_words=batch_words,
                strict=strict,
            )
    except BrokenPipeError:
        # The reader has what it wants.
        give_up_stdout()
        raise typer.Exit(CLOSED_PIPE) from None
    if n_bad:
        raise typer.Exit(SOME_BAD)


def _note(sentence: str) -> None:
    typer.echo(f"Note: {one_line(sentence)}", err=True)


def _arguments(inputs: list[str] | None, text: list[str] | None) -> list[str]:
    """Return what to read: what was named, or else standard input."""
    if was_closed("stdin") and "-" in (inputs or []):
        raise ConfigError("standard input is closed, but - was given; pipe a text in, or name a file")
    if inputs or text:
        return inputs or []
    if was_closed("stdin") or sys.stdin.isatty():
        raise ConfigError("there is nothing to extract from; give files, folders, - for standard input, or --text")
    return ["-"]


def _extractor(model: str | None, *, segmenter: str, device: str, precision: str) -> Extractor:
    from cascade_srn.config import require_choice
    from cascade_srn.text.presplit import SEGMENTERS

    require_choice("--segmenter", segmenter, tuple(SEGMENTERS))
    from cascade_srn.extractor import Extractor
    from cascade_srn.runs.device import find_device

    return Extractor.from_pretrained(
        model, device=find_device(device), precision=precision, segmenter=SEGMENTERS[segmenter]
    )


def _run(
    extractor: Extractor,
    sources: Sources,
    *,
    format: str,
    output: Path | None,
    threshold: list[str],
    batch_words: int,
    strict: bool,
) -> int:
    """Extract, show it, and say what was done; how many texts could not be used."""
    from cascade_srn.extraction.run import display, extract_all, told
    from cascade_srn.extraction.writers import make_writer
    from cascade_srn.inference.thresholds import parse_thresholds

    thresholds = parse_thresholds(threshold, extractor.schema, extractor.model.settings.thresholds)
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal and output is None else 0
    writer = make_writer(format, output, schema=extractor.schema, terminal=terminal, width=width)
    # Results that go to the terminal show themselves how far they are.
    shown = sys.stderr.isatty() and (output is not None or not terminal)
    with display(sources.n_bytes, shown=shown) as progress:
        counts = extract_all(
            extractor,
            sources,
            writer,
            batch_words=batch_words,
            thresholds=thresholds,
            strict=strict,
            tell=_note,
            progress=progress,
        )
    if output is not None or counts.bad:
        typer.echo(told(counts, output), err=True)
    return counts.bad
