"""``cascade-srn calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cascade_srn.cli.failures import tell_unread
from cascade_srn.data.alignment import Align

if TYPE_CHECKING:
    from cascade_srn.calibration.model_folder import Recalibrated
    from cascade_srn.evaluation.scores import TaskScores


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, by folder, name or hub id.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Annotated documents that the model was not trained on.")],
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where the model goes; its own folder to change it there.")
    ],
    by_label: Annotated[
        bool, typer.Option("--by-label", help="Give each label a threshold of its own, where there is enough of it.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option("--format", help="Of the data: dygie, spert, brat or jsonl; guessed when left out."),
    ] = None,
    align: Annotated[
        str, typer.Option("--align", metavar="exact|expand", help="Refuse offsets within a word, or take all of it.")
    ] = "exact",
    device: Annotated[
        str, typer.Option("--device", help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
) -> None:
    """Choose a model's thresholds and temperatures anew, on documents that it was not trained on.

    Training does this on the development documents; here others take their place, such as a few annotated ones of
    another field. The weights stay as they are.
    """
    from cascade_srn.calibration.model_folder import recalibrate
    from cascade_srn.runs.device import find_device

    found = recalibrate(
        model,
        data,
        output,
        format=format,
        align=cast(Align, align),
        by_label=by_label,
        device=find_device(device),
        on_read=tell_unread,
    )
    typer.echo(_told(found))
    typer.echo(f"The model is in {output}", err=True)


def _told(found: Recalibrated) -> str:
    rows = [
        ("NER", found.before.ner, found.after.ner),
        ("RE boundaries", found.before.re_boundaries, found.after.re_boundaries),
        ("RE strict", found.before.re_strict, found.after.re_strict),
    ]
    if found.changed:
        lines = ["micro F1 on these documents, before and after:"]
        lines += [f"  {name:<15}{_figure(before):>6}{_figure(after):>7}" for name, before, after in rows]
    else:
        lines = [
            "Nothing was changed: there is too little to choose by, or the model does no better with other thresholds.",
            "micro F1 on these documents, as before:",
            *(f"  {name:<15}{_figure(before):>6}" for name, before, _ in rows),
        ]
    for name, values in (("thresholds", found.thresholds), ("temperatures", found.temperatures)):
        shown = [f"{key} {value:g}" for key, value in values.to_dict().items() if isinstance(value, float)]
        shown += [
            f"{label} {value:g}"
            for group in values.to_dict().values()
            if isinstance(group, dict)
            for label, value in group.items()
        ]
        lines.append(f"{name}: {', '.join(shown)}")
    return "\n".join(lines)


def _figure(scores: TaskScores) -> str:
    return f"{100 * scores.counts.f1:.1f}"
