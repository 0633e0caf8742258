"""How good must a teacher be? Train on labels of a simulated teacher, and score on gold labels."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.worker import project_sections
from cascade_srn.errors import DataError, require
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.lab.benchmarks.measuring import ResultRow, number, text
from cascade_srn.lab.benchmarks.options import ALL, TeachOptions
from cascade_srn.lab.benchmarks.simulated_teacher import Quality, SimulatedTeacher, correct, doubtful, label_share
from cascade_srn.lab.benchmarks.trainings import (
    GOLD,
    Training,
    Trainings,
    count_sentences,
    mean_sentences,
    save_figure,
    score_column,
    scores_of,
)
from cascade_srn.training.run_folder import TASKS
from cascade_srn.types import Document

TEACHER, LABELS = "teacher", "labels"
_CHECKED = " checked"
_SHOWN = {"ner": "NER", "re_strict": "RE"}
# A corpus that has fewer than this share of a size is not trained with that size.
_ENOUGH = 0.9


class Teach(Trainings[TeachOptions]):
    """Trainings on labels of simulated teachers, and on gold labels. Nothing is chosen on gold labels of dev."""

    NAME = "teach"
    NOTES = (
        "F1 in percent (RE: strict), mean ± sample standard deviation over the seeds; teacher: its labels and gold; "
        "labels: the same after a person has checked the most doubtful sentences; student: the trained model on dev",
        "settings: the rule of annotation projects; from 100 sentences, 15 % of the teacher's sentences choose "
        "thresholds, and no gold label of dev chooses anything",
    )
    COLUMNS = (
        text("corpus", "corpus"),
        number("sentences", mean_sentences),
        text("start", "start"),
        text("labels", "labels"),
        number("seeds", lambda row: len(row["trainings"])),
        *(
            score_column(task, f"{who} {name}", split)
            for who, split in ((TEACHER, TEACHER), (LABELS, LABELS), ("student", "dev"))
            for task, name in _SHOWN.items()
        ),
    )
    GROUPED = (*Trainings.GROUPED, "labels")

    def planned(self) -> Iterator[Training]:
        """Yield all trainings: for each size of each corpus, gold labels, then all teachers, then checking.

        Raises:
            DataError: If no corpus has enough sentences.
        """
        options = self.options
        labels = [GOLD, *options.teachers]
        if options.checked:
            labels += [f"{teacher}{_CHECKED}" for teacher in options.teachers]
        most = {name: count_sentences(corpus.train) for name, (_, corpus) in self.corpora.items()}
        cells = [
            (size, name)
            for size in options.sizes
            for name in self.corpora
            if size == ALL or most[name] >= _ENOUGH * int(size)
        ]
        if not cells:
            raise DataError(
                f"no corpus has enough sentences (most: {max(most.values())})", "Give smaller sizes", option="sizes"
            )
        for seed in range(options.seeds):
            for size, name in cells:
                yield from (Training(name, start, size, seed, by) for start in self.starts for by in labels)

    def label(self, training: Training, documents: list[Document]) -> tuple[list[Document], ResultRow]:
        """Return the sample with the labels of the teacher, corrected by a person or not, and their scores."""
        if training.labels == GOLD:
            return documents, {}
        level = training.labels.removesuffix(_CHECKED)
        options, schema = self.options, self.corpora[training.corpus][1].schema
        teacher = SimulatedTeacher(Quality.parse(level), schema, seed=training.seed, repeated=options.repeated)
        answer = labelled = teacher.answer(documents)
        described: ResultRow = {TEACHER: self._scores_of_labels(training, documents, answer)}
        if level != training.labels:
            positions = doubtful((answer, teacher.answer(documents, 1)), options.checked)
            labelled = correct(answer, documents, positions)
            described["checked"] = {
                "sentences": len(positions),
                "labels": label_share(documents, positions),
                "repeated": options.repeated,
            }
        return labelled, described | {LABELS: self._scores_of_labels(training, documents, labelled)}

    def _scores_of_labels(
        self, training: Training, gold: Sequence[Document], labelled: Sequence[Document]
    ) -> dict[str, float]:
        scores = score_documents(gold, labelled, schema=self.corpora[training.corpus][1].schema).to_dict()
        return {task: scores[task]["micro"]["f1"] for task in TASKS}

    def sections(self, training: Training, documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
        """Return the settings of an annotation project. The dev file of the corpus only scores the model."""
        start = self.starts[training.start]
        sections = project_sections(
            documents,
            width=start.width,
            epochs=self.options.epochs or None,
            seed=training.seed,
            is_gpu=self.device.type == "cuda",
            is_fresh=start.is_fresh,
        )
        sections["data"]["test"] = self.corpora[training.corpus][0].dev
        return sections

    def scores(self, training: Training) -> ResultRow:
        """Return the scores on the dev file of the corpus."""
        found = super().scores(training)
        return {"dev": found["test"], "seconds": found["seconds"]}

    def order(self, training: Training) -> tuple[Any, ...]:
        """Sort as planned: gold labels first, then the teachers, the best first."""
        *where, seed = super().order(training)
        level = training.labels.removesuffix(_CHECKED)
        quality = Quality(1, 1, 1, 1) if level == GOLD else Quality.parse(level)
        return *where, -quality.entity_recall, -quality.relation_recall, training.labels, seed


def plot_teach(result: Mapping[str, Any], path: Path) -> Path:
    """Draw F1 of the student over F1 of the teacher, for each corpus and size, with gold labels as a line."""
    require("matplotlib", extra="report")
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys((row["corpus"], row["size"], row["start"]) for row in result["rows"]))
    figure = Figure(figsize=(8, 3.4 * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), 2, squeeze=False)
    for line, group in zip(panels, groups, strict=True):
        rows = [row for row in result["rows"] if (row["corpus"], row["size"], row["start"]) == group]
        for axes, task in zip(line, _SHOWN, strict=True):
            axes.axline((0, 0), slope=1, color="grey", linestyle=":", linewidth=1, label="as good as the teacher")
            points: dict[str, list[tuple[float, float]]] = {}
            for row in rows:
                student = statistics.mean(scores_of(row, task)[1])
                if row["labels"] == GOLD:
                    axes.axhline(student, color="black", linestyle="--", linewidth=1, label="human labels")
                    continue
                teacher = 100 * statistics.mean(training[TEACHER][task] for training in row["trainings"])
                name = "a person checks some" if row["labels"].endswith(_CHECKED) else "not checked"
                points.setdefault(name, []).append((teacher, student))
            for (name, found), marker in zip(sorted(points.items(), reverse=True), "os", strict=False):
                axes.plot(*zip(*sorted(found), strict=True), marker=marker, label=name)
            corpus, sentences = group[0], round(mean_sentences(rows[0]))
            axes.set(title=f"{corpus}, {sentences} sentences: {TASKS[task]}", xlabel="F1 of the teacher, %")
            axes.set(ylabel="F1 of the student, %", xlim=(0, 100), ylim=(0, 100))
            axes.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    return save_figure(figure, path)
