"""The whole thing: train what is missing, predict, measure, judge, and write the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import DataError
from cascade_srn.evaluation.comparison import Bootstrap
from cascade_srn.evaluation.evaluate import write_json
from cascade_srn.reproduction.judging import Judge, Verdict, judge_speed
from cascade_srn.reproduction.markdown import draw_table, table_markdown
from cascade_srn.reproduction.measures import MEASURES, POLICY, Counted, check_data, count, predict_test
from cascade_srn.reproduction.plan import Plan
from cascade_srn.reproduction.results import Measured, TableResult
from cascade_srn.reproduction.tables import COLUMNS, SPEED, TABLES, Table, paper_figures
from cascade_srn.reproduction.training import speeds, train_missing
from cascade_srn.runs.device import find_device
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.training.corpus import Corpus, read_corpus
from cascade_srn.training.progress import can_draw
from cascade_srn.types import Document

RESULTS = "results.md"


def reproduce(plan: Plan, *, console: Console, command: str | None = None) -> list[TableResult]:
    """Fill the tables of a plan: what is finished is not trained, predicted or timed again.

    Writes for each table ``NAME.json``, ``NAME.md`` and, where matplotlib is installed, ``NAME.png`` to the output
    folder, and all tables that are there to ``results.md``.
    """
    options = plan.options
    device = find_device(options.device)
    corpus = read_corpus(plan.recipe.data)
    n_sentences = sum(len(document.sentences) for document in corpus.test)
    if not n_sentences:
        raise DataError(f"data.test, {plan.recipe.data.test!r}, holds no sentence; give annotated sentences to test on")
    command = command_line() if command is None else command
    if n_trained := train_missing(plan, console, command=command):
        console.print(f"{n_trained} run{'s' * (n_trained != 1)} trained", highlight=False, markup=False)
    predicted, counted = _predict(plan, corpus, console)
    bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"))
    judge = Judge(corpus.test, predicted, counted, schema=corpus.schema, bootstrap=bootstrap)
    about = _about(plan, corpus, n_sentences, command)
    found = []
    for table in plan.tables:
        speed = None
        if "speed" in table.columns:
            speed = speeds(plan, table.variants, corpus, device=device, console=console)
        found.append(_fill(table, counted, judge, about, speed))
    folder = Path(options.output)
    for result in found:
        _write(result, folder)
    _write_all(folder)
    if not can_draw():
        console.print(
            "The tables are not drawn, because matplotlib is not installed; install it by pip install "
            "'cascade-srn[report]'",
            highlight=False,
            markup=False,
        )
    return found


def _predict(
    plan: Plan, corpus: Corpus, console: Console
) -> tuple[dict[str, list[list[Document]]], dict[str, list[Counted]]]:
    """The test predictions of all seeds by variant, and their counts."""
    options = plan.options
    device = find_device(options.device)
    predicted: dict[str, list[list[Document]]] = {}
    counted: dict[str, list[Counted]] = {}
    for run in plan:
        check_data(run, corpus)
        documents = predict_test(
            run, corpus, device=device, precision=options.precision, batch_words=options.batch_words
        )
        predicted.setdefault(run.variant, []).append(documents)
        counted.setdefault(run.variant, []).append(count(corpus.test, documents, corpus.schema))
    console.print(f"{len(list(plan))} runs predicted and counted", highlight=False, markup=False)
    return predicted, counted


def _about(plan: Plan, corpus: Corpus, n_sentences: int, command: str) -> dict[str, Any]:
    """What all figures were made with."""
    options, recipe = plan.options, plan.recipe
    # The folder of the data, as it can be shown elsewhere.
    data = Path(str(recipe.data.test)).parent
    described: dict[str, Any] = {
        "encoder": recipe.model.encoder.name,
        "data": str(data),
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
    return dict(shareable(described))


def _fill(
    table: Table,
    counted: Mapping[str, list[Counted]],
    judge: Judge,
    about: Mapping[str, Any],
    speed: Mapping[str, Any] | None,
) -> TableResult:
    rates = {} if speed is None else speed["rows"]
    figures: dict[str, dict[str, Measured]] = {}
    for variant in table.variants:
        figures[variant] = {
            column: Measured(tuple(each.value(column) for each in counted[variant]), COLUMNS[column].kind)
            for column in table.our_columns
            if column in MEASURES
        }
        if variant in rates:
            figures[variant]["speed"] = Measured((rates[variant]["sentences_per_second"],), SPEED)
    verdicts: list[Verdict] = []
    for claim in table.claims:
        theirs = paper_figures(table, claim)
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
    _write_text(folder / f"{name}.md", table_markdown(result))
    if can_draw():
        draw_table(result, folder / f"{name}.png")


def _write_all(folder: Path) -> None:
    """All tables that are there, whenever they were made, as one page."""
    there = [folder / f"{name}.md" for name in TABLES]
    parts = [path.read_text(encoding="utf-8") for path in there if path.is_file()]
    _write_text(folder / RESULTS, "\n".join(["# The paper's tables again\n", *parts]))


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as handle:
        handle.write(text.encode())
