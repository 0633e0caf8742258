"""What there is to do: the runs that tables need, which of them are there, and which are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import aligned
from cascade_srn.reproduction.options import VARIANTS, ReproduceOptions
from cascade_srn.reproduction.tables import Table, chosen_tables, needed_variants
from cascade_srn.runs.environment import command_line
from cascade_srn.runs.folder import differences
from cascade_srn.training.recipe import Recipe, load_recipe
from cascade_srn.training.run_folder import RECIPE, RunFolder

RUNS = "runs"
FINISHED, BEGUN, MISSING = "finished", "begun", "missing"


@dataclass(frozen=True)
class PlannedRun:
    """One seed of one variant: an ordinary training run, and the arguments of ``cascade-srn`` that make it."""

    variant: str
    recipe: Recipe
    arguments: tuple[str, ...]

    @property
    def seed(self) -> int:
        """The seed it is trained with."""
        return self.recipe.training.seed

    @property
    def name(self) -> str:
        """How it is called in logs and messages."""
        return f"{self.variant}-seed-{self.seed}"

    @property
    def folder(self) -> RunFolder:
        """Where it is, or will be."""
        return RunFolder(self.recipe.output)

    @property
    def state(self) -> str:
        """Whether it is finished, begun or missing."""
        return FINISHED if self.folder.is_finished else BEGUN if self.folder.is_begun else MISSING

    @property
    def command(self) -> str:
        """The command that makes it, as it can be shown elsewhere."""
        return command_line(["cascade-srn", *self.arguments])

    def check(self) -> None:
        """Refuse a run of other settings, finished or not: its figures would be those of something else."""
        if self.folder.is_begun:
            before = load_recipe(self.folder.path / RECIPE)
            for key, old, new in differences(before.to_dict(), self.recipe.to_dict()):
                if key != "output":
                    raise ConfigError(
                        f"the run in {str(self.folder.path)!r} has {key}={old!r}, and is wanted with {key}={new!r}; "
                        "give the options it was made with, or another --output"
                    )


@dataclass(frozen=True)
class Plan:
    """The runs of all variants that the tables need; the first seeds of each variant in its own list."""

    options: ReproduceOptions
    tables: tuple[Table, ...]
    series: dict[str, Recipe]
    runs: dict[str, list[PlannedRun]]

    @classmethod
    def of(cls, options: ReproduceOptions) -> Plan:
        """What the options ask for. Runs that are there with other settings are refused."""
        tables = tuple(chosen_tables(options.tables))
        before, after = options.overrides()
        series, runs = {}, {}
        for name in needed_variants(tables):
            folder = Path(options.output) / RUNS / name
            overrides = [*before, *VARIANTS[name].overrides(), *after]
            series[name] = load_recipe(options.recipe, [*overrides, f"output={folder}"])
            runs[name] = [
                _planned(name, options, series[name], overrides, seed, folder) for seed in range(options.n_seeds)
            ]
        for each in (run for several in runs.values() for run in several):
            each.check()
        recipe = next(iter(series.values()))
        if recipe.data.dev is None or recipe.data.test is None:
            raise ConfigError(
                f"the recipe {options.recipe!r} names no {'dev' if recipe.data.dev is None else 'test'} data, without "
                "which there are no figures; give a folder with train, dev and test by --data"
            )
        return cls(options, tables, series, runs)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the first variant: data and encoder are the same for all."""
        return next(iter(self.series.values()))

    @property
    def missing(self) -> list[PlannedRun]:
        """What has to be trained, or trained on."""
        return [run for run in self if run.state != FINISHED]

    def __iter__(self) -> Iterator[PlannedRun]:
        for runs in self.runs.values():
            yield from runs

    def text(self) -> str:
        """What would be trained, and what is there."""
        rows: list[Sequence[str]] = [("variant", "finished", "begun", "to train", "what it is")]
        for variant, runs in self.runs.items():
            seeds = [" ".join(str(run.seed) for run in runs if run.state == s) for s in (FINISHED, BEGUN, MISSING)]
            rows.append((variant, *(seed or "–" for seed in seeds), VARIANTS[variant].about))
        # The last column is text, and stands to the left.
        width = max(len(row[-1]) for row in rows)
        shown = aligned([(*row[:-1], row[-1].ljust(width)) for row in rows])
        tables = ", ".join(table.name for table in self.tables)
        n = len(list(self))
        return "\n".join(
            [
                f"tables: {tables}; seeds of each variant: {self.options.n_seeds}; folder: {self.options.output}",
                shown,
                f"{len(self.missing)} of {n} runs are to be trained, {self.options.jobs} at a time",
            ]
        )


def _planned(
    variant: str, options: ReproduceOptions, recipe: Recipe, overrides: list[str], seed: int, folder: Path
) -> PlannedRun:
    # As Seeds has it: OUTPUT/seed-K.
    output = folder / f"seed-{seed}"
    own = replace(recipe, training=replace(recipe.training, seed=seed), output=str(output))
    changes = [*overrides, f"training.seed={seed}", f"output={output}"]
    return PlannedRun(variant, own, ("train", options.recipe, *changes, "--resume", "--device", options.device))
