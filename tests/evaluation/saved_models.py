"""Small saved models and a corpus, created once per session."""

import json
import tempfile
from functools import cache
from pathlib import Path

from tests.small_models import SENTENCES, small_model, spread_probabilities

from cascade_srn import Document, write_documents
from cascade_srn.config import Thresholds

# Thresholds with which the random models predict some spans, but not all.
THRESHOLDS = Thresholds(entity=0.5, subject=0.3, object=0.3)
DOCUMENTS = [Document.from_sentences(SENTENCES[:2], id="first")] + [
    Document.from_sentences([sentence], id=f"d{number}") for number, sentence in enumerate(SENTENCES[2:-1])
]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # removed when the interpreter ends


@cache
def saved_model(seed: int = 0, **settings) -> str:
    """Return the folder of a model with random heads, whose predictions depend on the seed."""
    folder = Path(_folder().name) / f"seed-{seed}-{len(settings)}" / "best"
    spread_probabilities(small_model(seed=seed, thresholds=THRESHOLDS, **settings), seed=seed).save(folder)
    return str(folder)


@cache
def corpus() -> str:
    """Return the path of the annotated documents."""
    path = Path(_folder().name) / "corpus.jsonl"
    write_documents(DOCUMENTS, path)
    return str(path)


def cut_short(path: Path) -> None:
    """Make the first entity of a file of documents end inside a word."""
    first, *others = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(first)
    entity = record["entities"][0]
    entity |= {"end": entity["end"] - 1, "text": entity["text"][:-1]}
    path.write_text("".join(f"{line}\n" for line in (json.dumps(record), *others)), encoding="utf-8")
