"""Simulate promised precision: calibrate on a random half of annotated documents, and measure on the other half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from cascade_srn.evaluation.calibration.precision import measure_precision
from cascade_srn.evaluation.evaluate import check_labels, read_annotated
from cascade_srn.extractor import Extractor
from cascade_srn.inference.options import KINDS
from cascade_srn.inference.precision import CONFIDENCE, Flags, MinScores, PrecisionRecord, RankedPredictions
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun, Result, number, text
from cascade_srn.lab.benchmarks.options import PrecisionOptions

# Splits between two reports of the progress.
_AT_ONCE = 100
COLUMNS = (
    text("promised for", "name"),
    number("level", "level", "{:.2f}"),
    number("could be promised, %", lambda row: 100 * row["promised"], "{:.1f}"),
    number("promised and missed, %", lambda row: 100 * row["missed"], "{:.1f}"),
    number("held if promised, %", lambda row: row["held"] and 100 * row["held"], "{:.1f}"),
    number("precision", lambda row: row["precision"] and 100 * row["precision"], "{:.1f}"),
    number("recall", lambda row: row["recall"] and 100 * row["recall"], "{:.1f}"),
)


class Outcome(NamedTuple):
    """Precision and recall, strict, in the half of the documents that was not used for the promise."""

    precision: float
    recall: float


def measure(options: PrecisionOptions, run: BenchmarkRun) -> Result:
    """Predict once, then split the documents again and again."""
    run.step("predictions")
    documents = [d for path in options.data for d in read_annotated(path, None, "exact", lambda report: None)]
    model = Extractor.from_pretrained(options.model, device="cpu").model
    check_labels(model.schema, documents, model=options.model, data=", ".join(options.data))
    record = measure_precision(model, documents)
    gold = {
        "entities": np.array([sum(len(set(s.entities)) for s in d.sentences) for d in documents]),
        "relations": np.array([sum(len(set(s.triples)) for s in d.sentences) for d in documents]),
    }
    rng = np.random.default_rng(options.seed)
    halves = [rng.permutation(len(documents)) < len(documents) // 2 for _ in range(options.splits)]
    asked: list[dict[str, float]] = [{"relations": level} for level in options.relations]
    asked += [{"entities": level} for level in options.entities]
    if options.relations and options.entities:
        asked.append({"entities": options.entities[0], "relations": options.relations[0]})
    with run.collecting():
        for levels in asked:
            name = list(levels)[-1]
            outcomes: list[Outcome | None] = []
            for at, half in enumerate(halves):
                if at % _AT_ONCE == 0:
                    run.step(f"{name} {levels[name]:g}", at + 1, len(halves))
                outcomes.append(simulate(record, gold, half, levels))
            run.rows.append(_row(levels, outcomes))
    notes = (
        f"{len(documents)} documents, {options.splits:,} random halves; missed: promised, but lower in the other half, "
        f"which may be at most {1 - CONFIDENCE:.0%}; precision and recall: means over the splits with a promise",
    )
    return run.result("precision", torch.device("cpu"), options, COLUMNS, notes, precision="float32")


def simulate(
    record: PrecisionRecord, gold: Mapping[str, Any], half: Flags, levels: Mapping[str, float]
) -> Outcome | None:
    """Promise levels from the documents of ``half``, and measure the last of them in the others.

    Returns None if a level cannot be promised.
    """
    known, others = record.within(half), record.within(~half)
    bounds: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for kind, level in levels.items():
        labels = getattr(record, kind).labels
        found = RankedPredictions.of(known, kind, labels, MinScores(**bounds)).find_min_score(level)
        if found is None:
            return None
        bounds[kind] = dict.fromkeys(labels, found)
    kind = list(levels)[-1]
    rows = RankedPredictions.of(others, kind, getattr(record, kind).labels, MinScores(**bounds))
    n_predicted, n_correct = rows.count_from(min(bounds[kind].values()))
    # Without predictions none is wrong.
    return Outcome(n_correct / n_predicted if n_predicted else 1.0, n_correct / max(1, int(gold[kind][~half].sum())))


def _row(levels: Mapping[str, float], outcomes: list[Outcome | None]) -> dict[str, Any]:
    name = list(levels)[-1]
    made = [outcome for outcome in outcomes if outcome is not None]
    n_missed = sum(outcome.precision < levels[name] for outcome in made)
    others = [f"{other} {level:g}" for other, level in levels.items() if other != name]
    return {
        "name": " with ".join([name, *others]),
        "level": levels[name],
        "promised": len(made) / len(outcomes),
        "missed": n_missed / len(outcomes),
        "held": 1 - n_missed / len(made) if made else None,
        "precision": float(np.mean([outcome.precision for outcome in made])) if made else None,
        "recall": float(np.mean([outcome.recall for outcome in made])) if made else None,
    }
