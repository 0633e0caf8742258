"""``cascade-srn export``: write a model in a form that runs without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cascade_srn.cli.failures import print_read_notes
from cascade_srn.cli.options import Alignment, DataFormat
from cascade_srn.errors import ConfigError
from cascade_srn.formats.alignment import Align

if TYPE_CHECKING:
    from cascade_srn.training.export.run import ExportResult


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model folder, name or hub id.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the exported model.")
    ] = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Add files to the folder of the model, so that it also runs without torch."),
    ] = False,
    int8: Annotated[bool, typer.Option("--int8", help="Compute most layers of the encoder in 8 bits.")] = False,
    dev: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Annotated documents to compare both models on. Needed for --int8."),
    ] = None,
    format: DataFormat = None,
    align: Alignment = "exact",
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Write the model even if NER or strict RE loses more than 0.1 points.")
    ] = False,
) -> None:
    """Export a model for the light runtime: ONNX Runtime and NumPy, without torch.

    extract and serve use the exported folder as any model. Only cascades with an SRN can be exported. With --in-place,
    no weights are copied, and torch still runs the model where it is installed.
    """
    _check_options(output, in_place=in_place, int8=int8, dev=dev)
    from cascade_srn.runs.display import show_status
    from cascade_srn.training.export.run import add_light_files, export_model

    with show_status(f"Exporting {model} …"):
        if output is None:
            result = add_light_files(model)
        else:
            result = export_model(
                model,
                output,
                int8=int8,
                dev=dev,
                format=format,
                align=cast(Align, align),
                allow_loss=allow_loss,
                on_read=print_read_notes,
            )
    typer.echo(_summary(result))
    where = f"{model} also runs without torch" if output is None else f"The exported model is in {output}"
    typer.echo(where, err=True)


def _check_options(output: Path | None, *, in_place: bool, int8: bool, dev: str | None) -> None:
    if in_place == (output is not None):
        given = "were both given" if in_place else "are both missing"
        raise ConfigError(f"--output and --in-place {given}", "Pass one of them")
    for name, is_given in (("int8", int8), ("dev", dev is not None)):
        if in_place and is_given:
            raise ConfigError(
                "a model that is exported in its own folder keeps its weights and scores",
                "Leave this option out, or export to another folder",
                option=name,
            )


def _summary(result: ExportResult) -> str:
    from cascade_srn.training.run_folder import TASKS

    lines = [f"encoder in {result.precision}, {result.n_bytes / 1e6:,.1f} MB in all"]
    if result.n_float32:
        lines.append(f"inputs of layers that stay in float32: {result.n_float32}")
    if (parity := result.parity) is not None:
        lines.append(f"micro F1 on {parity.data}, before and after:")
        lines += [f"  {name:<15}{parity.before[task]:>6.1f}{parity.after[task]:>7.1f}" for task, name in TASKS.items()]
        lines.append(f"{parity.n_changed} of {parity.n_sentences} sentences have other entities or relations")
    if result.recalibrated:
        lines.append("Thresholds and temperatures were chosen again.")
    return "\n".join(lines)
