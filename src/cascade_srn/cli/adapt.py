"""``cascade-srn adapt``: continue the pretraining of an encoder on raw text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.options import Device, settings_as_options
from cascade_srn.training.adapt import AdaptSettings

if TYPE_CHECKING:
    from cascade_srn.training.adapt.run import Adaptation


@settings_as_options(AdaptSettings)
def adapt(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…", help="Files (.txt, .jsonl, also .gz, .xz, .bz2) or folders of raw text."),
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the adapted encoder.")],
    settings: AdaptSettings,
    holdout: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA", help="Annotated data whose sentences are removed from the text. Repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the output folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the output folder.")] = False,
    device: Device = "auto",
) -> None:
    """Adapt an encoder to a field by masked language modelling on raw text.

    The output folder is an ordinary encoder. Use it in a recipe as model.encoder.name=DIR.
    """
    from cascade_srn.runs.display import console_for, show_progress
    from cascade_srn.runs.process import end_processes
    from cascade_srn.training.adapt import AdaptProgress
    from cascade_srn.training.adapt.run import Adaptation

    adaptation = Adaptation(
        texts, settings, output, holdout=holdout or [], resume=resume, overwrite=overwrite, device=device
    )
    console = console_for(is_main=adaptation.context.is_main)
    if adaptation.is_finished:
        console.print(f"The adaptation in {output} is finished; there is nothing to resume.")
    else:
        console.print(_summary(adaptation))
        with show_progress(console, AdaptProgress.row) as shown:
            adaptation.run(shown.progress, shown.step)
    console.print(f"The encoder is in {output}. Use it with model.encoder.name={output}")
    end_processes()


def _summary(adaptation: Adaptation) -> str:
    """Describe the text that was read and the training that follows."""
    counts, settings = adaptation.counts, adaptation.settings
    lines = [
        f"{counts['documents']:,} documents, {counts['pieces']:,} pieces: {counts['sequences']:,} sequences of "
        f"{settings.sequence_pieces} for training, {counts['held_out_sequences']:,} held out."
    ]
    if adaptation.holdout:
        lines.append(
            f"{counts['removed_sentences']:,} sentences removed that are among the {len(adaptation.removed):,} of "
            f"{', '.join(map(str, adaptation.holdout))}."
        )
    if adaptation.new_head:
        alone = f" It is trained alone for the first {adaptation.n_head_steps:,} steps." if settings.head_steps else ""
        lines.append(f"The encoder has no masked-language-model head, so a new one is added.{alone}")
    if adaptation.checkpoint is not None:
        step = adaptation.checkpoint.rpartition("-")[2]
        lines.append(f"Resuming after step {step} of {adaptation.n_steps}.")
    return "\n".join(lines)
