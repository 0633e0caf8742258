"""Raw text of a small field, of which there is as much as needed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.tiny_encoders import WORDS

from cascade_srn.training.adapt import AdaptSettings

PLAIN = sorted(word for word in set(WORDS) if word.isalpha() and len(word) > 1)


def documents(count: int, *, seed: int = 0) -> list[str]:
    """Texts of three sentences each, in which every word is followed by one of two others."""
    drawn = random.Random(seed)
    texts = []
    for _ in range(count):
        sentences = []
        for _ in range(3):
            at = drawn.randrange(len(PLAIN))
            words = []
            for _ in range(drawn.randint(5, 9)):
                words.append(PLAIN[at])
                at = (at + drawn.choice((1, 5))) % len(PLAIN)
            sentences.append(" ".join(words).capitalize() + ".")
        texts.append(" ".join(sentences))
    return texts


def write_text(folder: Path, *, count: int = 120, seed: int = 0) -> Path:
    """Some of these texts as JSON lines."""
    path = folder / "field.jsonl"
    lines = [json.dumps({"text": text}) for text in documents(count, seed=seed)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def small_settings(encoder: str, **changes: Any) -> AdaptSettings:
    """Settings that take a moment."""
    values: dict[str, Any] = {"sequence_pieces": 16, "batch_size": 8, "steps": 6, "log_steps": 2, "save_steps": None}
    values["head_steps"] = 0
    return AdaptSettings(encoder=encoder, **(values | changes))
