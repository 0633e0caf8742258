"""Plan a reproduction: the runs that the tables need, and their states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import format_table
from cascade_srn.lab.reproduction.options import VARIANTS, ReproduceOptions
from cascade_srn.lab.reproduction.tables import PaperTable, list_variants, select_tables
from cascade_srn.runs.environment import command_line
from cascade_srn.runs.folder import differences
from cascade_srn.training.recipe import Recipe, load_recipe
from cascade_srn.training.run_folder import RECIPE, RunFolder

RUNS = "runs"
FINISHED, BEGUN, MISSING = "finished", "begun", "missing"


@dataclass(frozen=True)
class PlannedRun:
    """A training run of one variant and seed, with the arguments of ``cascade-srn`` that start it."""

    variant: str
    recipe: Recipe
    arguments: tuple[str, ...]

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return self.recipe.training.seed

    @property
    def name(self) -> str:
        """Name in logs and messages."""
        return f"{self.variant}-seed-{self.seed}"

    @property
    def folder(self) -> RunFolder:
        """Folder of the run, which may not exist yet."""
        return RunFolder(self.recipe.output)

    @property
    def state(self) -> str:
        """State of the run: finished, begun or missing."""
        return FINISHED if self.folder.is_finished else BEGUN if self.folder.is_begun else MISSING

    @property
    def command(self) -> str:
        """Command that starts the run, without paths of this machine."""
        return command_line(["cascade-srn", *self.arguments])

    def check(self) -> None:
        """Raise a ConfigError if the folder holds a run with other settings."""
        if self.folder.is_begun:
            before = load_recipe(self.folder.path / RECIPE)
            for key, old, new in differences(before.to_dict(), self.recipe.to_dict()):
                if key != "output":
                    raise ConfigError(
                        f"the run in {str(self.folder.path)!r} has {key}={old!r}, but {key}={new!r} is requested",
                        "Use the options of the run, or another output folder",
                        option="output",
                    )


@dataclass(frozen=True)
class Plan:
    """All runs that the tables need, with the recipe and the runs of each variant."""

    options: ReproduceOptions
    tables: tuple[PaperTable, ...]
    series: dict[str, Recipe]
    runs: dict[str, list[PlannedRun]]

    @classmethod
    def of(cls, options: ReproduceOptions) -> Plan:
        """Return the plan for given options."""
        tables = tuple(select_tables(options.tables))
        before, after = options.overrides()
        series, runs = {}, {}
        for name in list_variants(tables):
            folder = Path(options.output) / RUNS / name
            overrides = [*before, *VARIANTS[name].overrides(), *after]
            series[name] = load_recipe(options.recipe, [*overrides, f"output={folder}"])
            runs[name] = [
                _plan_run(name, options, series[name], overrides, seed, folder) for seed in range(options.n_seeds)
            ]
        for run in (run for variant_runs in runs.values() for run in variant_runs):
            run.check()
        recipe = next(iter(series.values()))
        if recipe.data.dev is None or recipe.data.test is None:
            raise ConfigError(
                f"the recipe {options.recipe!r} has no {'dev' if recipe.data.dev is None else 'test'} data",
                "Give a folder with train, dev and test",
                option="data",
            )
        return cls(options, tables, series, runs)

    @property
    def recipe(self) -> Recipe:
        """Recipe of the first variant. All variants share data and encoder."""
        return next(iter(self.series.values()))

    @property
    def missing(self) -> list[PlannedRun]:
        """Runs that are not finished."""
        return [run for run in self if run.state != FINISHED]

    def __iter__(self) -> Iterator[PlannedRun]:
        for runs in self.runs.values():
            yield from runs

    def text(self) -> str:
        """Return a table of the runs by variant and state."""
        rows: list[Sequence[str]] = [("variant", "finished", "begun", "to train", "description")]
        for variant, runs in self.runs.items():
            seeds = [" ".join(str(run.seed) for run in runs if run.state == s) for s in (FINISHED, BEGUN, MISSING)]
            rows.append((variant, *(seed or "–" for seed in seeds), VARIANTS[variant].about))
        # The last column is text and left-aligned.
        width = max(len(row[-1]) for row in rows)
        shown = format_table([(*row[:-1], row[-1].ljust(width)) for row in rows])
        tables = ", ".join(table.name for table in self.tables)
        n = len(list(self))
        return "\n".join(
            [
                f"tables: {tables}; seeds per variant: {self.options.n_seeds}; folder: {self.options.output}",
                shown,
                f"{len(self.missing)} of {n} runs to train, {self.options.jobs} at a time",
            ]
        )


def _plan_run(
    variant: str, options: ReproduceOptions, recipe: Recipe, overrides: list[str], seed: int, folder: Path
) -> PlannedRun:
    # The folder that Seeds uses.
    output = folder / f"seed-{seed}"
    own = replace(recipe, training=replace(recipe.training, seed=seed), output=str(output))
    changes = [*overrides, f"training.seed={seed}", f"output={output}"]
    return PlannedRun(variant, own, ("train", options.recipe, *changes, "--resume", "--device", options.device))
