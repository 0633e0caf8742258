"""Series of runs of one recipe: with several seeds, or one for each part of the data (cross-validation)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from accelerate import Accelerator

from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.storage.lock import FolderLock
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import SPLITS, TASKS, RunFolder, summarise_runs


class Series:
    """Runs of variants of a recipe, in folders such as ``seed-0``, ``seed-1`` … of its output.

    The constructor checks the folders of all runs. With ``resume``, finished runs are skipped. The output folder is
    locked until the series is finished or garbage collected.

    Attributes:
        name: What the runs differ in: "seed" or "fold". Folders are named after it.
        setting: The dotted key of that setting.
        recipes: Recipes of the runs.
    """

    name: ClassVar[str]
    setting: ClassVar[str]

    def __init__(
        self,
        recipe: Recipe,
        variants: Sequence[Recipe],
        *,
        processes: Accelerator,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.recipe, self.resume, self.processes = recipe, resume, processes
        self.recipes = [
            replace(each, output=str(Path(recipe.output) / f"{self.name}-{number}"))
            for number, each in enumerate(variants)
        ]
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
                f"the output folder {self.recipe.output!r} contains a run of a single {self.name}",
                "Choose another output folder",
                option="output",
            )
        with folder.writing():
            return FolderLock(folder.path)

    def _check(self, *, overwrite: bool) -> None:
        if overwrite:
            self._refuse_others()
        for each in self.recipes:
            folder = RunFolder(each.output)
            # Released at once, because another process may train the run.
            with folder.lock():
                folder.check(each, resume=self.resume, overwrite=overwrite)

    def _refuse_others(self) -> None:
        """Refuse to overwrite a longer series, whose other runs would look like runs of the new recipe."""
        names = {Path(each.output).name for each in self.recipes}
        there = sorted(
            path.name for path in Path(self.recipe.output).glob(f"{self.name}-*") if RunFolder(path).is_begun
        )
        if others := [name for name in there if name not in names]:
            raise ConfigError(
                f"the output folder {self.recipe.output!r} contains {others[0]} of a series with more {self.name}s",
                f"Remove it, train more {self.name}s, or choose another output folder",
                option=f"{self.name}s",
            )

    def number(self, recipe: Recipe) -> int:
        """Return the position of one of the recipes: its seed or fold."""
        return self.recipes.index(recipe)

    def to_run(self) -> Iterator[Recipe]:
        """Yield the recipes of the runs that are not finished."""
        for each in self.recipes:
            if not (self.resume and RunFolder(each.output).is_finished):
                yield each

    def finish(self, command: str | None = None) -> list[dict[str, Any]]:
        """Write ``seeds.json`` or ``folds.json``, once all runs are finished. Return the summaries."""
        summaries = [RunFolder(each.output).read_summary() for each in self.recipes]
        values = {
            "command": command_line() if command is None else command,
            "recipe": self.recipe.to_dict(),
            f"{self.name}s": list(range(len(summaries))),
            **summarise_runs(summaries),
            "runs": [{self.name: number, **_headline(summary)} for number, summary in enumerate(summaries)],
        }
        if self.processes.is_main_process:
            RunFolder(self.recipe.output).write_json(f"{self.name}s.json", shareable(values))
        self.release()
        return summaries

    def release(self) -> None:
        """Unlock the output folder."""
        self._locks.close()


class Seeds(Series):
    """Runs of a recipe with the seeds 0, 1 …"""

    name = "seed"
    setting = "training.seed"

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
        if recipe.data.folds is not None and recipe.data.fold is None:
            raise ConfigError(
                f"{n_seeds} seeds and {recipe.data.folds} folds were given (data.folds)",
                "Train several seeds, or all folds, or several seeds of one fold (data.fold)",
                option="seeds",
            )
        variants = [replace(recipe, training=replace(recipe.training, seed=seed)) for seed in range(n_seeds)]
        super().__init__(recipe, variants, processes=processes, resume=resume, overwrite=overwrite)


def _headline(summary: dict[str, Any]) -> dict[str, Any]:
    """Return time and micro F1 of a run."""
    values = {"seconds": summary["seconds"], "best_step": summary["best_step"]}
    for split in SPLITS:
        if split in summary:
            values[split] = {task: summary[split][task]["micro"]["f1"] for task in TASKS}
    return values


class Folds(Series):
    """Runs of a recipe with ``data.folds``, in the folders ``fold-0``, ``fold-1`` … of its output.

    The documents of train are divided into parts with about the same labels
    (:func:`~cascade_srn.training.corpus.divide`). Each run learns from the others, and is scored on its own part as
    test. ``data.dev`` is a file, or a share of the documents to learn from, so that no choice is made on the part.

    Example:
        >>> recipe = load_recipe("recipe.yaml", ["data.folds=5"])
        >>> series = Folds(recipe, processes=make_accelerator("auto"))
        >>> for each in series.to_run():
        ...     for progress in Run(each):
        ...         print(progress.step, progress.loss)
        >>> summaries = series.finish()
    """

    name = "fold"
    setting = "data.fold"

    def __init__(
        self, recipe: Recipe, *, processes: Accelerator, resume: bool = False, overwrite: bool = False
    ) -> None:
        if recipe.data.folds is None or recipe.data.fold is not None:
            given = f"data.fold is {recipe.data.fold}" if recipe.data.fold is not None else "data.folds is not given"
            raise ConfigError(f"{given}, so there is one run only", "Train it as one run", option="folds")
        variants = [replace(recipe, data=replace(recipe.data, fold=fold)) for fold in range(recipe.data.folds)]
        super().__init__(recipe, variants, processes=processes, resume=resume, overwrite=overwrite)
