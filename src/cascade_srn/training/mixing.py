"""What an epoch is made of: gold sentences, or labelled ones with gold sentences between them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from cascade_srn.data.examples import Example
from cascade_srn.data.labelled.labels import LabelledText
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.training.settings import DistillationSettings

Numbers = NDArray[np.int64]

_N_SAMPLES = 2


class Gold:
    """Gold sentences alone: an epoch is all of them in another order."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    @property
    def n_numbers(self) -> int:
        """One more than the largest number of a sentence."""
        return len(self.examples)

    def epoch_size(self, batch_size: int) -> int:
        """How many sentences an epoch has."""
        return len(self.examples)

    def samples(self) -> list[int]:
        """A few sentences of every kind, by their numbers."""
        return list(range(len(self.examples)))[:_N_SAMPLES]

    def order(self, batch_size: int, rng: random.Random) -> list[int]:
        """The sentences of an epoch, by their numbers."""
        numbers = list(range(len(self.examples)))
        rng.shuffle(numbers)
        return numbers

    def example(self, number: int) -> Example:
        """A sentence by its number."""
        return self.examples[number]

    def n_words(self, number: int) -> int:
        """How many words it has."""
        return len(self.examples[number].sentence)


class Mixture:
    """Labelled sentences with gold ones between them: an epoch is one pass over the labelled ones.

    In each batch the ``teacher_share`` is labelled and the rest is gold, which begins anew in another order as often
    as it is needed. Labelled sentences are made of their labels when they are asked for. Numbers below the number of
    gold sentences are those of gold ones.
    """

    def __init__(
        self,
        gold: Sequence[Example],
        labelled: LabelledText,
        settings: DistillationSettings,
        *,
        context_words: int = 0,
    ) -> None:
        self.gold, self.labelled, self.settings, self.context_words = gold, labelled, settings, context_words
        self.kept: Numbers = np.flatnonzero((labelled.certainty >= settings.confidence).all(1))
        self.n_uncertain = len(labelled) - len(self.kept)
        if not len(self.kept):
            raise DataError(
                f"all {len(labelled)} labelled sentences have a decision that is less certain than "
                f"{settings.confidence:g}; lower distillation.confidence"
            )
        if not settings.hard:
            labelled.soften(settings.temperature)

    @property
    def n_numbers(self) -> int:
        """One more than the largest number of a sentence."""
        return len(self.gold) + len(self.labelled)

    def samples(self) -> list[int]:
        """A few sentences of every kind, by their numbers."""
        return [*range(len(self.gold))][:_N_SAMPLES] + [len(self.gold) + int(k) for k in self.kept[:_N_SAMPLES]]

    def _parts(self, batch_size: int) -> tuple[int, int]:
        """How many sentences of a batch are labelled, and how many gold."""
        if self.settings.teacher_share == 1:
            return batch_size, 0
        if batch_size < 2:
            raise ConfigError(
                "batch_size is 1, which cannot hold labelled and gold sentences; raise it, or learn from labelled ones "
                "alone by distillation.teacher_share=1"
            )
        n_labelled = min(max(round(self.settings.teacher_share * batch_size), 1), batch_size - 1)
        return n_labelled, batch_size - n_labelled

    def _last(self, batch_size: int) -> tuple[int, int, int]:
        """The number of whole batches, and what the last one has of labelled and of gold sentences, in proportion."""
        n_labelled, n_gold = self._parts(batch_size)
        whole, rest = divmod(len(self.kept), n_labelled)
        return whole, rest, math.ceil(rest * n_gold / n_labelled)

    def epoch_size(self, batch_size: int) -> int:
        """How many sentences an epoch has."""
        whole, *rest = self._last(batch_size)
        return whole * batch_size + sum(rest)

    def order(self, batch_size: int, rng: random.Random) -> list[int]:
        """The sentences of an epoch, by their numbers, batch after batch."""
        drawn = np.random.default_rng(rng.getrandbits(64))
        n_labelled, n_gold = self._parts(batch_size)
        whole, _, rest_gold = self._last(batch_size)
        labelled = len(self.gold) + drawn.permutation(self.kept)
        n_needed = whole * n_gold + rest_gold
        n_passes = math.ceil(n_needed / len(self.gold)) if n_needed else 0
        passes = [np.zeros(0, dtype=np.int64), *(drawn.permutation(len(self.gold)) for _ in range(n_passes))]
        gold = np.concatenate(passes)[:n_needed]
        batches = np.concatenate(
            (
                labelled[: whole * n_labelled].reshape(whole, n_labelled),
                gold[: whole * n_gold].reshape(whole, n_gold),
            ),
            axis=1,
        )
        tail = labelled[whole * n_labelled :], gold[whole * n_gold :]
        order: list[int] = np.concatenate((batches.ravel(), *tail)).tolist()
        return order

    def example(self, number: int) -> Example:
        """A sentence by its number."""
        if number < len(self.gold):
            return self.gold[number]
        chosen = self.settings
        return self.labelled.example(
            number - len(self.gold),
            context_words=self.context_words,
            weight=chosen.teacher_weight,
            soft=not chosen.hard,
        )

    def n_words(self, number: int) -> int:
        """How many words it has."""
        if number < len(self.gold):
            return len(self.gold[number].sentence)
        return int(self.labelled.n_words[number - len(self.gold)])


Material = Gold | Mixture


class Picked(Sequence[Example]):
    """Sentences of a batch by their numbers, made when they are asked for: by the thread that collates them."""

    def __init__(self, material: Material, numbers: Sequence[int]) -> None:
        self.material, self.numbers = material, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Example: ...
    @overload
    def __getitem__(self, at: slice) -> list[Example]: ...
    def __getitem__(self, at: int | slice) -> Example | list[Example]:
        if isinstance(at, slice):
            return [self.material.example(number) for number in self.numbers[at]]
        return self.material.example(self.numbers[at])

    def lengths(self) -> list[int]:
        """How many words each of them has."""
        return [self.material.n_words(number) for number in self.numbers]
