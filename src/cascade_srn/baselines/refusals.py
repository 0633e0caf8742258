"""Settings of training that mean something to the cascade alone: refused, rather than quietly left aside."""

from __future__ import annotations

from collections.abc import Sequence

from cascade_srn.data.batch_settings import BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.errors import ConfigError, DataError


def refuse_what_the_cascade_learns_from(method: str, examples: Sequence[Example], settings: BatchSettings) -> None:
    """Refuse candidate subjects, sampled negatives and a teacher's labels, which a baseline does not know."""
    if settings.candidates != "entities":
        raise ConfigError(
            f"candidates is {settings.candidates!r}, but the method {method!r} has no turn that is asked about "
            "subjects; leave it at 'entities', or train a cascade"
        )
    if settings.negatives != 1:
        raise ConfigError(
            f"negatives is {settings.negatives:g}, but the method {method!r} learns from all pairs of words; leave it "
            "at 1, or train a cascade"
        )
    if any(example.soft is not None or example.weight != 1 for example in examples):
        raise DataError(
            f"there are sentences with weights or a teacher's labels, but the method {method!r} learns from annotated "
            "sentences alone; leave out data.labels, or train a cascade"
        )
