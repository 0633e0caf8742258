"""The sentences of an epoch: gold sentences, or labelled sentences mixed with gold ones."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.noise import KINDS, LASTING, noisy_sentence, noisy_words
from cascade_srn.network.examples import Example
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.settings import DistillationSettings
from cascade_srn.training.swapping import EntitySwaps

Numbers = NDArray[np.int64]

_N_SAMPLES = 2


class Gold:
    """Gold sentences only. An epoch is all of them in random order."""

    def __init__(self, gold: Sequence[Example]) -> None:
        self.gold = gold

    def epoch_size(self, batch_size: int) -> int:
        """Return the number of sentences of an epoch."""
        return len(self.gold)

    def samples(self) -> list[int]:
        """Return the numbers of a few sentences of every kind."""
        return list(range(len(self.gold)))[:_N_SAMPLES]

    def order(self, batch_size: int, rng: random.Random) -> list[int]:
        """Return the numbers of the sentences of an epoch, in order."""
        numbers = list(range(len(self.gold)))
        rng.shuffle(numbers)
        return numbers

    def example(self, number: int) -> Example:
        """Return a sentence by its number."""
        return self.gold[number]

    def n_words(self, number: int) -> int:
        """Return the number of words of a sentence."""
        return len(self.gold[number].sentence)


class Mixture:
    """Labelled sentences mixed with gold ones. An epoch is one pass over the labelled sentences.

    The ``teacher_share`` of each batch is labelled, and the rest is gold. Gold sentences are repeated in a new order as
    often as needed. Numbers below ``len(gold)`` are those of gold sentences. Labelled sentences are built from the
    stored labels on demand.
    """

    def __init__(
        self, gold: Sequence[Example], labelled: LabelledText, settings: DistillationSettings, *, context_words: int = 0
    ) -> None:
        self.gold, self.labelled, self.settings, self.context_words = gold, labelled, settings, context_words
        self.kept: Numbers = np.flatnonzero((labelled.certainty >= settings.confidence).all(1))
        self.n_uncertain = len(labelled) - len(self.kept)
        if not len(self.kept):
            raise DataError(
                f"all {len(labelled)} labelled sentences have a decision less certain than {settings.confidence:g}",
                "Lower the required certainty",
                option="distillation.confidence",
            )
        if not settings.hard:
            labelled.soften(settings.temperature)

    def samples(self) -> list[int]:
        """Return the numbers of a few sentences of every kind."""
        return [*range(len(self.gold))][:_N_SAMPLES] + [len(self.gold) + int(k) for k in self.kept[:_N_SAMPLES]]

    def _split_batch(self, batch_size: int) -> tuple[int, int]:
        """Return the numbers of labelled and of gold sentences in a batch."""
        if self.settings.teacher_share == 1:
            return batch_size, 0
        if batch_size < 2:
            raise ConfigError(
                "training.batch_size is 1, but a batch needs a labelled and a gold sentence",
                "Raise training.batch_size, or learn from labelled sentences only, with a share of 1",
                option="distillation.teacher_share",
            )
        n_labelled = min(max(round(self.settings.teacher_share * batch_size), 1), batch_size - 1)
        return n_labelled, batch_size - n_labelled

    def _split_epoch(self, batch_size: int) -> tuple[int, int, int]:
        """Return the number of full batches, and of labelled and gold sentences in the last, smaller batch."""
        n_labelled, n_gold = self._split_batch(batch_size)
        full, rest = divmod(len(self.kept), n_labelled)
        return full, rest, math.ceil(rest * n_gold / n_labelled)

    def epoch_size(self, batch_size: int) -> int:
        """Return the number of sentences of an epoch."""
        full, *rest = self._split_epoch(batch_size)
        return full * batch_size + sum(rest)

    def order(self, batch_size: int, rng: random.Random) -> list[int]:
        """Return the numbers of the sentences of an epoch, batch after batch."""
        drawn = np.random.default_rng(rng.getrandbits(64))
        n_labelled, n_gold = self._split_batch(batch_size)
        full, _, rest_gold = self._split_epoch(batch_size)
        labelled = len(self.gold) + drawn.permutation(self.kept)
        n_needed = full * n_gold + rest_gold
        n_passes = math.ceil(n_needed / len(self.gold)) if n_needed else 0
        passes = [np.zeros(0, dtype=np.int64), *(drawn.permutation(len(self.gold)) for _ in range(n_passes))]
        gold = np.concatenate(passes)[:n_needed]
        batches = np.concatenate(
            (labelled[: full * n_labelled].reshape(full, n_labelled), gold[: full * n_gold].reshape(full, n_gold)),
            axis=1,
        )
        tail = labelled[full * n_labelled :], gold[full * n_gold :]
        order: list[int] = np.concatenate((batches.ravel(), *tail)).tolist()
        return order

    def example(self, number: int) -> Example:
        """Return a sentence by its number."""
        if number < len(self.gold):
            return self.gold[number]
        return self.labelled.example(
            number - len(self.gold),
            context_words=self.context_words,
            weight=self.settings.teacher_weight,
            soft=not self.settings.hard,
        )

    def n_words(self, number: int) -> int:
        """Return the number of words of a sentence."""
        if number < len(self.gold):
            return len(self.gold[number].sentence)
        return int(self.labelled.n_words[number - len(self.gold)])


Material = Gold | Mixture


class Picked(Sequence[Example]):
    """Sentences by their numbers, built on demand so that the thread that collates a batch does the work.

    A share of them, ``noise``, gets a random kind of noise, and ``swapping`` of the entities of gold sentences get the
    words of others in ``swaps``. Both depend on ``key`` and the number.
    """

    def __init__(
        self,
        material: Material,
        numbers: Sequence[int],
        *,
        noise: float = 0.0,
        swapping: float = 0.0,
        swaps: EntitySwaps | None = None,
        key: str = "",
    ) -> None:
        self.material, self.numbers, self.noise, self.key = material, numbers, noise, key
        self.swapping, self.swaps = swapping, swaps

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Example: ...
    @overload
    def __getitem__(self, at: slice) -> list[Example]: ...
    def __getitem__(self, at: int | slice) -> Example | list[Example]:
        if isinstance(at, slice):
            return [self._example(number) for number in self.numbers[at]]
        return self._example(self.numbers[at])

    def _example(self, number: int) -> Example:
        example = self.material.example(number)
        if self.swaps is not None and example.soft is None:
            rng = random.Random(f"{self.key} {number} swapping")
            example = replace(example, sentence=self.swaps.swap(example.sentence, self.swapping, rng))
        if not self.noise:
            return example
        rng = random.Random(f"{self.key} {number}")
        return example if rng.random() >= self.noise else _add_noise(example, rng)

    def lengths(self) -> list[int]:
        """Return the number of words of each sentence, without noise."""
        return [self.material.n_words(number) for number in self.numbers]


def _add_noise(example: Example, rng: random.Random) -> Example:
    """Return a sentence with a random kind of noise.

    Probabilities of teachers belong to the words that the teachers saw. If noise removes some of these, their decisions
    are learned instead.
    """
    if example.soft is None:
        sentence = noisy_sentence(example.sentence, rng.choice(KINDS), rng)
    else:
        sentence = noisy_words(example.sentence, rng.choice(LASTING), rng)
    if not len(sentence):
        return example
    return replace(example, sentence=sentence, soft=example.soft if len(sentence) == len(example.sentence) else None)
