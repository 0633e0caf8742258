"""``cascade-srn evaluate``: score models on annotated data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cascade_srn.cli.failures import print_read_notes
from cascade_srn.cli.options import (
    Alignment,
    BatchWords,
    Constraints,
    DataFormat,
    Device,
    KeepEscapes,
    LabelMapFile,
    Overlaps,
    PromisedPrecision,
    ResampledUnit,
    TextEncoding,
    TextField,
    make_settings,
)
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.breakdown import BREAKDOWNS
from cascade_srn.evaluation.noise import DOCUMENT_KINDS, parse_kinds
from cascade_srn.evaluation.options import EvaluateOptions, ForeignOptions

if TYPE_CHECKING:
    import torch


def evaluate(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="MODEL… [DATA]", help="Models (folders or hub ids), then the data."),
    ],
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Predictions made elsewhere, in any format, also of PURE, PL-Marker, DyGIE++ and SpERT. They are "
            "scored like a model. Repeatable.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL|FILE",
            help="Model or predictions to compare with. Repeatable. Two models are always compared.",
        ),
    ] = None,
    symmetric: Annotated[
        str, typer.Option(metavar="directed|canonical|doubled|all", help="How to count symmetric relations.")
    ] = EvaluateOptions.symmetric,
    gold_entities: Annotated[
        bool, typer.Option("--gold-entities", help="Give the gold entities to the model and score the relations.")
    ] = EvaluateOptions.gold_entities,
    from_text: Annotated[
        bool, typer.Option("--from-text", help="Extract from the raw text of the data, and score by characters.")
    ] = EvaluateOptions.from_text,
    noise: Annotated[
        str,
        typer.Option(
            metavar="all|KIND,…",
            help=f"Also score text with noise, from text: {', '.join(DOCUMENT_KINDS)}.",
        ),
    ] = "",
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Raw text of another kind, instead of DATA: count what the models find in it. Repeatable.",
        ),
    ] = None,
    overlaps: Overlaps = EvaluateOptions.overlaps,
    train: Annotated[
        str | None, typer.Option(metavar="DATA", help="Training data, to score seen and unseen entities separately.")
    ] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="Print the scores of each label.")] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUPS", help=f"Print scores by group. Repeatable. One of: {', '.join(BREAKDOWNS)}."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the HTML report, analysis.json and scores.json.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="PATH", help="JSON file for all scores.")] = None,
    format: DataFormat = None,
    predictions_format: Annotated[
        str | None, typer.Option(metavar="F", help="Format of the predictions. Detected by default.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|MODEL",
            help="With --predictions: labels and symmetric relations, from schema.json, types.json or a model.",
        ),
    ] = None,
    encoding: TextEncoding = EvaluateOptions.encoding,
    align: Alignment = EvaluateOptions.align,
    constraints: Constraints = EvaluateOptions.constraints,
    keep_escapes: KeepEscapes = EvaluateOptions.keep_escapes,
    map: LabelMapFile = None,
    resample: ResampledUnit = EvaluateOptions.resample,
    resamples: Annotated[int, typer.Option(help="Number of bootstrap resamples.")] = EvaluateOptions.n_resamples,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap and of noise.")] = EvaluateOptions.seed,
    field: TextField = ForeignOptions.field,
    batch_words: BatchWords = EvaluateOptions.batch_words,
    precision: PromisedPrecision = EvaluateOptions.precision,
    device: Device = "auto",
) -> None:
    """Score models on annotated data: NER, RE boundaries and RE strict.

    Several models, such as the seeds of a recipe, give mean ± standard deviation. Two models, or --against, give the
    difference with a bootstrap interval. --from-text scores what a user gets for the text of the data. --predictions
    scores what another program has predicted, and needs no model.
    """
    if foreign:
        _refuse_with_foreign(locals())
        foreign_options = make_settings(ForeignOptions, locals(), models=tuple(paths), texts=tuple(foreign))
        _evaluate_foreign(foreign_options, device, json, per_label=per_label)
        return
    if len(paths) < 2 and not predictions:
        raise ConfigError(f"only {paths[0]!r} was given", "Pass one or more models, then the data: MODEL… DATA")
    options = make_settings(
        EvaluateOptions,
        locals(),
        models=tuple(paths[:-1]),
        data=paths[-1],
        predictions=tuple(predictions or ()),
        against=tuple(against or ()),
        by=tuple(by or ()),
        noise=parse_kinds(noise),
        n_resamples=resamples,
        map=None if map is None else str(map),
    )
    from cascade_srn.evaluation.evaluate import evaluate as evaluate_models
    from cascade_srn.evaluation.evaluate import require_writable, write_json, write_reports
    from cascade_srn.evaluation.text import format_evaluation

    found_device, environment = _find_machine(device, precision)
    require_writable(report, json)
    result = evaluate_models(options, device=found_device, environment=environment, on_read=print_read_notes)
    typer.echo(format_evaluation(result, per_label=per_label))
    if json is not None:
        write_json(result.to_dict(), json)
    if report is not None:
        for folder in write_reports(result, report):
            typer.echo(f"report in {folder}", err=True)


# Options that need gold annotations.
_NEED_GOLD = ("predictions", "against", "gold_entities", "from_text", "noise", "train", "by", "report", "format")


def _refuse_with_foreign(arguments: Mapping[str, Any]) -> None:
    for name in _NEED_GOLD:
        if arguments[name]:
            raise ConfigError("foreign text has no gold annotations to score", "Leave this option out", option=name)


def _evaluate_foreign(options: ForeignOptions, device: str, json: Path | None, *, per_label: bool) -> None:
    from cascade_srn.evaluation.evaluate import require_writable, write_json
    from cascade_srn.evaluation.foreign import evaluate_foreign

    found_device, environment = _find_machine(device, options.precision)
    require_writable(None, json)
    result = evaluate_foreign(options, device=found_device, environment=environment)
    typer.echo(result.table(per_label=per_label))
    if json is not None:
        write_json(result.to_dict(), json)


def _find_machine(device: str, precision: str) -> tuple[torch.device, dict[str, Any]]:
    """Return the device and the description of the machine for the record."""
    from cascade_srn.inference.options import number_format
    from cascade_srn.lab.benchmarks.measuring import environment
    from cascade_srn.runs.device import find_device

    found = find_device(device)
    return found, environment(found, number_format(precision))
