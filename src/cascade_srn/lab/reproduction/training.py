"""Train the missing runs of a plan, and measure the speed of the variants."""

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from cascade_srn.errors import ConfigError, TrainingError
from cascade_srn.evaluation.evaluate import write_json
from cascade_srn.formats.files import read_stored_json
from cascade_srn.lab.benchmarks.measuring import Timing, environment, measure_in_turns
from cascade_srn.lab.reproduction.measures import require_model
from cascade_srn.lab.reproduction.plan import Plan, PlannedRun
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.runs.children import run_parallel
from cascade_srn.runs.display import duration
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import Corpus
from cascade_srn.training.display import display
from cascade_srn.training.run import Run
from cascade_srn.training.seeds import Seeds
from cascade_srn.types import Sentence

LOGS = "logs"


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


SPEED = "speed.json"


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
    path = Path(options.output) / SPEED
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
