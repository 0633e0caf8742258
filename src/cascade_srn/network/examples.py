"""Sentences with the words around them, and their rows for the encoder. Without torch; :mod:`.batch` adds tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cascade_srn.config import FusionSettings
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.encoder.windows import Integers
from cascade_srn.network.markers import Markers
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

if TYPE_CHECKING:
    from cascade_srn.network.targets import SoftLabels


@dataclass(frozen=True, slots=True)
class Example:
    """Sentence with the words of its document before and after it, which only the encoder sees.

    Attributes:
        sentence: The sentence. With ``soft`` labels, its entities are the input of turns 2 and 3, not targets.
        weight: Weight of the sentence in the loss.
        soft: Probabilities to learn instead of the annotations.
        row: Row of the sentence without markers and context, if it was made ahead.
    """

    sentence: Sentence
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    weight: float = 1.0
    soft: SoftLabels | None = None
    row: Row | None = None


def examples_of(documents: Iterable[Document], context_words: int = 0) -> list[Example]:
    """Return the sentences of documents with up to ``context_words`` words on each side."""
    return [
        Example(sentence, left, right)
        for document in documents
        for sentence, (left, right) in zip(
            document.sentences, contexts([s.words for s in document.sentences], context_words), strict=True
        )
    ]


def contexts(sentences: Sequence[Sequence[str]], n_words: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield up to ``n_words`` words before and after each sentence of a document."""
    words = [word for sentence in sentences for word in sentence] if n_words else []
    at = 0
    for sentence in sentences:
        left = words[max(0, at - n_words) : at]
        at += len(sentence)
        yield tuple(left), tuple(words[at : at + n_words])


class RowCollator:
    """Make the rows of the three turns for a model with its tokenizer, schema and fusion.

    The order of entities in a sentence has no effect on the rows.
    """

    def __init__(self, pieces: WordPieces, markers: Markers, schema: Schema, fusion: FusionSettings) -> None:
        self.pieces = pieces
        self.markers = markers
        self.fusion = fusion
        self.schema = schema
        self.entity_index = {label: i for i, label in enumerate(schema.entity_types)}
        self.relation_index = {label: i for i, label in enumerate(schema.relation_types)}

    def plain(self, example: Example) -> Row:
        """Return the row of turn 1."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def with_entities(self, rows: Sequence[Row], entities: Sequence[Sequence[Span]]) -> list[Row]:
        """Return the rows of turn 2, and of turn 3 unless markers show the subject, from the rows of turn 1."""
        if self.fusion.entities != "markers":
            return list(rows)
        return self.markers.insert_all(rows, self.markers.around_entities(list(map(sorted, entities))))

    def with_subjects(self, rows: Sequence[Row], entities: Sequence[Sequence[Span]], subjects: Integers) -> list[Row]:
        """Return the row of turn 3 for each subject, in which markers show it, from the rows of turn 1.

        Shapes: subjects (n_subjects, 3): row, first word and last word
        """
        shown = list(map(sorted, entities)) if self.fusion.entities == "markers" else ()
        around = self.markers.around_entities(shown)
        row, number = subjects[:, 0], np.arange(len(subjects))
        # The entities of the sentence of each subject, and then the subject itself.
        first, past = (np.searchsorted(around[:, 0], row, side=side) for side in ("left", "right"))
        counts = past - first
        which = np.repeat(number, counts)
        copied = around[np.arange(len(which)) + (first - np.cumsum(counts) + counts)[which]]
        copied[:, 0] = which
        own = self.markers.around_subjects(np.stack((number, subjects[:, 1], subjects[:, 2] + 1), axis=1))
        return self.markers.insert_all([rows[i] for i in row.tolist()], np.concatenate((copied, own)))

    def entity_columns(self, entities: Sequence[Sequence[Span]]) -> Integers:
        """Return the entities of each sentence of a batch. Shape: (n_entities, 4): row, first, last word and label."""
        found = [(i, e.start, e.end - 1, self.entity_index[e.label]) for i, spans in enumerate(entities) for e in spans]
        return np.array(found, dtype=np.int64).reshape(-1, 4)
