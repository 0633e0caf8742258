"""What the models of runs predict on the test documents: made once, and kept beside the model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from cascade_srn.data import read_documents, write_documents
from cascade_srn.errors import DataError, ModelError
from cascade_srn.extractor import Extractor
from cascade_srn.reproduction.plan import PlannedRun
from cascade_srn.training.corpus import Corpus
from cascade_srn.types import Document


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
