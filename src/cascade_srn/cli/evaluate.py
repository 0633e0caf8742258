"""``cascade-srn evaluate``: score models on annotated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.failures import print_read_notes
from cascade_srn.cli.options import (
    Alignment,
    BatchWords,
    DataFormat,
    Device,
    KeepEscapes,
    Precision,
    ResampledUnit,
    make_settings,
)
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.options import EvaluateOptions


def evaluate(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="MODEL… DATA", help="One or more models (folders or hub ids), then the data."),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Model to compare with. Repeatable. Two models are always compared."),
    ] = None,
    symmetric: Annotated[
        str, typer.Option(metavar="directed|canonical|doubled|all", help="How to count symmetric relations.")
    ] = EvaluateOptions.symmetric,
    gold_entities: Annotated[
        bool, typer.Option("--gold-entities", help="Give the gold entities to the model and score the relations.")
    ] = EvaluateOptions.gold_entities,
    train: Annotated[
        str | None, typer.Option(metavar="DATA", help="Training data, to score seen and unseen entities separately.")
    ] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="Print the scores of each label.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the HTML report, analysis.json and scores.json.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="PATH", help="JSON file for all scores.")] = None,
    format: DataFormat = None,
    align: Alignment = EvaluateOptions.align,
    keep_escapes: KeepEscapes = EvaluateOptions.keep_escapes,
    resample: ResampledUnit = EvaluateOptions.resample,
    resamples: Annotated[int, typer.Option(help="Number of bootstrap resamples.")] = EvaluateOptions.n_resamples,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = EvaluateOptions.seed,
    batch_words: BatchWords = EvaluateOptions.batch_words,
    precision: Precision = EvaluateOptions.precision,
    device: Device = "auto",
) -> None:
    """Score models on annotated data: NER, RE boundaries and RE strict.

    Several models, such as the seeds of a recipe, give mean ± standard deviation. Two models, or --against, give the
    difference with a bootstrap interval.
    """
    if len(paths) < 2:
        raise ConfigError(f"only {paths[0]!r} was given", "Pass one or more models, then the data: MODEL… DATA")
    options = make_settings(
        EvaluateOptions,
        locals(),
        models=tuple(paths[:-1]),
        data=paths[-1],
        against=tuple(against or ()),
        n_resamples=resamples,
    )
    from cascade_srn.benchmarks.measuring import environment
    from cascade_srn.evaluation.evaluate import evaluate as evaluate_models
    from cascade_srn.evaluation.evaluate import require_writable, write_json, write_reports
    from cascade_srn.evaluation.text import format_evaluation
    from cascade_srn.runs.device import find_device

    found_device = find_device(device)
    require_writable(report, json)
    used = ("bf16" if found_device.type == "cuda" else "float32") if precision == "auto" else precision
    result = evaluate_models(
        options, device=found_device, environment=environment(found_device, used), on_read=print_read_notes
    )
    typer.echo(format_evaluation(result, per_label=per_label))
    if json is not None:
        write_json(result.to_dict(), json)
    if report is not None:
        for folder in write_reports(result, report):
            typer.echo(f"report in {folder}", err=True)
