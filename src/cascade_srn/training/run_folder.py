"""The folder of a training run, and the scores in its summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.scores import Spread
from cascade_srn.runs.folder import LAST, LOG, SUMMARY, OutputFolder, differences
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.storage.lock import LOCK
from cascade_srn.training.recipe import Recipe, load_recipe

Summary = Mapping[str, Any]

# Tasks that are scored, with their names in tables.
TASKS = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}
FIGURES = ("precision", "recall", "f1")
SPLITS = ("dev", "test")

RECIPE, ENVIRONMENT, DATA, PREFLIGHT = "recipe.yaml", "environment.json", "data.json", "preflight.json"
CURVES = "curves.png"
BEST, TRACKERS = "best", "tensorboard"
# Labelled text may be in the folder of the run that learns from it. It is not part of the run.
LABELS, LABELS_FILE = "labels", "labels.json"
# Scores of the teachers of a student.
TEACHER = "teacher.json"

# Everything a run writes into its folder, and all that is ever removed from it.
_OWN = (RECIPE, ENVIRONMENT, DATA, PREFLIGHT, LOG, CURVES, SUMMARY, TEACHER, BEST, LAST, TRACKERS)
# Predictions on test documents that were kept with the run.
_PREDICTIONS = "test-*.jsonl"


class RunFolder(OutputFolder):
    """The folder of one training run, identified by its ``recipe.yaml``."""

    marker = RECIPE
    kind = "a training run"

    @property
    def best(self) -> Path:
        """Folder of the model with the best weights."""
        return self.path / BEST

    @property
    def is_begun(self) -> bool:
        """Whether a run was started here. A ``recipe.yaml`` among files of others is not enough."""
        if not (self.path / RECIPE).is_file():
            return False
        begun = any((self.path / name).is_file() for name in (ENVIRONMENT, DATA, LOG))
        return begun or all(self.is_own(member) for member in self.members())

    def is_own(self, member: Path) -> bool:
        """Return whether a file or folder was written by the run."""
        return member.name in _OWN or self.is_temporary(member) or member.match(_PREDICTIONS)

    def is_temporary(self, member: Path) -> bool:
        """Return whether a killed process was writing this. The best model is written to a folder beside it."""
        return member.name.startswith(f".{BEST}-") or super().is_temporary(member)

    def members(self) -> list[Path]:
        """Return the files and folders of the run, without lock and labelled text."""
        return [member for member in super().members() if not self._is_labels(member)]

    def _is_labels(self, member: Path) -> bool:
        """Return whether a folder holds labelled text, or was created for it by a killed process."""
        if member.name != LABELS or not member.is_dir():
            return False
        inner = list(member.iterdir())
        return any(file.name == LABELS_FILE for file in inner) or all(
            file.name == LOCK or self.is_temporary(file) for file in inner
        )

    def check(self, recipe: Recipe, *, resume: bool = False, overwrite: bool = False) -> None:
        """Refuse a folder that the run must not or cannot be written to. Nothing in it is changed."""
        self.check_options(resume=resume, overwrite=overwrite)
        if self.is_begun and resume:
            self._refuse_other(recipe)
        self.check_writable(resume=resume, overwrite=overwrite)

    def begin(self, recipe: Recipe, *, overwrite: bool = False) -> None:
        """Prepare a folder that passed :meth:`check`, and write the recipe."""
        if not overwrite:
            self._restore_best()
        self.prepare(overwrite=overwrite)
        self.write_text(RECIPE, recipe.to_yaml())

    def _refuse_other(self, recipe: Recipe) -> None:
        before = load_recipe(self.path / RECIPE)
        for key, old, new in differences(before.to_dict(), recipe.to_dict()):
            # Trackers and the card have no influence on the model.
            if key not in ("output", "training.trackers") and key.partition(".")[0] != "card":
                raise ConfigError(
                    f"the run in {str(self.path)!r} was started with {key}={old!r} and cannot be resumed with "
                    f"{key}={new!r}",
                    "Resume it with the same recipe, or choose another output folder",
                )

    def refuse_other_data(self, checksums: Mapping[str, tuple[str, str]]) -> None:
        """Refuse data that have changed since the run was started.

        ``checksums`` are paths and checksums by setting, such as ``data.train``.
        """
        before = self.read_json(DATA)
        if before is None:
            return
        for name, (path, sha256) in checksums.items():
            if before.get(name.rpartition(".")[2], {}).get("sha256") != sha256:
                raise DataError(
                    f"{name}, {path!r}, has changed since the run was started",
                    "Resume with the same data, or start over",
                    option="overwrite",
                )

    def _restore_best(self) -> None:
        """Put back a best model that a killed process was about to replace."""
        if self.best.exists():
            return
        with self.writing():
            for old in self.path.glob(f".{BEST}-old-*"):
                if (old / "config.json").is_file():
                    replace_durably(old, self.best)
                    return

    def read_summary(self) -> dict[str, Any]:
        """Read the summary of a finished run."""
        summary = self.read_json(SUMMARY)
        if summary is None:
            raise DataError(f"the run in {str(self.path)!r} has no {SUMMARY}", "Finish the run", option="resume")
        return summary


def summarise_runs(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return mean and deviation over runs of all micro scores, by split, task and figure."""
    return {
        split: {
            "symmetric": summaries[0][split]["symmetric"],
            **{task: {f: spread.to_dict() for f, spread in _spread(summaries, split, task).items()} for task in TASKS},
        }
        for split in _scored_splits(summaries)
    }


def score_rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Return a table of the scores of one or several runs: split, protocol, precision, recall and F1."""
    table = []
    for split in _scored_splits(summaries):
        policy = summaries[0][split]["symmetric"]
        for task, name in TASKS.items():
            protocol = f"{name}, micro" if task == "ner" else f"{name}, {policy}, micro"
            table.append((split, protocol, *map(str, _spread(summaries, split, task).values())))
    return table


def _scored_splits(summaries: Sequence[Summary]) -> list[str]:
    return [split for split in SPLITS if all(split in summary for summary in summaries)]


def _spread(summaries: Sequence[Summary], split: str, task: str) -> dict[str, Spread]:
    return {f: Spread.of(summary[split][task]["micro"][f] for summary in summaries) for f in FIGURES}
