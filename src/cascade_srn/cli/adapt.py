"""``cascade-srn adapt``: an encoder goes on learning from raw text of a field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cascade_srn.adapt.settings import AdaptSettings

if TYPE_CHECKING:
    from rich.console import Console

    from cascade_srn.adapt.run import Adaptation


def adapt(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…", help="Files (.txt, .jsonl, also .gz, .xz, .bz2) and folders of raw text."),
    ],
    encoder: Annotated[str, typer.Option(help="The encoder to start from, by hub id or folder.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the adapted encoder.")],
    holdout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA", help="Annotated data to measure on later, not learned from; again for more of it."
        ),
    ] = None,
    field: Annotated[str, typer.Option(help="The field of JSON records that holds the text.")] = AdaptSettings.field,
    sequence_pieces: Annotated[
        int, typer.Option(help="Pieces of a sequence, special ones included.")
    ] = AdaptSettings.sequence_pieces,
    epochs: Annotated[int, typer.Option(help="Passes over the text.")] = AdaptSettings.epochs,
    steps: Annotated[int | None, typer.Option(help="Steps to take, instead of --epochs.")] = AdaptSettings.steps,
    batch_size: Annotated[int, typer.Option(help="Sequences of a step.")] = AdaptSettings.batch_size,
    accumulation: Annotated[
        int, typer.Option(help="Parts that a batch goes through the encoder in.")
    ] = AdaptSettings.accumulation,
    learning_rate: Annotated[float, typer.Option(help="The highest rate.")] = AdaptSettings.learning_rate,
    warmup: Annotated[float, typer.Option(help="Share of the steps over which the rate rises.")] = AdaptSettings.warmup,
    weight_decay: Annotated[float, typer.Option(help="Of matrices.")] = AdaptSettings.weight_decay,
    max_gradient_norm: Annotated[
        float, typer.Option(help="What gradients are clipped to.")
    ] = AdaptSettings.max_gradient_norm,
    masked: Annotated[float, typer.Option(help="Share of the words that is hidden.")] = AdaptSettings.masked,
    head_steps: Annotated[
        int, typer.Option(help="Steps at first in which a new head, where one is needed, learns alone.")
    ] = AdaptSettings.head_steps,
    held_out: Annotated[
        float, typer.Option(help="Share of the documents to measure perplexity on.")
    ] = AdaptSettings.held_out,
    precision: Annotated[str, typer.Option(help="float32, tf32 or bf16.")] = AdaptSettings.precision,
    seed: Annotated[int, typer.Option(help="Decides what is hidden, the order, and dropout.")] = AdaptSettings.seed,
    evaluate_steps: Annotated[
        int | None, typer.Option(help="Steps between measurements on the way.")
    ] = AdaptSettings.evaluate_steps,
    save_steps: Annotated[
        int | None, typer.Option(help="Steps between states to resume from; 0 for none.")
    ] = AdaptSettings.save_steps,
    log_steps: Annotated[int, typer.Option(help="Steps between lines of the log.")] = AdaptSettings.log_steps,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was begun in the output folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the output folder.")] = False,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
) -> None:
    """Adapt an encoder to a field: let it guess hidden words of raw text.

    The output folder is an ordinary encoder, for model.encoder.name=DIR in a recipe. docs/adapt.md explains what
    helps.
    """
    from cascade_srn.runs.display import console_for
    from cascade_srn.runs.process import end_processes, make_accelerator

    settings = AdaptSettings(
        encoder=encoder,
        field=field,
        sequence_pieces=sequence_pieces,
        held_out=held_out,
        masked=masked,
        head_steps=head_steps,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        accumulation=accumulation,
        learning_rate=learning_rate,
        warmup=warmup,
        weight_decay=weight_decay,
        max_gradient_norm=max_gradient_norm,
        precision=precision,
        seed=seed,
        evaluate_steps=evaluate_steps,
        save_steps=save_steps,
        log_steps=log_steps,
    )
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
    console.print(f"The encoder is in {output}: use it by model.encoder.name={output}", highlight=False, markup=False)
    end_processes()


def _run(console: Console, *, is_main: bool, **chosen: Any) -> None:
    """Adapt, and show it."""
    from cascade_srn.adapt.display import display
    from cascade_srn.adapt.folder import AdaptFolder
    from cascade_srn.adapt.run import Adaptation, check_finished

    if chosen["resume"] and AdaptFolder(chosen["output"]).is_finished:
        if is_main:
            same = {name: chosen[name] for name in ("texts", "settings", "output", "holdout", "overwrite")}
            check_finished(**same)
        told = f"The adaptation in {chosen['output']} is finished; there is nothing to resume."
        console.print(told, highlight=False, markup=False)
        return
    adaptation = Adaptation(**chosen)
    console.print(_opening(adaptation), highlight=False, markup=False)
    with display(console) as shown:
        adaptation.loop.on_step = shown.step
        for progress in adaptation:
            shown.progress(progress)


def _opening(adaptation: Adaptation) -> str:
    """What was read, and what will be done with it."""
    counts, settings = adaptation.counts, adaptation.settings
    lines = [
        f"{counts['documents']:,} documents, {counts['pieces']:,} pieces: {counts['sequences']:,} sequences of "
        f"{settings.sequence_pieces} to learn from, {counts['held_out_sequences']:,} held out."
    ]
    if adaptation.removed is not None:
        lines.append(
            f"{counts['removed_sentences']:,} sentences removed that are among the {len(adaptation.removed):,} of "
            f"{', '.join(map(str, adaptation.holdout))}."
        )
    if adaptation.new_head:
        alone = (
            f"learns alone for {adaptation.loop.n_head_steps:,} steps, then along"
            if adaptation.loop.n_head_steps
            else "learns along"
        )
        lines.append(f"The encoder comes without a head for hidden words; a new one {alone}.")
    if adaptation.resumed_at is not None:
        lines.append(f"Resuming after step {adaptation.resumed_at} of {adaptation.loop.n_steps}.")
    return "\n".join(lines)
