"""Documents as sentences to learn from and to score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    examples = [e for e in examples_of(documents, context) if len(e.sentence)]
    dev_examples = examples_of(dev, context)
    _check(model.schema, examples, "training")
    _check(model.schema, dev_examples, "development")
    if not examples:
        raise DataError("the training documents hold no sentence with words; give annotated sentences to learn from")
    return examples, dev_examples


def _check(schema: Schema, examples: Sequence[Example], which: str) -> None:
    for number, example in enumerate(examples):
        start = " ".join(example.sentence.words[:6])
        schema.check(example.sentence, f"sentence {number} of the {which} documents ({start!r} …)")
