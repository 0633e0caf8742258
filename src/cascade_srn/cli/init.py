"""``cascade-srn init``: write a recipe for annotated documents."""

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.failures import format_option, print_read_notes
from cascade_srn.cli.options import Alignment, DataFormat, Device, KeepEscapes, LabelMapFile


def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Annotated documents to learn from.")],
    dev: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Documents to choose the best weights on. Default: a part of DATA is held out."
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Documents to score at the end.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Recipe to write.")] = Path(
        "recipe.yaml"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    format: DataFormat = None,
    align: Alignment = "exact",
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Skip and count malformed records instead of stopping.")
    ] = False,
    keep_escapes: KeepEscapes = False,
    map: LabelMapFile = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Trained model to start from: folder, name or hub id. It may have other labels. "
            "Default: the bundled model.",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="E", help="Pretrained encoder to train, instead of starting from a model: hub id or folder."
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Write a recipe for annotated documents, with comments, to train with or to edit.

    The data are read to count labels and to suggest where to start, how long to train, and the documents for dev.
    Training starts from the bundled model, also with other labels, and nothing is downloaded, unless the text is not
    English, a model or encoder is named, or there is a GPU and an encoder of base size in the cache.

    Examples:

        cascade-srn init corpus.jsonl

        cascade-srn init train.json --dev dev.json --test test.json --output scierc.yaml
    """
    from cascade_srn.training.recipe import DataSettings
    from cascade_srn.training.suggestion import RecipeSuggestion, check_target

    check_target(output, overwrite=overwrite)
    settings = DataSettings(
        str(data),
        None if dev is None else str(dev),
        None if test is None else str(test),
        format=format,
        align=align,
        skip_malformed=skip_malformed,
        keep_escapes=keep_escapes,
        map=None if map is None else str(map),
    )
    with format_option("format", skips=True):
        suggestion = RecipeSuggestion.for_data(
            settings, start=start, encoder=encoder, device=device, on_read=print_read_notes
        )
    suggestion.write(output, overwrite=overwrite)
    for name, summary in suggestion.summaries.items():
        typer.echo(f"{name}: {summary}")
    typer.echo(f"Wrote {output}. Train with: cascade-srn train {output}")
    if suggestion.folds is not None:
        typer.echo(
            f"The data are few for a test set. Score with {suggestion.folds} folds: "
            f"cascade-srn train {output} --folds {suggestion.folds} output={suggestion.output}-folds"
        )
