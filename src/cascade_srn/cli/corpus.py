"""``cascade-srn corpus``: extract from large corpora, on one machine or on many."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.failures import INTERRUPTED, mark_reported
from cascade_srn.cli.options import (
    BundledModel,
    Constraints,
    Device,
    OptionalBatchWords,
    Overlaps,
    PromisedPrecision,
    SkippedParts,
    TextEncoding,
    make_settings,
    split_names,
)
from cascade_srn.config import require_choice
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from cascade_srn.apps.corpus import JobProgress, JobReport, StatusReport, VerifyReport
    from cascade_srn.apps.corpus.engine import CorpusEngine
    from cascade_srn.apps.corpus.sample import Estimate
    from cascade_srn.config import Thresholds

NOT_CORRECT = 1
# Not 1, with which Python and Ray end a process that did not finish its job.
SOME_FAILED = 3
ENGINES = ("local", "ray")
_EXAMPLES = """Examples:

  cascade-srn corpus run abstracts.jsonl.gz --output out

  cascade-srn corpus run "s3://bucket/papers/*.parquet" -o out --field abstract --id-field doi --keep title,year

  cascade-srn corpus run papers/ -o out --dry-run

  cascade-srn corpus run papers/ -o out --resume

  cascade-srn corpus run /data/papers -o /shared/out --engine ray --address auto --workers 64

See docs/corpus.md for the tables and for SQL on them.
"""

OutputFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of a job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def run(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT…",
            help="JSON lines, Parquet, CSV, TSV and text files (also compressed), folders, quoted patterns, and "
            "addresses such as s3://bucket/folder.",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Output folder: a new one, or with --resume that of a job."),
    ] = None,
    model: BundledModel = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="Worker processes on this machine, or Ray (extra: ray).")
    ] = "local",
    workers: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of workers. auto: by cores, memory and GPUs.")
    ] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue the job in the output folder.")] = False,
    field: Annotated[str, typer.Option(help="Field or column that contains the text.")] = "text",
    id_field: Annotated[
        str | None, typer.Option(help="Field or column of the document id. Default: id if there is one, else FILE:ROW.")
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            metavar="NAME[:TYPE],…",
            help="Columns to copy into the documents table. Types: string (default), int64, float64, bool. "
            "Parquet columns keep their own types.",
        ),
    ] = "",
    input_format: Annotated[
        str | None,
        typer.Option(metavar="jsonl|parquet|csv|tsv|text", help="Format of the input. Default: by suffix and content."),
    ] = None,
    encoding: TextEncoding = None,
    format: Annotated[str, typer.Option(metavar="parquet|jsonl", help="Format of the output.")] = "parquet",
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Leave the texts out of the documents table, which saves space.")
    ] = False,
    skip: SkippedParts = "",
    threshold: Annotated[
        list[str] | None,
        typer.Option(metavar="X|TURN=X|LABEL=X", help="Minimum score, 0 to 1, as for extract. Repeatable."),
    ] = None,
    overlaps: Overlaps = None,
    constraints: Constraints = None,
    batch_words: OptionalBatchWords = None,
    precision: PromisedPrecision = "auto",
    device: Device = "auto",
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of each worker. Default: the cores divided by the workers.", min=1)
    ] = None,
    shard_documents: Annotated[
        int | None,
        typer.Option(help="Maximum number of documents in a shard. Default: shards of about 30 seconds.", min=1),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Process only the first N documents.", min=1)] = None,
    max_errors: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Stop if more than this share of the documents fails, such as 0.01 or 1%."),
    ] = None,
    max_attempts: Annotated[
        int, typer.Option(help="Number of tries of a shard whose worker dies, before it goes to errors.", min=1)
    ] = 3,
    shard_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit for one try of a shard. Default: none.", min=1)
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster, such as auto. Default: Ray on this machine.")
    ] = None,
    gpus_per_worker: Annotated[
        float | None, typer.Option(help="GPUs of a Ray worker. Default: 1 on a GPU device, else 0.", min=0)
    ] = None,
    array: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Process only every N-th shard, from the I-th on (0 to N-1): one job of a SLURM array."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print shards and estimated time, from a short sample. Write nothing.")
    ] = False,
) -> None:
    """Extract entities and relations from a corpus of any size.

    The job can be killed at any moment and continued with --resume. The result is the same for any number of workers.
    Documents that cannot be used are in the errors table, and the exit code is then 3.
    """
    from cascade_srn.apps.corpus import CorpusSettings, InputSettings
    from cascade_srn.apps.corpus import run as run_job

    require_choice("engine", engine, ENGINES, option="engine")
    for name, value in (("address", address), ("gpus_per_worker", gpus_per_worker)):
        if value is not None and engine != "ray":
            raise ConfigError(f"{name} is {value!r}, but the engine is {engine!r}", "Use the engine ray", option=name)
    given = locals()
    settings = make_settings(
        CorpusSettings,
        given,
        inputs=make_settings(InputSettings, given, keep=tuple(split_names(keep)), format=input_format),
        skip=tuple(split_names(skip)),
        max_error_share=_parse_share(max_errors),
        store_text=not no_text,
    )
    task, n_workers = _parse_array(array), parse_workers(workers)
    if threshold:
        settings = replace(settings, thresholds=_parse_thresholds(threshold, model))
    if dry_run:
        from cascade_srn.apps.corpus.sample import estimate

        typer.echo(_format_estimate(estimate(inputs, model=model, workers=n_workers, settings=settings, output=output)))
        return
    if output is None:
        raise ConfigError("no output folder was given", "Give a new folder", option="output")
    chosen = _make_engine(engine, n_workers, shard_timeout, address, gpus_per_worker)
    with showing_job("Continue with --resume.") as progress:
        report = run_job(
            inputs,
            output,
            model=model,
            engine=chosen,
            resume=resume,
            settings=settings,
            progress=progress,
            array=task,
        )
    typer.echo(_format_report(report, output, format))
    if report.rows["errors"]:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def showing_job(advice: str) -> Iterator[Callable[[JobProgress], None]]:
    """Show the progress of a job on standard error. If a signal stops it, print how to continue it."""
    from cascade_srn.apps.corpus import JobInterrupted
    from cascade_srn.apps.corpus.progress import ProgressView
    from cascade_srn.runs.display import show_progress

    try:
        with show_progress(_console(), ProgressView().add) as display:
            yield display.progress
    except JobInterrupted as stopped:
        done = f"{stopped.report.n_shards_done:,} of {stopped.report.n_shards:,} shards are done"
        typer.echo(f"Stopped. {done}. {advice}", err=True)
        mark_reported(stopped)
        raise typer.Exit(128 + stopped.signal if stopped.signal else INTERRUPTED) from stopped


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def status(output: OutputFolder, as_json: AsJson = False) -> None:
    """Print how far a job has come. The job may be running, finished or stopped."""
    from cascade_srn.apps.corpus import status

    report = status(output)
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else _format_status(report))


def verify(output: OutputFolder, as_json: AsJson = False) -> None:
    """Check that a job is complete, that no document is lost or repeated, and that no file has changed.

    The exit code is 1 if something is missing or wrong.
    """
    from cascade_srn.apps.corpus import verify
    from cascade_srn.runs.display import ProgressRow, show_progress

    def row(done: tuple[int, int]) -> ProgressRow:
        return ProgressRow("shards", *done, "", line=f"{done[0]:,} of {done[1]:,} shards")

    with show_progress(_console(), row) as display:
        report = verify(output, lambda n_done, n_shards: display.progress((n_done, n_shards)))
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else _format_verification(report))
    if not report.is_correct:
        raise typer.Exit(NOT_CORRECT)


app = typer.Typer(help="Extract from large corpora: jobs that can be killed and resumed.", no_args_is_help=True)
app.command(epilog=_EXAMPLES)(run)
app.command()(status)
app.command()(verify)


def parse_workers(text: str) -> int | str:
    """Return the number of workers, or "auto"."""
    if text == "auto":
        return text
    if not re.fullmatch("[0-9]+", text) or int(text) == 0:
        raise ConfigError(f"workers is {text!r}", "Give a number of at least 1, or auto", option="workers")
    return int(text)


def _parse_share(text: str | None) -> float | None:
    """Return a share that is given as a number from 0 to 1 or in percent."""
    if text is None:
        return None
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigError(f"max_errors is {text!r}", "Give a share such as 0.01 or 1%", option="max_errors")
    return share


def _parse_array(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch("([0-9]+)/([0-9]+)", text.strip())
    if found is None:
        raise ConfigError(
            f"array is {text!r}", "Give the number of the task, from 0, and the number of tasks: 0/16", option="array"
        )
    return int(found[1]), int(found[2])


def _parse_thresholds(given: list[str], model: str | None) -> Thresholds:
    from cascade_srn.inference.options import parse_thresholds
    from cascade_srn.model.folder import read_settings
    from cascade_srn.storage.bundled import find_model

    settings, schema = read_settings(find_model(model))
    return parse_thresholds(given, schema, settings.thresholds)


def _make_engine(
    name: str, workers: int | str, shard_timeout: float | None, address: str | None, gpus_per_worker: float | None
) -> CorpusEngine:
    if name == "local":
        from cascade_srn.apps.corpus.local import LocalEngine

        return LocalEngine(workers, shard_timeout=shard_timeout)
    from cascade_srn.apps.corpus.ray import RayEngine

    return RayEngine(workers, address=address, gpus_per_worker=gpus_per_worker, shard_timeout=shard_timeout)


def _format_estimate(estimate: Estimate) -> str:
    from cascade_srn.apps.corpus.progress import with_number
    from cascade_srn.runs.display import duration

    size = next(
        f"{estimate.n_bytes / unit:.1f} {name}" for unit, name in _UNITS if estimate.n_bytes >= unit or unit == 1
    )
    lines = [
        f"input: {with_number(estimate.n_documents, 'document')} in {with_number(estimate.n_files, 'file')} ({size}), "
        f"{with_number(estimate.n_shards, 'shard')}",
        f"workers: {estimate.n_workers:,} on {estimate.device}, {with_number(estimate.n_threads, 'thread')} each",
        f"sample: {with_number(estimate.n_sampled, 'document')} of {estimate.words_per_document:,.0f} words, "
        f"{estimate.n_unreadable:,} of them cannot be used",
        f"time: about {duration(estimate.seconds)}, {estimate.documents_per_second:,.1f} documents/s",
        "Nothing was written.",
    ]
    return "\n".join(lines)


_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "bytes"))


def _format_report(report: JobReport, output: str, format: str) -> str:
    from cascade_srn.apps.corpus.progress import with_number
    from cascade_srn.runs.display import duration

    rows = report.rows
    total = (
        f"{with_number(rows['documents'], 'document')}, {rows['entities']:,} entities, "
        f"{with_number(rows['relations'], 'relation')} in {output}"
    )
    lines = [f"{total} ({'finished before' if report.was_finished else duration(report.seconds)})"]
    if rows["errors"]:
        failed = f", among them {with_number(report.n_shards_failed, 'whole shard')}" if report.n_shards_failed else ""
        lines.append(f"{with_number(rows['errors'], 'document')} in errors{failed}")
    if not report.is_finished:
        lines.append("Other tasks of the array are not finished yet.")
    elif format == "parquet":
        lines.append(f"Read with DuckDB: SELECT * FROM '{output}/relations/*.parquet'")
    else:
        lines.append(f"Read with: cat {output}/documents/*.jsonl")
    return "\n".join(lines)


def _format_status(report: StatusReport) -> str:
    from cascade_srn.apps.corpus.progress import format_rate, with_number
    from cascade_srn.runs.display import duration

    holder = f" ({report.holder})" if report.holder else ""
    lines = [
        f"state: {report.state}{holder}",
        f"shards: {report.n_shards_done:,} of {report.n_shards:,}",
        f"documents: {report.n_rows_done:,} of {report.n_rows:,} ({report.share_done:.1%})",
        f"errors: {report.n_errors:,}",
    ]
    lines += [f"  {number:,} x {reason}" for reason, number in report.reasons]
    if report.documents_per_second is not None:
        lines.append(f"rate: {format_rate(report.documents_per_second)}")
    if report.state == "running" and report.seconds_left is not None:
        lines.append(f"time left: {duration(report.seconds_left)}")
    if report.state == "stopped":
        left = with_number(report.n_shards - report.n_shards_done, "shard")
        lines.append(f"{left} left. Continue with cascade-srn corpus run … --resume.")
    return "\n".join(lines)


def _format_verification(report: VerifyReport) -> str:
    from cascade_srn.apps.corpus.progress import with_number

    rows = report.rows
    lines = [
        f"shards: {report.n_shards_done:,} of {report.n_shards:,}",
        f"input: {with_number(report.n_rows, 'row')}",
        f"tables: {with_number(rows['documents'], 'document')}, {with_number(rows['errors'], 'error')}, "
        f"{rows['entities']:,} entities, {with_number(rows['relations'], 'relation')}",
    ]
    if report.n_repeated_ids:
        some = ", ".join(map(repr, report.repeated_ids))
        lines.append(f"ids that occur more than once: {report.n_repeated_ids:,}, such as {some}")
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"problem: {problem}" for problem in report.problems]
    if report.n_problems > len(report.problems):
        lines.append(f"and {report.n_problems - len(report.problems):,} more problems")
    if report.is_correct:
        lines.append("complete and correct")
    elif report.n_problems:
        found = with_number(report.n_problems, "problem")
        lines.append(f"{found}. Remove files that are not part of the job, and run it again with --resume.")
    else:
        lines.append("not complete")
    return "\n".join(lines)
