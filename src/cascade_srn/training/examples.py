"""Documents as sentences to learn from and to score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cascade_srn.data.examples import Example, examples_of
from cascade_srn.errors import DataError
from cascade_srn.model import Model
from cascade_srn.schema import Schema
from cascade_srn.types import Document


def training_examples(
    model: Model, documents: Iterable[Document], dev: Iterable[Document]
) -> tuple[list[Example], list[Example]]:
    """Sentences to learn from (those that have words) and to score, labels checked."""
    context = model.settings.encoder.context_words
    examples = [e for e in examples_of(_documents(documents, "training"), context) if len(e.sentence)]
    dev_examples = examples_of(_documents(dev, "development"), context)
    _check(model.schema, examples, "training")
    _check(model.schema, dev_examples, "development")
    if not examples:
        raise DataError("the training documents hold no sentence with words; give annotated sentences to learn from")
    return examples, dev_examples


def _documents(given: Iterable[Document], which: str) -> list[Document]:
    """Refuse what is easily given in the place of documents: a path, one document, sentences."""
    if isinstance(given, str | Path | Document) or not isinstance(given, Iterable):
        raise DataError(
            f"the {which} documents are one {type(given).__name__}, but a list of Documents was expected; read those "
            "of a file by read_documents(path), or pass [document]"
        )
    documents = list(given)
    for number, document in enumerate(documents):
        if not isinstance(document, Document):
            raise DataError(
                f"item {number} of the {which} documents is a {type(document).__name__}, but a Document was expected; "
                "make one by Document.from_sentences, or read them by read_documents(path)"
            )
    return documents


def _check(schema: Schema, examples: Sequence[Example], which: str) -> None:
    for number, example in enumerate(examples):
        start = " ".join(example.sentence.words[:6])
        schema.check(example.sentence, f"sentence {number} of the {which} documents ({start!r} …)")
