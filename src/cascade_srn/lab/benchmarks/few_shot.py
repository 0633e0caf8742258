"""Train on small samples of corpora, from several starts, and score on test: few-shot and learning curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascade_srn.errors import require
from cascade_srn.lab.benchmarks.measuring import ResultColumn, number, text
from cascade_srn.lab.benchmarks.options import FewShotOptions
from cascade_srn.lab.benchmarks.trainings import Trainings, mean_sentences, save_figure, score_column, scores_of
from cascade_srn.training.run_folder import TASKS

COLUMNS = (
    text("corpus", "corpus"),
    text("size", "size"),
    number("sentences", mean_sentences),
    text("start", "start"),
    number("seeds", lambda row: len(row["trainings"])),
    ResultColumn("split", lambda row: scores_of(row, "ner")[0]),
    *(score_column(task) for task in TASKS),
)


class FewShot(Trainings[FewShotOptions]):
    """Trainings on samples of gold annotations. Weights and thresholds are chosen on all of dev."""

    NAME = "few-shot"
    NOTES = (
        "F1 in percent, mean ± sample standard deviation over the seeds; each seed has another sample of whole "
        "documents, of which a small one is part of each larger one",
        "settings: the default rule of training; weights and thresholds are chosen on all of dev",
    )
    COLUMNS = COLUMNS


def plot_few_shot(result: Mapping[str, Any], path: Path) -> Path:
    """Draw NER and strict RE of each corpus over the number of sentences, with the deviation as a bar."""
    require("matplotlib", extra="report")
    from matplotlib.figure import Figure

    corpora = list(dict.fromkeys(row["corpus"] for row in result["rows"]))
    figure = Figure(figsize=(8, 3.4 * len(corpora)), layout="constrained")
    panels = figure.subplots(len(corpora), 2, squeeze=False)
    for line, corpus in zip(panels, corpora, strict=True):
        rows = [row for row in result["rows"] if row["corpus"] == corpus]
        for axes, task in zip(line, ("ner", "re_strict"), strict=True):
            for start, marker in zip(dict.fromkeys(row["start"] for row in rows), "osv^D" * len(rows), strict=False):
                chosen = sorted((row for row in rows if row["start"] == start), key=mean_sentences)
                scores = [scores_of(row, task)[1] for row in chosen]
                spreads = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in scores]
                means = [statistics.mean(values) for values in scores]
                axes.errorbar(list(map(mean_sentences, chosen)), means, spreads, marker=marker, capsize=3, label=start)
            split = scores_of(rows[0], task)[0]
            axes.set(title=f"{corpus}: {TASKS[task]}, F1 on {split}", xlabel="training sentences", xscale="log")
            ticks = sorted({round(mean_sentences(row)) for row in rows})
            axes.set_xticks(ticks, [str(value) for value in ticks])
            axes.set_ylim(0, None)
            axes.minorticks_off()
            axes.grid(alpha=0.3)
    panels[0][0].legend()
    return save_figure(figure, path)
