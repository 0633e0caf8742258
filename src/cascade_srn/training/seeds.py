"""Runs of one recipe with several seeds."""

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
from cascade_srn.training.run_folder import SPLITS, TASKS, RunFolder, summarise_runs

SEEDS = "seeds.json"


class Seeds:
    """Runs of a recipe with the seeds 0, 1 …, in the folders ``seed-0``, ``seed-1`` … of its output.

    The constructor checks the folders of all runs. With ``resume``, finished runs are skipped. The output folder is
    locked until the series is finished or garbage collected.
    """

    def __init__(
        self, recipe: Recipe, n_seeds: int, *, processes: Accelerator, resume: bool = False, overwrite: bool = False
    ) -> None:
        require_range("seeds", n_seeds, 1)
        if recipe.training.seed:
            raise ConfigError(
                f"training.seed is {recipe.training.seed}, but {n_seeds} runs use the seeds 0 to {n_seeds - 1}",
                "Remove training.seed, or train that seed only",
                option="seeds",
            )
        self.recipe, self.resume, self.processes = recipe, resume, processes
        self.recipes = [_with_seed(recipe, seed) for seed in range(n_seeds)]
        with ExitStack() as locks:
            if processes.is_main_process:
                locks.enter_context(self._lock())
                self._check(overwrite=overwrite)
            self._locks = locks.pop_all()
        processes.wait_for_everyone()

    def _lock(self) -> FolderLock:
        folder = RunFolder(self.recipe.output)
        if folder.is_begun:
            raise ConfigError(
                f"the output folder {self.recipe.output!r} contains a run of a single seed",
                "Choose another output folder",
                option="output",
            )
        with folder.writing():
            return FolderLock(folder.path)

    def _check(self, *, overwrite: bool) -> None:
        if overwrite:
            self._refuse_other_seeds()
        for each in self.recipes:
            folder = RunFolder(each.output)
            # Released at once, because another process may train the run.
            with folder.lock():
                folder.check(each, resume=self.resume, overwrite=overwrite)

    def _refuse_other_seeds(self) -> None:
        """Refuse to overwrite a longer series, whose other runs would look like runs of the new recipe."""
        names = {Path(each.output).name for each in self.recipes}
        there = sorted(path.name for path in Path(self.recipe.output).glob("seed-*") if RunFolder(path).is_begun)
        if others := [name for name in there if name not in names]:
            raise ConfigError(
                f"the output folder {self.recipe.output!r} contains {others[0]} of a series with more seeds",
                "Remove it, train more seeds, or choose another output folder",
                option="seeds",
            )

    def to_run(self) -> Iterator[Recipe]:
        """Yield the recipes of the runs that are not finished."""
        for each in self.recipes:
            if not (self.resume and RunFolder(each.output).is_finished):
                yield each

    def finish(self, command: str | None = None) -> list[dict[str, Any]]:
        """Write ``seeds.json``, once all runs are finished. Return the summaries."""
        summaries = [RunFolder(each.output).read_summary() for each in self.recipes]
        values = {
            "command": command_line() if command is None else command,
            "recipe": self.recipe.to_dict(),
            "seeds": [summary["seed"] for summary in summaries],
            **summarise_runs(summaries),
            "runs": [_headline(summary) for summary in summaries],
        }
        if self.processes.is_main_process:
            RunFolder(self.recipe.output).write_json(SEEDS, shareable(values))
        self.release()
        return summaries

    def release(self) -> None:
        """Unlock the output folder."""
        self._locks.close()


def _with_seed(recipe: Recipe, seed: int) -> Recipe:
    training = replace(recipe.training, seed=seed)
    return replace(recipe, training=training, output=str(Path(recipe.output) / f"seed-{seed}"))


def _headline(summary: dict[str, Any]) -> dict[str, Any]:
    """Return seed, time and micro F1 of a run."""
    values = {"seed": summary["seed"], "seconds": summary["seconds"], "best_step": summary["best_step"]}
    for split in SPLITS:
        if split in summary:
            values[split] = {task: summary[split][task]["micro"]["f1"] for task in TASKS}
    return values
