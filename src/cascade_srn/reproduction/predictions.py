"""What the models of runs predict on the test documents: made once, and kept beside the model."""

from __future__ import annotations

from pathlib import Path

import torch

from cascade_srn.data import read_documents, write_documents
from cascade_srn.errors import DataError, ModelError
from cascade_srn.extractor import Extractor
from cascade_srn.reproduction.plan import PlannedRun
from cascade_srn.training.corpus import Corpus
from cascade_srn.types import Document


def predictions_path(run: PlannedRun, corpus: Corpus) -> Path:
    """Where a run's predictions on the test documents are kept; other documents have another name."""
    return run.folder.path / f"test-{corpus.splits['test'].sha256[:12]}.jsonl"


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
    path = predictions_path(run, corpus)
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
