"""The three turns of a cascade as the search calls them.

Arguments and results are NumPy arrays, so that the search does not depend on what computes a network. Features and tags
stay where the network computes them.
"""

from collections.abc import Callable
from typing import Any, Protocol

from cascade_srn.encoder.pieces import RowArrays
from cascade_srn.encoder.windows import Division, Integers
from cascade_srn.inference.decode import Floats

EntityScores = Callable[[Integers, Integers, Integers, Integers], Floats]
"""Returns match probabilities from row, first word, last word and label of spans. Shapes: (n_spans,) each."""
ObjectScores = Callable[[Integers, Integers], Callable[[], Floats]]
"""Starts the computation of scores from positions of queries and of spans, (n_pairs,) each.

Returns a function that waits for the scores and returns them, (n_pairs, n_labels).
"""


class Turns(Protocol):
    """Computes probabilities of the three turns, with temperatures and offsets applied.

    A span passes if its start, end and match probabilities all pass, so its score is the smallest of them.
    """

    @property
    def has_relations(self) -> bool:
        """Whether the model has turns 2 and 3."""

    @property
    def pairs_at_once(self) -> int:
        """Number of pairs of a subject and an entity that turn 3 scores at a time, which bounds its memory."""

    @property
    def division(self) -> Division | None:
        """Divides the windows of a batch into encoder passes. None: equal passes."""

    def features(self, rows: RowArrays, *, entities: bool = False) -> Any:
        """Encode rows and return the features of their words. ``entities``: they are for :meth:`entities`."""

    def entities(self, features: Any) -> tuple[Floats, Floats, EntityScores]:
        """Compute turn 1: start and end probabilities, (n_rows, n_words, n_labels) each, and a function for matches."""

    def tags(self, entities: Integers, shape: tuple[int, int]) -> Any:
        """Return the entity tags of all words, or None.

        Shapes: entities (n_entities, 4): row, first word, last word and label; ``shape`` is (n_rows, n_words)
        """

    def subjects(self, features: Any, tags: Any, spans: Integers) -> Floats:
        """Compute turn 2 for spans. Shapes: spans (n_spans, 3): row, first and last word; returns (n_spans,)."""

    def objects(self, features: Any, tags: Any, subjects: Integers, spans: Integers) -> ObjectScores:
        """Return a function that computes turn 3 for chosen pairs of a subject and a span.

        Features are those of the rows, or one row for each subject if markers show it.

        Shapes: subjects (n_subjects, 3), spans (n_spans, 3): row, first word and last word
        """
