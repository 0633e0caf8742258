"""One recipe with several seeds: each a run of its own, and the table over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.storage.lock import FolderLock
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import SPLITS, TASKS, RunFolder, spreads

SEEDS = "seeds.json"


class Seeds:
    """The runs of a recipe with the seeds 0, 1 … in the folders ``seed-0``, ``seed-1`` … of its output.

    Refuses before the first run what would be refused at the last one. When ``resume`` is asked for, runs that
    are finished are left out. Until it is finished or forgotten, no other process can begin a series in its folder.
    """

    def __init__(
        self, recipe: Recipe, n_seeds: int, *, processes: Accelerator, resume: bool = False, overwrite: bool = False
    ) -> None:
        require_range("--seeds", n_seeds, 1)
        if recipe.training.seed:
            raise ConfigError(
                f"training.seed is {recipe.training.seed}, but --seeds {n_seeds} trains with the seeds 0 to "
                f"{n_seeds - 1}; leave training.seed out for several seeds, or --seeds for that one"
            )
        self.recipe, self.resume, self.processes = recipe, resume, processes
        self.recipes = [_with_seed(recipe, seed) for seed in range(n_seeds)]
        with ExitStack() as held:
            if processes.is_main_process:
                held.enter_context(self._lock())
                self._check(overwrite=overwrite)
            self._held = held.pop_all()
        processes.wait_for_everyone()

    def _lock(self) -> FolderLock:
        folder = RunFolder(self.recipe.output)
        if folder.is_begun:
            raise ConfigError(
                f"output is {self.recipe.output!r}, which holds a run of one seed; give another folder for several by "
                "output=…"
            )
        with folder.writing():
            return FolderLock(folder.path)

    def _check(self, *, overwrite: bool) -> None:
        if overwrite:
            self._refuse_more()
        for each in self.recipes:
            folder = RunFolder(each.output)
            # For a moment, to know that it can be had. A process of its own may train the run, and hold it then.
            with folder.lock():
                folder.check(each, resume=self.resume, overwrite=overwrite)

    def _refuse_more(self) -> None:
        """Runs of further seeds would stay, and be taken for runs of the new recipe."""
        names = {Path(each.output).name for each in self.recipes}
        there = sorted(path.name for path in Path(self.recipe.output).glob("seed-*") if RunFolder(path).is_begun)
        if further := [name for name in there if name not in names]:
            raise ConfigError(
                f"output is {self.recipe.output!r}, where {further[0]} of a run with more seeds would stay beside the "
                "new ones; remove it, give more --seeds, or give another output"
            )

    def to_run(self) -> Iterator[Recipe]:
        """The recipes that are to be run, one after the other."""
        for each in self.recipes:
            if not (self.resume and RunFolder(each.output).is_finished):
                yield each

    def finish(self, command: str | None = None) -> list[dict[str, Any]]:
        """Write ``seeds.json`` when all runs are finished; their summaries."""
        summaries = [RunFolder(each.output).read_summary() for each in self.recipes]
        values = {
            "command": command_line() if command is None else command,
            "recipe": self.recipe.to_dict(),
            "seeds": [summary["seed"] for summary in summaries],
            **spreads(summaries),
            "runs": [_headline(summary) for summary in summaries],
        }
        if self.processes.is_main_process:
            RunFolder(self.recipe.output).write_json(SEEDS, shareable(values))
        self.release()
        return summaries

    def release(self) -> None:
        """Let other processes begin a series in the folder."""
        self._held.close()


def _with_seed(recipe: Recipe, seed: int) -> Recipe:
    training = replace(recipe.training, seed=seed)
    return replace(recipe, training=training, output=str(Path(recipe.output) / f"seed-{seed}"))


def _headline(summary: dict[str, Any]) -> dict[str, Any]:
    """The seed of a run, how long it took, and its micro F1 by split and task."""
    found = {"seed": summary["seed"], "seconds": summary["seconds"], "best_step": summary["best_step"]}
    for split in SPLITS:
        if split in summary:
            found[split] = {task: summary[split][task]["micro"]["f1"] for task in TASKS}
    return found
