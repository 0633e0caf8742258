"""Run a reproduction: train, predict, measure, test the claims, and write the tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from cascade_srn.errors import DataError
from cascade_srn.evaluation.comparison import Bootstrap
from cascade_srn.evaluation.evaluate import write_json
from cascade_srn.formats.files import replacing
from cascade_srn.lab.reproduction.judging import Judge, Verdict, judge_speed
from cascade_srn.lab.reproduction.markdown import draw_table, format_result
from cascade_srn.lab.reproduction.measures import (
    MEASURES,
    POLICY,
    SentenceCounts,
    check_data,
    count_predictions,
    predict_test,
)
from cascade_srn.lab.reproduction.plan import Plan
from cascade_srn.lab.reproduction.results import SeedValues, TableResult
from cascade_srn.lab.reproduction.tables import COLUMNS, SPEED, TABLES, PaperTable, find_paper_figures
from cascade_srn.lab.reproduction.training import measure_speeds, train_missing
from cascade_srn.runs.device import find_device
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.training.corpus import Corpus, read_corpus
from cascade_srn.training.progress import can_draw
from cascade_srn.types import Document

RESULTS = "results.md"


def reproduce(plan: Plan, *, console: Console, command: str | None = None) -> list[TableResult]:
    """Reproduce the tables of a plan. Finished trainings, predictions and timings are not repeated.

    Writes ``NAME.json``, ``NAME.md`` and, with matplotlib, ``NAME.png`` for each table to the output folder, and all
    tables of the folder to ``results.md``.
    """
    options = plan.options
    device = find_device(options.device)
    corpus = read_corpus(plan.recipe.data)
    n_sentences = sum(len(document.sentences) for document in corpus.test)
    if not n_sentences:
        raise DataError(f"data.test ({plan.recipe.data.test!r}) has no sentences", "Give annotated sentences")
    command = command_line() if command is None else command
    if n_trained := train_missing(plan, console, command=command):
        console.print(f"{n_trained} run{'s' * (n_trained != 1)} trained")
    predicted, counts = _predict(plan, corpus, console)
    bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"))
    judge = Judge(corpus.test, predicted, counts, schema=corpus.schema, bootstrap=bootstrap)
    about = _describe(plan, corpus, n_sentences, command)
    results = []
    for table in plan.tables:
        speed = None
        if "speed" in table.columns:
            speed = measure_speeds(plan, table.variants, corpus, device=device, console=console)
        results.append(_fill(table, counts, judge, about, speed))
    folder = Path(options.output)
    for result in results:
        _write(result, folder)
    _write_all(folder)
    if not can_draw():
        console.print("No plots: matplotlib is not installed. Run pip install 'cascade-srn[report]'.")
    return results


def _predict(
    plan: Plan, corpus: Corpus, console: Console
) -> tuple[dict[str, list[list[Document]]], dict[str, list[SentenceCounts]]]:
    """Return the test predictions of all seeds by variant, and their counts."""
    options = plan.options
    device = find_device(options.device)
    predicted: dict[str, list[list[Document]]] = {}
    counts: dict[str, list[SentenceCounts]] = {}
    for run in plan:
        check_data(run, corpus)
        documents = predict_test(
            run, corpus, device=device, precision=options.precision, batch_words=options.batch_words
        )
        predicted.setdefault(run.variant, []).append(documents)
        counts.setdefault(run.variant, []).append(count_predictions(corpus.test, documents, corpus.schema))
    console.print(f"{len(list(plan))} runs predicted and counted")
    return predicted, counts


def _describe(plan: Plan, corpus: Corpus, n_sentences: int, command: str) -> dict[str, Any]:
    """Return the settings of all figures, without paths of this machine."""
    options, recipe = plan.options, plan.recipe
    description: dict[str, Any] = {
        "encoder": recipe.model.encoder.name,
        "data": str(Path(str(recipe.data.test)).parent),
        "n_documents": len(corpus.test),
        "n_sentences": n_sentences,
        "symmetric": POLICY,
        "quick": options.quick,
        "n_seeds": options.n_seeds,
        "resample": options.resample,
        "n_resamples": options.n_resamples,
        "precision": options.precision,
        "command": command,
        "sha256": {name: sha256 for name, (_, sha256) in corpus.checksums.items()},
        "recipes": {name: series.to_dict() for name, series in plan.series.items()},
    }
    return dict(shareable(description))


def _fill(
    table: PaperTable,
    counts: Mapping[str, list[SentenceCounts]],
    judge: Judge,
    about: Mapping[str, Any],
    speed: Mapping[str, Any] | None,
) -> TableResult:
    rates = {} if speed is None else speed["rows"]
    figures: dict[str, dict[str, SeedValues]] = {}
    for variant in table.variants:
        figures[variant] = {
            column: SeedValues(tuple(seed.value(column) for seed in counts[variant]), COLUMNS[column].kind)
            for column in table.our_columns
            if column in MEASURES
        }
        if variant in rates:
            figures[variant]["speed"] = SeedValues((rates[variant]["sentences_per_second"],), SPEED)
    verdicts: list[Verdict] = []
    for claim in table.claims:
        theirs = find_paper_figures(table, claim)
        if claim.column == "speed":
            verdicts.append(judge_speed(claim, rates, paper=None if theirs is None else theirs[0] / theirs[1]))
        else:
            difference = None if theirs is None else round(theirs[0] - theirs[1], 1)
            verdicts.append(judge.judge(claim, paper=difference))
    own = {**about, "recipes": {name: about["recipes"][name] for name in table.variants}}
    return TableResult(table, figures, tuple(verdicts), own, speed)


def _write(result: TableResult, folder: Path) -> None:
    name = result.table.name
    write_json(result.to_dict(), folder / f"{name}.json")
    _write_text(folder / f"{name}.md", format_result(result))
    if can_draw():
        draw_table(result, folder / f"{name}.png")


def _write_all(folder: Path) -> None:
    """Write all tables of the folder, also those of earlier runs, as one page."""
    paths = [folder / f"{name}.md" for name in TABLES]
    parts = [path.read_text(encoding="utf-8") for path in paths if path.is_file()]
    _write_text(folder / RESULTS, "\n".join(["# Reproduced tables\n", *parts]))


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as handle:
        handle.write(text.encode())
