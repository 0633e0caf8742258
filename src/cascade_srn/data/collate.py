"""Sentences to tensors: rows for the encoder, and gold spans for the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from cascade_srn.config import FusionSettings, require_choice
from cascade_srn.data.batch import CascadeBatch
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.fusion import Markers, Queries
from cascade_srn.heads import SpanLabels
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

CANDIDATES = ("entities", "subjects")


class Collator:
    """Makes rows and batches for one model: its tokenizer, its schema, its fusion."""

    def __init__(self, pieces: WordPieces, markers: Markers, schema: Schema, fusion: FusionSettings) -> None:
        self.pieces = pieces
        self.markers = markers
        self.fusion = fusion
        self.schema = schema
        self.entity_index = {label: i for i, label in enumerate(schema.entity_types)}
        self.relation_index = {label: i for i, label in enumerate(schema.relation_types)}

    def plain(self, example: Example) -> Row:
        """The row of turn 1."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def with_entities(self, row: Row, entities: Sequence[Span]) -> Row:
        """The row of turn 2 (and of turn 3 where the subject is not told by markers)."""
        return self.markers.insert(row, entities) if self.fusion.entities == "markers" else row

    def with_subject(self, row: Row, entities: Sequence[Span], subject: tuple[int, int]) -> Row:
        """The row of turn 3 where the subject is told by markers."""
        shown = entities if self.fusion.entities == "markers" else ()
        return self.markers.insert(row, shown, subject)

    def training_batch(
        self, examples: Sequence[Example], *, candidates: str = "entities", joint: bool = True
    ) -> CascadeBatch:
        """Gold sentences as a batch for the loss.

        ``candidates`` says whose objects the object turn learns to find: those of all gold entities, so that it
        also learns that most have none (the paper's default), or of the gold subjects only (its ablation).
        ``joint=False`` makes a batch for turn 1 alone.
        """
        require_choice("candidates", candidates, CANDIDATES)
        sentences = [example.sentence for example in examples]
        rows = [self.plain(example) for example in examples]
        subject_rows = list(range(len(rows)))
        asked = [candidate_subjects(s, candidates) for s in sentences] if joint else [[] for _ in sentences]
        if joint and self.fusion.entities == "markers":
            subject_rows = list(range(len(rows), 2 * len(rows)))
            rows += [self.with_entities(r, s.entities) for r, s in zip(rows, sentences, strict=True)]
        object_rows = subject_rows
        if self.fusion.subject == "markers":
            plain = rows[: len(sentences)]
            object_rows = []
            for row, sentence, subjects in zip(plain, sentences, asked, strict=True):
                for subject in subjects:
                    object_rows.append(len(rows))
                    rows.append(self.with_subject(row, sentence.entities, subject))
        entities = self.entity_labels([sentence.entities for sentence in sentences])
        return CascadeBatch(
            rows=self.pieces.batch(rows),
            lengths=torch.tensor([len(sentence) for sentence in sentences], dtype=torch.long),
            entities=entities,
            subject_rows=torch.tensor(subject_rows, dtype=torch.long),
            object_rows=torch.tensor(object_rows, dtype=torch.long),
            given=entities,
            subjects=_labels((i, start, end, 0) for i, s in enumerate(sentences) for start, end in gold_subjects(s)),
            queries=queries_of(asked),
            objects=self._object_labels(sentences, asked),
            n_sentences=len(sentences),
        )

    def entity_labels(self, entities: Sequence[Sequence[Span]]) -> SpanLabels:
        """Entities of each sentence of a batch as tensors."""
        return _labels(
            (i, span.start, span.end, self.entity_index[span.label])
            for i, spans in enumerate(entities)
            for span in spans
        )

    def _object_labels(self, sentences: Sequence[Sentence], asked: Sequence[Sequence[tuple[int, int]]]) -> SpanLabels:
        found = []
        query = 0
        for sentence, subjects in zip(sentences, asked, strict=True):
            at = {subject: query + i for i, subject in enumerate(subjects)}
            query += len(subjects)
            for triple in sentence.triples:
                head = at.get((triple.head.start, triple.head.end))
                if head is not None:
                    label = self.relation_index[triple.label]
                    found.append((head, triple.tail.start, triple.tail.end, label))
        return _labels(found)


def gold_subjects(sentence: Sentence) -> list[tuple[int, int]]:
    """The spans that are the subject of a relation, each once."""
    return sorted({(triple.head.start, triple.head.end) for triple in sentence.triples})


def candidate_subjects(sentence: Sentence, candidates: str) -> list[tuple[int, int]]:
    """The spans whose objects are asked for in training, each once."""
    if candidates == "subjects":
        return gold_subjects(sentence)
    return sorted({(entity.start, entity.end) for entity in sentence.entities})


def queries_of(subjects: Sequence[Sequence[tuple[int, int]]]) -> Queries:
    """Subjects of each sentence of a batch as tensors, in order."""
    rows = [(i, start, end - 1) for i, spans in enumerate(subjects) for start, end in spans]
    columns = torch.tensor(rows, dtype=torch.long).view(-1, 3).unbind(1)
    return Queries(*columns)


def _labels(spans: Iterable[tuple[int, int, int, int]]) -> SpanLabels:
    """From (row, start, end, label) with half-open ends."""
    rows = [(row, start, end - 1, label) for row, start, end, label in spans]
    return SpanLabels(*torch.tensor(rows, dtype=torch.long).view(-1, 4).unbind(1))
