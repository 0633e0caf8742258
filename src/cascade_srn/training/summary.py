"""How runs ended: a run's ``summary.json``, and the mean and deviation over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cascade_srn.evaluation.spread import Spread

# What is scored, and how tables call it.
TASKS = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}
FIGURES = ("precision", "recall", "f1")
SPLITS = ("dev", "test")

Summary = Mapping[str, Any]


def spreads(summaries: Sequence[Summary]) -> dict[str, Any]:
    """By split, task and figure: the mean and the deviation over runs, micro."""
    return {
        split: {
            "symmetric": summaries[0][split]["symmetric"],
            **{
                task: {
                    figure: Spread.of(summary[split][task]["micro"][figure] for summary in summaries).to_dict()
                    for figure in FIGURES
                }
                for task in TASKS
            },
        }
        for split in SPLITS
        if all(split in summary for summary in summaries)
    }


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """A table of the scores, of one run or over several: each row opening with the split and the protocol."""
    found = []
    for split in SPLITS:
        if not all(split in summary for summary in summaries):
            continue
        policy = summaries[0][split]["symmetric"]
        for task, name in TASKS.items():
            protocol = f"{name}, micro" if task == "ner" else f"{name}, {policy}, micro"
            figures = [Spread.of(s[split][task]["micro"][figure] for s in summaries) for figure in FIGURES]
            found.append((split, protocol, *map(str, figures)))
    return found


def found_nothing(summary: Summary) -> bool:
    """Whether a run was scored on dev, and nothing that it predicted there is right."""
    return "dev" in summary and not any(summary["dev"][task]["micro"]["f1"] for task in TASKS)
