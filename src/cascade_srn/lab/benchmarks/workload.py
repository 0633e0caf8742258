"""Annotated sentences and models for the benchmarks."""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from cascade_srn.config import EncoderSettings, FusionSettings, ModelSettings, Thresholds
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents
from cascade_srn.lab.benchmarks.options import ExtractOptions, GrowthOptions, TrainOptions
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.runs.environment import without_folders
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

FRESH = "fresh, width 128, 2 layers, random weights"


@dataclass(frozen=True)
class BenchmarkCorpus:
    """Annotated sentences, one per document, and their schema."""

    name: str
    documents: list[Document]
    schema: Schema

    @property
    def sentences(self) -> list[Sentence]:
        """All sentences."""
        return [sentence for document in self.documents for sentence in document.sentences]

    @property
    def examples(self) -> list[Example]:
        """The sentences as examples without context."""
        return [Example(sentence) for sentence in self.sentences]

    @property
    def n_words(self) -> int:
        """Number of words."""
        return sum(len(sentence) for sentence in self.sentences)

    def describe(self) -> dict[str, str | int]:
        """Return name and size for a result."""
        return {
            "name": self.name,
            "sentences": len(self.sentences),
            "words": self.n_words,
            "entities": sum(len(sentence.entities) for sentence in self.sentences),
            "triples": sum(len(sentence.triples) for sentence in self.sentences),
        }


def read_corpus(path: str | None, n_sentences: int) -> BenchmarkCorpus:
    """Read the first non-empty sentences of a file, or of the example corpus."""
    chosen = example_corpus() if path is None else Path(path)
    sentences = (s for document in read_documents(chosen) for s in document.sentences if len(s))
    documents = [Document.from_sentences([sentence]) for sentence in islice(sentences, n_sentences)]
    if not documents:
        raise DataError(f"{chosen} has no sentence with words", "Give a file of annotated sentences", option="data")
    # Results do not contain folders of this machine.
    return BenchmarkCorpus(f"{chosen.parent.name}/{chosen.name}", documents, Schema.from_documents(documents))


def example_corpus() -> Path:
    """Return the path of the corpus in the source tree."""
    path = Path(__file__).parents[4] / "examples" / "news" / "train.jsonl"
    if not path.is_file():
        raise DataError(
            "the example corpus is part of the source tree, which is not installed",
            "Give a file of annotated sentences",
            option="data",
        )
    return path


def describe_encoder(options: ExtractOptions | GrowthOptions | TrainOptions) -> str | None:
    """Return the encoder for a result, or None for a saved model."""
    if getattr(options, "model", None) is not None:
        return None
    return FRESH if options.encoder is None else without_folders(options.encoder)


@contextmanager
def encoder_name(given: str | None, corpus: BenchmarkCorpus) -> Iterator[str]:
    """Yield the given encoder, or the folder of a small new one that exists during the block."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [word for sentence in corpus.sentences for word in sentence.words]
        yield create_encoder(words, folder, width=128, n_layers=2)


def new_model(encoder: str, schema: Schema, preset: str, device: torch.device) -> Model:
    """Create a model with random heads over an encoder."""
    fusion = FusionSettings.from_dict(preset)
    # Random heads find entities that overlap far more than those of a trained model.
    model = Model.create(ModelSettings(EncoderSettings(encoder), fusion=fusion, overlaps="all"), schema)
    model.network.to(device).eval()
    return model


def train_briefly(model: Model, corpus: BenchmarkCorpus, n_steps: int, *, fresh: bool) -> None:
    """Train for about ``n_steps`` steps, so that the model predicts a realistic number of entities and relations."""
    from cascade_srn.training.run import train
    from cascade_srn.training.settings import TrainingSettings  # other benchmarks do not need it

    batch_size = TrainingSettings.batch_size
    documents = corpus.documents[: n_steps * batch_size]
    epochs = max(1, round(n_steps * batch_size / len(documents)))
    # The default learning rates are for pretrained weights.
    settings = TrainingSettings(epochs=epochs, batch_size=batch_size, precision="tf32")
    if fresh:
        settings = replace(settings, learning_rate=3e-3, encoder_learning_rate=1e-3)
    for _ in train(model, documents, settings=settings):
        pass
    model.network.eval()


@dataclass(frozen=True)
class PredictionCounts:
    """Numbers of predictions in some sentences."""

    entities: int
    subjects: int
    triples: int


def count(sentences: Sequence[Sentence]) -> PredictionCounts:
    """Count entities, distinct subjects of triples, and triples."""
    return PredictionCounts(
        entities=sum(len(s.entities) for s in sentences),
        subjects=sum(len({(t.head.start, t.head.end) for t in s.triples}) for s in sentences),
        triples=sum(len(s.triples) for s in sentences),
    )


def calibrate_threshold(
    model: Model, examples: Sequence[Example], start: Thresholds, turn: str, *, target: int, given_entities: bool
) -> Thresholds:
    """Return thresholds with which one turn makes about ``target`` predictions on the examples.

    Random heads give probabilities near their prior. A threshold of 0.5 then accepts nothing and one of 0 everything,
    and neither shows the usual cost of decoding.
    """
    found_by = {"entity": "entities", "subject": "subjects", "object": "triples"}[turn]

    def too_many(logit: float) -> bool:
        thresholds = _with_threshold(start, turn, logit)
        predictor = model.predictor(thresholds=thresholds, overlaps="all", precision="float32")
        predicted = predictor.predict(examples, given_entities=given_entities)
        return bool(getattr(count(predicted), found_by) > target)

    # Lower the threshold in steps: far below the target nearly all pairs of words pass, which takes very long.
    high = 4.0
    while high > -20 and not too_many(high - 1):
        high -= 1
    low = high - 1
    for _ in range(6):
        middle = (low + high) / 2
        low, high = (middle, high) if too_many(middle) else (low, middle)
    return _with_threshold(start, turn, high)


def _with_threshold(thresholds: Thresholds, turn: str, logit: float) -> Thresholds:
    changed: dict[str, Any] = {turn: 1 / (1 + math.exp(-logit))}
    return replace(thresholds, **changed)
