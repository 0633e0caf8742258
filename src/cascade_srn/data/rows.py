"""Convert sentences to rows for the encoder, without torch. :class:`.Collator` adds training batches."""

from collections.abc import Sequence

import numpy as np

from cascade_srn.config import FusionSettings
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.encoder.windows import Integers
from cascade_srn.fusion.markers import Markers
from cascade_srn.schema import Schema
from cascade_srn.types import Span


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

    def with_entities(self, row: Row, entities: Sequence[Span]) -> Row:
        """Return the row of turn 2, and of turn 3 unless markers show the subject."""
        return self.markers.insert(row, sorted(entities)) if self.fusion.entities == "markers" else row

    def with_subject(self, row: Row, entities: Sequence[Span], subject: tuple[int, int]) -> Row:
        """Return the row of turn 3 in which markers show the subject."""
        shown = sorted(entities) if self.fusion.entities == "markers" else ()
        return self.markers.insert(row, shown, subject)

    def entity_columns(self, entities: Sequence[Sequence[Span]]) -> Integers:
        """Return the entities of each sentence of a batch. Shape: (n_entities, 4): row, first, last word and label."""
        found = [(i, e.start, e.end - 1, self.entity_index[e.label]) for i, spans in enumerate(entities) for e in spans]
        return np.array(found, dtype=np.int64).reshape(-1, 4)
