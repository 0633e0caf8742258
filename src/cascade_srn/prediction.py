"""What every predictor does around its method: batches within memory, thresholds by label, results in order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cascade_srn.config import Temperatures, Thresholds, require_choice, require_range
from cascade_srn.data.batching import by_word_budget
from cascade_srn.data.examples import Example
from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Triple

PRECISIONS = ("auto", "float32", "bf16")


class ScoredTriple(NamedTuple):
    """A triple with the score of its subject as a subject and that of its object as an object of that subject.

    The triple's own score is their product.
    """

    triple: Triple
    subject: float
    object: float


class Found(NamedTuple):
    """A sentence with what was found in it."""

    sentence: Sentence
    triples: Sequence[ScoredTriple] = ()


class Prediction:
    """The frame of a predictor: where its network is, what has to be reached, and how much goes through at once.

    ``batch_words`` bounds a batch, padding included. ``precision`` is that of the pretrained encoder: "float32",
    "bf16", or "auto" for bf16 on a GPU and float32 elsewhere (``half`` says which).
    """

    def __init__(
        self,
        network: nn.Module,
        schema: Schema,
        thresholds: Thresholds,
        *,
        temperatures: Temperatures | None = None,
        batch_words: int = 4096,
        precision: str = "auto",
    ) -> None:
        require_range("batch_words", batch_words, 1)
        require_choice("precision", precision, PRECISIONS)
        _refuse_unknown(thresholds, schema)
        self.network = network
        self.schema = schema
        self.thresholds = thresholds
        self.temperatures = Temperatures() if temperatures is None else temperatures
        self.batch_words = batch_words
        self.half = precision == "bf16" or (precision == "auto" and self.device.type == "cuda")
        self._warned = False

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def by_label(self, turn: str) -> Tensor:
        """What is to be looked at in turn 1 or in turn 3: a threshold for each of its labels. Shape: (n_labels,)."""
        labels = self.schema.entity_types if turn == "entity" else self.schema.relation_types
        own = self.thresholds.entity_types if turn == "entity" else self.thresholds.relation_types
        thresholds = torch.tensor([own.get(label, getattr(self.thresholds, turn)) for label in labels])
        if turn == "entity" and self.thresholds.related is not None:
            thresholds = thresholds.clamp(max=self.thresholds.related)
        return thresholds.to(self.device)

    def run(
        self,
        examples: Sequence[Example],
        find: Callable[[Sequence[Example]], list[Found]],
        *,
        given_entities: bool = False,
    ) -> list[Found]:
        """What ``find`` finds in one batch after the other, in the order of the examples.

        Entities that are given stay, whatever their scores.
        """
        if self.network.training:
            raise RuntimeError("the model is in training mode; call eval() on it before predicting")
        results = [Found(example.sentence) for example in examples]
        for group in self._groups([len(found.sentence) for found in results]):
            members = [examples[i] for i in group]
            for i, found in zip(group, self._within_memory(members, find), strict=True):
                results[i] = found if given_entities or self.thresholds.related is None else self._settled(found)
        return results

    def _settled(self, found: Found) -> Found:
        """Without the entities that had to have a relation, and have none."""
        thresholds, sentence = self.thresholds, found.sentence
        related = {entity for triple in sentence.triples for entity in (triple.head, triple.tail)}
        kept = [
            entity
            for entity in sentence.entities
            if entity in related
            or entity.score is None
            or entity.score >= thresholds.entity_types.get(entity.label, thresholds.entity)
        ]
        return found._replace(sentence=sentence.annotated(kept, sentence.triples))

    def _groups(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Batches by the word budget, which may shrink on the way."""
        for group in by_word_budget(lengths, self.batch_words):
            for part in by_word_budget([lengths[i] for i in group], self.batch_words):
                yield [group[i] for i in part]

    def _within_memory(
        self, examples: Sequence[Example], find: Callable[[Sequence[Example]], list[Found]]
    ) -> list[Found]:
        """A batch, in halves where the memory does not hold it: from then on, all batches are that small."""
        sentences = [example.sentence for example in examples]
        if not any(len(sentence) for sentence in sentences):
            return [Found(sentence.annotated((), ())) for sentence in sentences]
        try:
            return find(examples)
        except torch.OutOfMemoryError:
            if len(examples) == 1 and self.batch_words <= len(sentences[0]):
                raise
        n_words = len(examples) * max(len(sentence) for sentence in sentences)
        self.batch_words = max(1, min(self.batch_words, n_words) // 2)
        torch.cuda.empty_cache()
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the device ran out of memory on a batch of {n_words} words; going on with smaller ones: "
                "give batch_words to choose their size",
                stacklevel=5,
            )
        middle = (len(examples) + 1) // 2
        parts = [part for part in (examples[:middle], examples[middle:]) if part]
        return [found for part in parts for found in self._within_memory(part, find)]


def _refuse_unknown(thresholds: Thresholds, schema: Schema) -> None:
    """A threshold of a label that the model does not have is a mistake."""
    kinds = {"entity": (thresholds.entity_types, schema.entity_types)}
    kinds["relation"] = (thresholds.relation_types, schema.relation_types)
    for kind, (given, known) in kinds.items():
        for label in given:
            if label not in known:
                raise ConfigError(
                    f"there is a threshold for the {kind} type {label!r}, which the model does not have. "
                    f"{did_you_mean(label, known)}"
                )
