"""``cascade-srn calibrate``: choose thresholds and temperatures of a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cascade_srn.cli.failures import print_read_notes
from cascade_srn.cli.options import Alignment, DataFormat, Device
from cascade_srn.errors import ConfigError
from cascade_srn.formats.alignment import Align
from cascade_srn.inference.options import KINDS
from cascade_srn.schema import MIN_PAIR_COUNT

if TYPE_CHECKING:
    from cascade_srn.evaluation.calibration.model_folder import CalibrationResult
    from cascade_srn.evaluation.scores import TaskScores


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, name or hub id.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Annotated documents that were not used for training.")],
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder for the calibrated model. May be that of MODEL.")
    ],
    by_label: Annotated[
        bool, typer.Option("--by-label", help="Choose a threshold for each label with enough examples.")
    ] = False,
    learn_constraints: Annotated[
        str | None,
        typer.Option(metavar="TRAIN", help="Learn which entity types a relation may have from these documents."),
    ] = None,
    reviewed: Annotated[
        bool,
        typer.Option(
            "--reviewed",
            help="DATA is the output of extract as JSON lines, in which entities and relations have a field correct, "
            "true or false. It is used for --precision only.",
        ),
    ] = False,
    min_pair_count: Annotated[
        int, typer.Option(metavar="N", help="With --learn-constraints: examples that make a pair of types allowed.")
    ] = MIN_PAIR_COUNT,
    format: DataFormat = None,
    align: Alignment = "exact",
    device: Device = "auto",
) -> None:
    """Choose thresholds, temperatures and the treatment of overlapping entities on annotated documents.

    The documents are also what --precision of other commands is promised from. Training does this on the development
    documents. Use this command for documents of another field. The weights do not change.
    """
    if reviewed:
        _calibrate_reviewed(model, data, output, by_label=by_label, learn_constraints=learn_constraints)
        return
    from cascade_srn.evaluation.calibration.model_folder import calibrate_model_folder
    from cascade_srn.runs.device import find_device

    result = calibrate_model_folder(
        model,
        data,
        output,
        format=format,
        align=cast(Align, align),
        by_label=by_label,
        learn_constraints=learn_constraints,
        min_pair_count=min_pair_count,
        device=find_device(device),
        on_read=print_read_notes,
    )
    typer.echo(_summary(result))
    typer.echo(f"The model is in {output}", err=True)


def _calibrate_reviewed(model: str, data: str, output: Path, **others: object) -> None:
    for name, value in others.items():
        if value:
            raise ConfigError("marked predictions change no thresholds", "Leave this option out", option=name)
    from cascade_srn.evaluation.calibration.model_folder import review_model_folder
    from cascade_srn.inference.precision import RankedPredictions

    record = review_model_folder(model, data, output)
    for kind in KINDS:
        found = RankedPredictions.of(record, kind, getattr(record, kind).labels)
        highest = found.highest_level()
        right = f"{found.correct.sum():,} of {len(found.correct):,} {kind} are right"
        promised = "no precision can be promised" if highest is None else f"precision up to {highest:g} can be promised"
        typer.echo(f"{right}; {promised}")
    typer.echo(f"The model is in {output}", err=True)


def _summary(result: CalibrationResult) -> str:
    before, after = result.before, result.after
    rows = [
        ("NER", before.ner, after.ner),
        ("RE boundaries", before.re_boundaries, after.re_boundaries),
        ("RE strict", before.re_strict, after.re_strict),
    ]
    if result.changed:
        lines = ["micro F1 on these documents, before and after:"]
        lines += [f"  {name:<15}{_f1(old):>6}{_f1(new):>7}" for name, old, new in rows]
    else:
        lines = [
            "Nothing was changed: there are too few annotations, or other thresholds are no better.",
            "micro F1 on these documents:",
            *(f"  {name:<15}{_f1(old):>6}" for name, old, _ in rows),
        ]
    for name, settings in (("thresholds", result.thresholds), ("temperatures", result.temperatures)):
        values = settings.to_dict()
        numbers = {key: value for key, value in values.items() if isinstance(value, float)}
        for group in values.values():
            numbers |= group if isinstance(group, dict) else {}
        lines.append(f"{name}: {', '.join(f'{key} {value:g}' for key, value in numbers.items())}")
    lines.append(f"overlaps: {result.overlaps}")
    if n_constrained := len(result.schema.constraints):
        lines.append(f"constraints: {result.constraints}, {n_constrained} relation types have some")
    return "\n".join(lines)


def _f1(scores: TaskScores) -> str:
    return f"{100 * scores.counts.f1:.1f}"
