"""``cascade-srn evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.failures import tell_unread
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.options import EvaluateOptions


def evaluate(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="MODEL… DATA", help="One or more models, by folder or hub id, and last the data."),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="A model to compare with; again for more. Two models compare by themselves."
        ),
    ] = None,
    symmetric: Annotated[
        str, typer.Option(metavar="directed|canonical|doubled|all", help="How symmetric relations are counted.")
    ] = EvaluateOptions.symmetric,
    gold_entities: Annotated[
        bool, typer.Option("--gold-entities", help="Relations between gold entities, which the model is given.")
    ] = EvaluateOptions.gold_entities,
    train: Annotated[
        str | None, typer.Option(metavar="DATA", help="The training data: entity texts seen there or not.")
    ] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="Show each label's figures too.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the HTML report, analysis.json and scores.json there.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="PATH", help="Write all scores to a JSON file.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of the data: dygie, spert, brat or jsonl; guessed when left out.")
    ] = None,
    align: Annotated[
        str, typer.Option(metavar="exact|expand", help="Refuse offsets within a word, or take the whole word.")
    ] = EvaluateOptions.align,
    resample: Annotated[
        str, typer.Option(metavar="documents|sentences", help="What the bootstrap draws.")
    ] = EvaluateOptions.resample,
    resamples: Annotated[int, typer.Option(help="How many times the bootstrap draws.")] = EvaluateOptions.n_resamples,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = EvaluateOptions.seed,
    batch_words: Annotated[
        int, typer.Option(help="Words of a batch at most, padding included.")
    ] = EvaluateOptions.batch_words,
    precision: Annotated[
        str, typer.Option(help="Of the pretrained encoder: auto (bf16 on a GPU), float32 or bf16.")
    ] = EvaluateOptions.precision,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
) -> None:
    """Score models on annotated data: NER, RE boundaries and RE strict, each under the name of its protocol.

    Several models (the seeds of a recipe, say) give mean ± standard deviation; two of them, or --against, the
    difference with a bootstrap interval. docs/evaluation.md explains each figure.
    """
    if len(paths) < 2:
        raise ConfigError(f"only {paths[0]!r} was given; give MODEL DATA: one or more models, and last the data")
    options = EvaluateOptions(
        models=tuple(paths[:-1]),
        data=paths[-1],
        against=tuple(against or ()),
        format=format,
        align=align,
        symmetric=symmetric,
        gold_entities=gold_entities,
        train=train,
        batch_words=batch_words,
        precision=precision,
        resample=resample,
        n_resamples=resamples,
        seed=seed,
    )
    from cascade_srn.benchmarks.measuring import environment
    from cascade_srn.evaluation.evaluate import evaluate as evaluate_models
    from cascade_srn.evaluation.evaluate import require_writable, write_json, write_reports
    from cascade_srn.evaluation.text import evaluation_text
    from cascade_srn.runs.device import find_device

    where = find_device(device)
    require_writable(report, json)
    used = ("bf16" if where.type == "cuda" else "float32") if precision == "auto" else precision
    found = evaluate_models(options, device=where, environment=environment(where, used), on_read=tell_unread)
    typer.echo(evaluation_text(found, per_label=per_label))
    if json is not None:
        write_json(found.to_dict(), json)
    if report is not None:
        for folder in write_reports(found, report):
            typer.echo(f"report in {folder}", err=True)
