"""A model's predictions on annotated data: made once, timed, and refused where the labels are not the model's."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, ModelError, SchemaError, did_you_mean
from cascade_srn.extractor import Extractor
from cascade_srn.schema import Schema
from cascade_srn.types import Document


@dataclass(frozen=True)
class Run:
    """What a model predicted, and how long that took, from words to triples; loading it is not counted."""

    name: str
    schema: Schema
    predicted: list[Document]
    seconds: float
    joint: bool = True

    @property
    def n_sentences(self) -> int:
        """The sentences that were predicted on."""
        return sum(len(document.sentences) for document in self.predicted)

    @property
    def n_words(self) -> int:
        """Their words."""
        return sum(len(sentence) for document in self.predicted for sentence in document.sentences)

    def speed(self) -> dict[str, Any]:
        """Plain values for JSON; of one run, which says what it took here and now, and is no benchmark."""
        return {
            "seconds": self.seconds,
            "sentences_per_second": self.n_sentences / self.seconds,
            "words_per_second": self.n_words / self.seconds,
            "n_runs": 1,
        }


def run_model(
    extractor: Extractor,
    documents: Sequence[Document],
    *,
    name: str,
    gold_entities: bool = False,
    batch_words: int = 4096,
) -> Run:
    """Predict on documents; with ``gold_entities`` only the relations, between the entities that they have."""
    settings = extractor.model.settings
    if gold_entities and not settings.joint:
        raise ModelError(
            f"the model {name!r} extracts entities only, and was to find relations between gold ones; "
            "evaluate a model with relations, or leave out --gold-entities"
        )
    started = time.perf_counter()
    predicted = extractor.predict(documents, given_entities=gold_entities, batch_words=batch_words)
    return Run(name, extractor.schema, predicted, time.perf_counter() - started, settings.joint)


def check_labels(schema: Schema, documents: Sequence[Document], *, model: str, data: str) -> None:
    """Refuse data with labels that a model does not know: none of them could ever be right."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    if not sentences:
        raise DataError(f"{data} holds no sentence, but annotated sentences were expected; give data to evaluate on")
    used = {
        "entity types": ({e.label for s in sentences for e in s.entities}, schema.entity_types),
        "relation types": ({t.label for s in sentences for t in s.triples}, schema.relation_types),
    }
    problems, hints = [], []
    for kind, (labels, known) in used.items():
        if unknown := sorted(labels - set(known)):
            problems.append(f"the {kind} {unknown}, where it knows {', '.join(known) or 'none'}")
            hints.append(did_you_mean(unknown[0], known))
    if problems:
        # The other form of a hint lists what is known, which stands there already.
        closest = next((f" {hint}" for hint in hints if hint.startswith("Did you mean")), "")
        raise SchemaError(
            f"{data} has labels that the model {model!r} was not trained on: {'; and '.join(problems)}.{closest} "
            "Evaluate on data of the model's label set, or rename the labels"
        )


def check_same_labels(runs: Sequence[Run]) -> None:
    """Refuse to put models side by side whose labels, or symmetric relations, differ."""
    first = runs[0]
    for other in runs[1:]:
        same = (
            set(first.schema.entity_types) == set(other.schema.entity_types)
            and set(first.schema.relation_types) == set(other.schema.relation_types)
            and first.schema.symmetric == other.schema.symmetric
        )
        if not same:
            differences = "; ".join(first.schema.differences(other.schema))
            raise SchemaError(
                f"the models {first.name!r} and {other.name!r} have different labels, in the second one {differences}; "
                "compare models of one label set"
            )


def shown_name(path: str, n_parts: int = 2) -> str:
    """A path as it is shown and stored: as it was given, but an absolute one without the folders of this machine."""
    parts = Path(os.path.expanduser(path))
    return "/".join(["…", *parts.parts[-n_parts:]]) if parts.is_absolute() and len(parts.parts) > n_parts else path


def shown_names(paths: Sequence[str]) -> list[str]:
    """The names of several paths, with as many folders as it takes to tell them apart."""
    longest = max((len(Path(os.path.expanduser(path)).parts) for path in paths), default=0)
    for n_parts in range(2, longest + 1):
        names = [shown_name(path, n_parts) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)
