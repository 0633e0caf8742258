"""``cascade-srn adapt``: continue the pretraining of an encoder on raw text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cascade_srn.cli.options import Device, settings_as_options
from cascade_srn.training.adapt.settings import AdaptSettings

if TYPE_CHECKING:
    from rich.console import Console

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
    from cascade_srn.runs.display import console_for
    from cascade_srn.runs.process import end_processes, make_accelerator

    is_main = make_accelerator(device).is_main_process
    console = console_for(is_main=is_main)
    _run(
        console,
        is_main=is_main,
        texts=texts,
        settings=settings,
        output=output,
        holdout=holdout or [],
        resume=resume,
        overwrite=overwrite,
        device=device,
    )
    console.print(f"The encoder is in {output}. Use it with model.encoder.name={output}")
    end_processes()


def _run(console: Console, *, is_main: bool, **arguments: Any) -> None:
    from cascade_srn.training.adapt.display import display
    from cascade_srn.training.adapt.folder import AdaptFolder
    from cascade_srn.training.adapt.run import Adaptation, check_finished

    if arguments["resume"] and AdaptFolder(arguments["output"]).is_finished:
        if is_main:
            check_finished(
                **{name: arguments[name] for name in ("texts", "settings", "output", "holdout", "overwrite")}
            )
        console.print(f"The adaptation in {arguments['output']} is finished; there is nothing to resume.")
        return
    adaptation = Adaptation(**arguments)
    console.print(_summary(adaptation))
    with display(console) as shown:
        adaptation.loop.on_step = shown.step
        for progress in adaptation:
            shown.progress(progress)


def _summary(adaptation: Adaptation) -> str:
    """Describe the text that was read and the training that follows."""
    counts, settings, loop = adaptation.counts, adaptation.settings, adaptation.loop
    lines = [
        f"{counts['documents']:,} documents, {counts['pieces']:,} pieces: {counts['sequences']:,} sequences of "
        f"{settings.sequence_pieces} for training, {counts['held_out_sequences']:,} held out."
    ]
    if adaptation.removed is not None:
        lines.append(
            f"{counts['removed_sentences']:,} sentences removed that are among the {len(adaptation.removed):,} of "
            f"{', '.join(map(str, adaptation.holdout))}."
        )
    if adaptation.new_head:
        alone = f" It is trained alone for the first {loop.n_head_steps:,} steps." if loop.n_head_steps else ""
        lines.append(f"The encoder has no masked-language-model head, so a new one is added.{alone}")
    if adaptation.resumed_at is not None:
        lines.append(f"Resuming after step {adaptation.resumed_at} of {loop.n_steps}.")
    return "\n".join(lines)
