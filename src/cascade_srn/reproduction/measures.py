"""What the models of runs predict on the test documents: made once, and kept beside the model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from cascade_srn.data import read_documents, write_documents
from cascade_srn.errors import DataError, ModelError
from cascade_srn.evaluation.breakdown import group_in_triples
from cascade_srn.evaluation.comparison import Array
from cascade_srn.evaluation.errors import RELATION_KINDS, count_relation_errors
from cascade_srn.evaluation.items import Pair, align_documents
from cascade_srn.evaluation.scores import Counts, task_items
from cascade_srn.extractor import Extractor
from cascade_srn.reproduction.plan import PlannedRun
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import Corpus
from cascade_srn.types import Document

# How symmetric relations are counted: as the paper does.
POLICY = "directed"
# Tasks of the evaluation by the columns of tables.
TASK_OF = {"ner": "ner", "re": "re_strict", "boundaries": "re_boundaries"}

Statistic = Callable[[Array], Array]


def _ratio(numerator: Array, denominator: Array) -> Array:
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)


def precision(counts: Array) -> Array:
    """Of gold, predicted and correct ones. Shapes: (…, 3) to (…)."""
    return _ratio(counts[..., 2], counts[..., 1])


def recall(counts: Array) -> Array:
    """Of gold, predicted and correct ones. Shapes: (…, 3) to (…)."""
    return _ratio(counts[..., 2], counts[..., 0])


def f1(counts: Array) -> Array:
    """Of gold, predicted and correct ones. Shapes: (…, 3) to (…)."""
    return _ratio(2 * counts[..., 2], counts[..., 0] + counts[..., 1])


def number(counts: Array) -> Array:
    """Of things that are counted and nothing more. Shapes: (…, 1) to (…)."""
    return counts[..., 0]


def share(counts: Array) -> Array:
    """Of things of one kind, and of all kinds. Shapes: (…, 2) to (…)."""
    return _ratio(counts[..., 0], counts[..., 1])


# Each column by the counts it is made of, and how.
MEASURES: Mapping[str, tuple[str, Statistic]] = {
    **{column: (column, f1) for column in TASK_OF},
    "ner_precision": ("ner", precision),
    "ner_recall": ("ner", recall),
    **{
        f"{group}_{name}": (group, statistic)
        for group in ("in", "out")
        for name, statistic in (("precision", precision), ("recall", recall), ("f1", f1))
    },
    **{kind.kind: (kind.kind, number) for kind in RELATION_KINDS},
    **{f"{kind.kind}_share": (f"{kind.kind}_share", share) for kind in RELATION_KINDS},
}


@dataclass(frozen=True)
class Counted:
    """The counts of one model's predictions by what is counted, a row for each sentence, and where sentences are."""

    parts: Mapping[str, Array]
    documents: tuple[int, ...]
    n_documents: int

    def value(self, column: str) -> float:
        """A figure over all sentences."""
        part, statistic = MEASURES[column]
        return float(statistic(self.parts[part].sum(axis=0)))

    def by_unit(self, column: str, unit: str) -> Array:
        """The counts that a figure is made of, by "document" or by "sentence". Shapes: returns (n_units, n_counts)."""
        counts = self.parts[MEASURES[column][0]]
        if unit == "sentence":
            return counts
        summed = np.zeros((self.n_documents, counts.shape[1]))
        np.add.at(summed, list(self.documents), counts)
        return summed


def count(gold: Sequence[Document], predicted: Sequence[Document], schema: Schema) -> Counted:
    """Count all that the tables are made of."""
    owners = tuple(at for at, document in enumerate(gold) for _ in document.sentences)
    rows = [_counts(pair, schema) for pair in align_documents(gold, predicted)]
    parts = {part: np.array([row[part] for row in rows], dtype=np.float64) for part in rows[0]}
    return Counted(parts, owners, len(gold))


def _counts(pair: Pair, schema: Schema) -> dict[str, tuple[int, ...]]:
    """The counts of one sentence, by what is counted."""
    known, found = (task_items(sentence, schema, POLICY) for sentence in (pair.gold, pair.predicted))
    groups = group_in_triples([pair])
    found_errors = count_relation_errors([pair], schema=schema, symmetric=POLICY)
    errors = {kind.kind: found_errors.n(kind.kind) for kind in RELATION_KINDS}
    return {
        **{
            column: (len(known[task]), len(found[task]), len(known[task] & found[task]))
            for column, task in TASK_OF.items()
        },
        "in": _three(groups.in_triple),
        "out": _three(groups.out_of_triple),
        **{kind: (n,) for kind, n in errors.items()},
        **{f"{kind}_share": (n, sum(errors.values())) for kind, n in errors.items()},
    }


def _three(counts: Counts) -> tuple[int, int, int]:
    return counts.n_gold, counts.n_predicted, counts.n_correct


def predictions_path(run: PlannedRun, corpus: Corpus, *, precision: str, batch_words: int) -> Path:
    """Where a run's predictions on the test documents are kept.

    Other documents, another precision or batch size, and a model with other thresholds have another name. Where the
    model is there no more, its predictions are those that are there, if they are the only ones of these documents.
    """
    documents, folder = corpus.splits["test"].sha256[:12], run.folder.path
    settings = run.folder.best / "config.json"
    if not settings.is_file():
        there = sorted(folder.glob(f"test-{documents}*.jsonl"))
        if len(there) == 1:
            return there[0]
    model = settings.read_bytes() if settings.is_file() else b""
    made = hashlib.sha256(model + f"{precision} {batch_words}".encode()).hexdigest()[:12]
    return folder / f"test-{documents}-{made}.jsonl"


def check_data(run: PlannedRun, corpus: Corpus) -> None:
    """Refuse a finished run that learned from other data than is there now."""
    before = run.folder.read_summary()["data"]
    for name, (path, sha256) in corpus.checksums.items():
        if before[name]["sha256"] != sha256:
            raise DataError(
                f"data.{name}, {path!r}, is not what the run in {str(run.folder.path)!r} was made with; give the data "
                "it was made with, or another --output"
            )


def predict_test(
    run: PlannedRun, corpus: Corpus, *, device: torch.device, precision: str, batch_words: int
) -> list[Document]:
    """The test documents with what the best model of a run finds in them, read where they were written before."""
    path = predictions_path(run, corpus, precision=precision, batch_words=batch_words)
    if not path.is_file():
        require_model(run)
        extractor = Extractor.from_pretrained(run.folder.best, device=device, precision=precision)
        write_documents(extractor.predict(corpus.test, batch_words=batch_words), path, "jsonl")
    return list(read_documents(path, "jsonl"))


def require_model(run: PlannedRun) -> None:
    """Refuse a run whose model was taken away before all was measured."""
    if not run.folder.best.is_dir():
        raise ModelError(
            f"the run in {str(run.folder.path)!r} is finished, but its model is not in it any more; put best/ back, or "
            "remove the run's folder to train it again"
        )
