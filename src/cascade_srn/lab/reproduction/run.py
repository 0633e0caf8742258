"""Run a reproduction: train, predict, measure, test the claims, and write the tables."""

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from cascade_srn.errors import ConfigError, DataError, TrainingError
from cascade_srn.evaluation.comparison import Bootstrap
from cascade_srn.evaluation.evaluate import write_json
from cascade_srn.formats.files import read_stored_json, replacing
from cascade_srn.lab.benchmarks.measuring import Timing, environment, measure_in_turns
from cascade_srn.lab.reproduction.measures import (
    MEASURES,
    POLICY,
    SentenceCounts,
    Verdict,
    check_data,
    count_predictions,
    judge,
    judge_speed,
    predict_test,
    require_model,
)
from cascade_srn.lab.reproduction.plan import Plan, PlannedRun
from cascade_srn.lab.reproduction.results import SeedValues, TableResult, draw_table, format_result
from cascade_srn.lab.reproduction.tables import COLUMNS, SPEED, TABLES, PaperTable, find_paper_figures
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.runs.children import run_parallel
from cascade_srn.runs.device import find_device
from cascade_srn.runs.display import duration
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import Corpus, read_corpus
from cascade_srn.training.display import display
from cascade_srn.training.progress import can_draw
from cascade_srn.training.run import Run
from cascade_srn.training.series import Seeds
from cascade_srn.types import Sentence

RESULTS, LOGS, SPEEDS = "results.md", "logs", "speed.json"


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
    counts = _predict(plan, corpus, console)
    bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"))
    about = _describe(plan, corpus, n_sentences, command)
    results = []
    for table in plan.tables:
        speed = None
        if "speed" in table.columns:
            speed = measure_speeds(plan, table.variants, corpus, device=device, console=console)
        results.append(_fill(table, counts, bootstrap, about, speed))
    folder = Path(options.output)
    for result in results:
        _write(result, folder)
    _write_all(folder)
    if not can_draw():
        console.print("No plots: matplotlib is not installed. Run pip install 'cascade-srn[report]'.")
    return results


def _predict(plan: Plan, corpus: Corpus, console: Console) -> dict[str, list[SentenceCounts]]:
    """Return the counts of the test predictions of all seeds by variant."""
    options = plan.options
    device = find_device(options.device)
    counts: dict[str, list[SentenceCounts]] = {}
    for run in plan:
        check_data(run, corpus)
        documents = predict_test(
            run, corpus, device=device, precision=options.precision, batch_words=options.batch_words
        )
        counts.setdefault(run.variant, []).append(count_predictions(corpus.test, documents, corpus.schema))
    console.print(f"{len(list(plan))} runs predicted and counted")
    return counts


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
    bootstrap: Bootstrap,
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
            verdicts.append(judge(claim, counts, bootstrap, paper=difference))
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


def train_missing(plan: Plan, console: Console, *, command: str) -> int:
    """Train the unfinished runs of a plan, and return their number.

    Writes ``seeds.json`` for each trained variant, as training with several seeds does. ``command`` is recorded in it.
    """
    processes = make_accelerator("cpu")
    if processes.num_processes > 1:
        raise ConfigError("reproduce does not run under accelerate launch", "Use several jobs instead", option="jobs")
    missing = plan.missing
    if not missing:
        return 0
    variants = dict.fromkeys(run.variant for run in missing)
    series = [Seeds(plan.series[name], plan.options.n_seeds, processes=processes, resume=True) for name in variants]
    if plan.options.jobs > 1:
        _train_parallel(plan, missing, console)
    else:
        for number, run in enumerate(missing, start=1):
            _train(run, f"{run.name} ({number} of {len(missing)})", console, device=plan.options.device)
    for seeds in series:
        seeds.finish(command)
    return len(missing)


def _train(planned: PlannedRun, title: str, console: Console, *, device: str) -> None:
    """Train a run in this process, with a progress bar on a terminal."""
    run = Run(planned.recipe, resume=True, device=device, command=planned.command)
    if console.is_terminal:
        console.print(title)
        with display(console) as shown:
            run.loop.on_step = shown.step
            for progress in run:
                shown.progress(progress)
    else:
        for _ in run:
            pass
    console.print(f"{title}: trained in {duration(run.loop.loop_state.seconds)}")
    # Free the memory for the next run.
    del run
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _train_parallel(plan: Plan, missing: list[PlannedRun], console: Console) -> None:
    """Train runs in parallel processes. A failure does not stop the other runs."""
    n_jobs, logs = plan.options.jobs, Path(plan.options.output) / LOGS
    console.print(f"{len(missing)} runs, {n_jobs} at a time; logs: {logs}/NAME.log")
    failed = []
    for number, ended in enumerate(run_parallel({run.name: run.arguments for run in missing}, n_jobs, logs), start=1):
        state = "trained" if ended.code == 0 else f"exit code {ended.code}"
        console.print(f"{ended.name} ({number} of {len(missing)}): {state} in {duration(ended.seconds)}")
        failed += [ended] if ended.code else []
    if failed:
        first = failed[0]
        raise TrainingError(
            f"{len(failed)} of {len(missing)} runs failed, {first.name} with exit code {first.code} "
            f"({first.last_words})",
            "Fix the problem and run the same command again to continue",
        )


def measure_speeds(
    plan: Plan, variants: Sequence[str], corpus: Corpus, *, device: torch.device, console: Console
) -> dict[str, Any]:
    """Measure the speed of the first seed of each variant, and store it in ``speed.json``.

    Stored results are reused if the models, the sentences and the settings are the same. Otherwise all variants are
    measured again, so that all speeds come from one machine and one session. If models were deleted, results of another
    device are reused as well.
    """
    options = plan.options
    runs = {variant: plan.runs[variant][0] for variant in variants}
    settings = {
        "device": device.type,
        "batch_words": options.batch_words,
        "precision": options.precision,
        "repeats": options.repeats,
        "order": "in turns",
        "sha256": corpus.splits["test"].sha256,
        # A run that was trained again is another model.
        "models": {variant: run.folder.read_summary()["environment"]["started"] for variant, run in runs.items()},
    }
    path = Path(options.output) / SPEEDS
    if path.is_file():
        before: dict[str, Any] = read_stored_json(path, "Delete it to measure the speed again")
        other_device = {**settings, "device": before["settings"].get("device")}
        has_deleted = any(not run.folder.best.is_dir() for run in runs.values())
        if before["settings"] == settings or (has_deleted and before["settings"] == other_device):
            return before
    for run in runs.values():
        require_model(run)
    console.print(f"measuring the speed of {', '.join(runs)}")
    loaded = {variant: TimedModel(run, plan, corpus, device) for variant, run in runs.items()}
    timings = measure_in_turns(
        {variant: model.predict for variant, model in loaded.items()}, repeats=options.repeats, device=device
    )
    rows = {variant: loaded[variant].row(timing) for variant, timing in timings.items()}
    record = {"settings": settings, "environment": environment(device, options.precision), "rows": rows}
    write_json(record, path)
    return record


class TimedModel:
    """A loaded model with the test sentences, so that only prediction is timed."""

    def __init__(self, run: PlannedRun, plan: Plan, corpus: Corpus, device: torch.device) -> None:
        model = Model.load(run.folder.best)
        model.network.to(device)
        self.seed = run.seed
        self.examples = examples_of(corpus.test, model.settings.encoder.context_words)
        self.predictor = model.predictor(batch_words=plan.options.batch_words, precision=plan.options.precision)

    def predict(self) -> list[Sentence]:
        """Return the test sentences with predictions."""
        return self.predictor.predict(self.examples)

    def row(self, timing: Timing) -> dict[str, Any]:
        """Return the times with the numbers of sentences and results, on which the speed of some variants depends."""
        sentences = self.predict()
        return {
            "seed": self.seed,
            "sentences_per_second": len(self.examples) / timing.median,
            **timing.to_dict(),
            "n_sentences": len(self.examples),
            "n_words": sum(len(example.sentence) for example in self.examples),
            "n_entities": sum(len(sentence.entities) for sentence in sentences),
            "n_triples": sum(len(sentence.triples) for sentence in sentences),
        }
