"""How fast variants extract: alone, in turns, with the same sentences, batches and precision."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from cascade_srn.benchmarks.measuring import Timing, environment, measured_in_turns
from cascade_srn.data.examples import examples_of
from cascade_srn.data.formats.files import stored_json
from cascade_srn.errors import ConfigError, TrainingError
from cascade_srn.evaluation.evaluate import write_json
from cascade_srn.model.model import Model
from cascade_srn.reproduction.measures import require_model
from cascade_srn.reproduction.plan import Plan, PlannedRun
from cascade_srn.runs.display import duration
from cascade_srn.runs.parallel import run_parallel
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import Corpus
from cascade_srn.training.display import display
from cascade_srn.training.run import Run
from cascade_srn.training.seeds import Seeds
from cascade_srn.types import Sentence

LOGS = "logs"


def train_missing(plan: Plan, console: Console, *, command: str) -> int:
    """Train the runs of a plan that are not finished, and return how many they were.

    Each variant that something was trained of gets its ``seeds.json``, as ``cascade-srn train --seeds`` writes it, with
    the command that asked for all of it.
    """
    processes = make_accelerator("cpu")
    if processes.num_processes > 1:
        raise ConfigError("reproduce starts processes of its own by --jobs; leave accelerate launch out")
    missing = plan.missing
    if not missing:
        return 0
    touched = dict.fromkeys(run.variant for run in missing)
    series = [Seeds(plan.series[name], plan.options.n_seeds, processes=processes, resume=True) for name in touched]
    if plan.options.jobs > 1:
        _run_parallel(plan, missing, console)
    else:
        for number, run in enumerate(missing, start=1):
            _one(run, f"{run.name} ({number} of {len(missing)})", console, device=plan.options.device)
    for seeds in series:
        seeds.finish(command)
    return len(missing)


def _one(planned: PlannedRun, title: str, console: Console, *, device: str) -> None:
    """Train one run here; a bar on a terminal, a line elsewhere."""
    run = Run(planned.recipe, resume=True, device=device, command=planned.command)
    if console.is_terminal:
        console.print(title, highlight=False, markup=False)
        with display(console) as shown:
            run.loop.on_step = shown.step
            for progress in run:
                shown.progress(progress)
    else:
        for _ in run:
            pass
    console.print(f"{title}: trained in {duration(run.loop.loop_state.seconds)}", highlight=False, markup=False)
    # The next run wants the memory.
    del run
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _run_parallel(plan: Plan, missing: list[PlannedRun], console: Console) -> None:
    """Train several at once; what one cannot do does not stop the others."""
    n_jobs, logs = plan.options.jobs, Path(plan.options.output) / LOGS
    console.print(
        f"{len(missing)} runs, {n_jobs} at a time; their logs are {logs}/NAME.log", highlight=False, markup=False
    )
    failed = []
    for number, ended in enumerate(run_parallel({run.name: run.arguments for run in missing}, n_jobs, logs), start=1):
        told = "trained" if ended.code == 0 else f"exit code {ended.code}"
        console.print(
            f"{ended.name} ({number} of {len(missing)}): {told} in {duration(ended.seconds)}",
            highlight=False,
            markup=False,
        )
        failed += [ended] if ended.code else []
    if failed:
        first = failed[0]
        raise TrainingError(
            f"{len(failed)} of {len(missing)} runs failed, {first.name} with exit code {first.code} "
            f"({first.last_words}); mend that and give the same command again, which goes on from here"
        )


SPEED = "speed.json"


def speeds(
    plan: Plan, variants: Sequence[str], corpus: Corpus, *, device: torch.device, console: Console
) -> dict[str, Any]:
    """Sentences a second of the variants' first seeds, by ``rows``, with the hardware and all that they depend on.

    Kept in ``speed.json``. What was measured before holds as long as the models, the sentences and the settings are
    the same; else all variants are measured anew, so that their figures are of one machine and one hour. Where models
    have been taken away since, what was measured on another device holds, too.
    """
    options = plan.options
    runs = {variant: plan.runs[variant][0] for variant in variants}
    wanted = {
        "device": device.type,
        "batch_words": options.batch_words,
        "precision": options.precision,
        "repeats": options.repeats,
        "order": "in turns",
        "sha256": corpus.splits["test"].sha256,
        # A run that was made anew is another model.
        "models": {variant: run.folder.read_summary()["environment"]["started"] for variant, run in runs.items()},
    }
    path = Path(options.output) / SPEED
    if path.is_file():
        before: dict[str, Any] = stored_json(path, "remove it, and the speed is measured again")
        elsewhere = {**wanted, "device": before["settings"].get("device")}
        gone = any(not run.folder.best.is_dir() for run in runs.values())
        if before["settings"] == wanted or (gone and before["settings"] == elsewhere):
            return before
    for run in runs.values():
        require_model(run)
    console.print(f"measuring the speed of {', '.join(runs)}", highlight=False, markup=False)
    loaded = {variant: Loaded(run, plan, corpus, device) for variant, run in runs.items()}
    timings = measured_in_turns(
        {variant: one.predict for variant, one in loaded.items()}, repeats=options.repeats, device=device
    )
    found = {variant: loaded[variant].row(timing) for variant, timing in timings.items()}
    precision = ("bf16" if device.type == "cuda" else "float32") if options.precision == "auto" else options.precision
    record = {"settings": wanted, "environment": environment(device, precision), "rows": found}
    write_json(record, path)
    return record


class Loaded:
    """One model that is ready to go from words to triples; its loading is not measured."""

    def __init__(self, run: PlannedRun, plan: Plan, corpus: Corpus, device: torch.device) -> None:
        model = Model.load(run.folder.best)
        model.network.to(device)
        self.seed = run.seed
        self.examples = examples_of(corpus.test, model.settings.encoder.context_words)
        self.predictor = model.predictor(batch_words=plan.options.batch_words, precision=plan.options.precision)

    def predict(self) -> list[Sentence]:
        """The test sentences with what is found in them."""
        return self.predictor.predict(self.examples)

    def row(self, timing: Timing) -> dict[str, Any]:
        """The times, with how much was read and found: early fusion and the pipeline depend on it."""
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
