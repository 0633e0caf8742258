"""Teachers without training, whose decisions are neither none nor everything, and raw text for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import twelve_sentences
from tests.small_models import SENTENCES, small_model, spread_probabilities
from tests.training.runs import write_recipe

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.model.model import Model

# All that teachers differ in beside their weights.
THRESHOLDS = (Thresholds(0.42, 0.3, 0.3), Thresholds(0.46, 0.35, 0.32, {"Task": 0.5}, {"used-for": 0.4}))
TEMPERATURES = (Temperatures(2.0, 1.5, 0.8), Temperatures(1.2, 0.7, 2.5))


def teacher(number: int = 0, fusion: str = "swift", **settings: Any) -> Model:
    """A teacher with random weights that its number decides."""
    model = spread_probabilities(small_model(fusion, seed=number, **settings), seed=number)
    # Without the labels that they name, and so that few spans are entities, where there is to be training.
    thresholds = Thresholds(0.6, 0.4, 0.5) if "schema" in settings else THRESHOLDS[number % 2]
    chosen = replace(model.settings, thresholds=thresholds, temperatures=TEMPERATURES[number % 2])
    return replace(model, settings=chosen)


def saved_teacher(folder: Path, number: int = 0, fusion: str = "swift", **settings: Any) -> Path:
    """The same as a folder."""
    teacher(number, fusion, **settings).save(folder)
    return folder


TEXTS = [" ".join(s.words).capitalize().rstrip(" .") + "." for s in SENTENCES if len(s)]


def write_text(folder: Path, *, n_documents: int = 8) -> Path:
    """Documents of three sentences each, all of them different."""
    lines = []
    for number in range(n_documents):
        sentences = [TEXTS[(number + i) % len(TEXTS)].replace(".", f" {number * 3 + i} .") for i in range(3)]
        lines.append(json.dumps({"text": " ".join(sentences)}))
    path = folder / "field.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_lessons(folder: Path, **changes: Any) -> tuple[Path, Path, Path]:
    """A recipe over the twelve sentences, a teacher that was made for their labels, and raw text."""
    recipe = write_recipe(folder, **changes)
    saved_teacher(folder / "teacher", schema=twelve_sentences.SCHEMA)
    return recipe, folder / "teacher", write_text(folder)
