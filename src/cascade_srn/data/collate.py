"""Sentences to tensors: rows for the encoder, and gold spans for the loss."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from cascade_srn.config import FusionSettings
from cascade_srn.data.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, CascadeBatch
from cascade_srn.data.examples import Example
from cascade_srn.data.targets import SoftLabels, SoftSource, Wanted
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.fusion import Markers, Queries
from cascade_srn.heads import Pairs, SpanLabels, pairs_within
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

MISTAKES = ("missed", "moved", "retyped", "invented")
# An entity that is not there has up to this many words.
_LONGEST_INVENTED = 4


def corrupt(
    entities: Sequence[Span], n_words: int, labels: Sequence[str], share: float, rng: random.Random
) -> list[Span]:
    """The entities, about ``share`` of them with a mistake, as ``rng`` has it."""
    kept: list[Span] = []
    for entity in entities:
        mistake = rng.choice(MISTAKES) if rng.random() < share else None
        if mistake == "moved":
            kept.append(_moved(entity, n_words, rng))
        elif mistake == "retyped":
            kept.append(Span(entity.start, entity.end, rng.choice(labels)))
        elif mistake != "missed":
            kept.append(entity)
        if mistake == "invented":
            kept.append(_invented(n_words, labels, rng))
    return sorted(set(kept))


def _moved(entity: Span, n_words: int, rng: random.Random) -> Span:
    """One edge a word further out or in, where there is room; else as it was."""
    start, end = entity.start, entity.end
    if rng.random() < 0.5:
        start += rng.choice((-1, 1))
    else:
        end += rng.choice((-1, 1))
    return Span(start, end, entity.label) if 0 <= start < end <= n_words else entity


def _invented(n_words: int, labels: Sequence[str], rng: random.Random) -> Span:
    start = rng.randrange(n_words)
    end = min(n_words, start + rng.randint(1, _LONGEST_INVENTED))
    return Span(start, end, rng.choice(labels))


class Collator:
    """Makes rows and batches for one model: its tokenizer, its schema, its fusion.

    Entities are shown in one order, whatever order they are given in.
    """

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
        return self.markers.insert(row, sorted(entities)) if self.fusion.entities == "markers" else row

    def with_subject(self, row: Row, entities: Sequence[Span], subject: tuple[int, int]) -> Row:
        """The row of turn 3 where the subject is told by markers."""
        shown = sorted(entities) if self.fusion.entities == "markers" else ()
        return self.markers.insert(row, shown, subject)

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> CascadeBatch:
        """Gold sentences, and those with soft labels, as a batch for the loss.

        Mistakes, negatives and hidden words are drawn by ``rng`` (None: by one of its own).
        """
        rng = random.Random() if rng is None else rng
        sentences = [example.sentence for example in examples]
        given = [self._given(example, settings.corruption if settings.joint else 0.0, rng) for example in examples]
        asked: list[list[tuple[int, int]]] = [[] for _ in sentences]
        if settings.joint:
            asked = [candidate_subjects(*pair, settings.candidates) for pair in zip(sentences, given, strict=True)]
        plain = [self.pieces.masked(self.plain(example), settings.masking, rng) for example in examples]
        rows, subject_rows, object_rows = self._rows(plain, given, asked, settings.joint)
        queries = queries_of(asked)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.long)
        n_words = int(lengths.max()) if sentences else 0
        entities, subjects = self._wanted_in_sentences(examples, lengths)
        objects = self._wanted_objects(examples, asked, lengths[queries.sentence])
        pairs, place = sampled_pairs(lengths, (entities, subjects), settings.negatives, rng)
        query_pairs, query_place = sampled_pairs(objects.lengths, (objects,), settings.negatives, rng)
        weight = sentence_weights(examples)
        query_weight = None if weight is None else weight[queries.sentence]
        return CascadeBatch(
            rows=self.pieces.batch(rows, settings.division),
            lengths=lengths,
            pairs=pairs,
            entities=entities.targets(n_words, pairs, place, weight),
            subject_rows=torch.tensor(subject_rows, dtype=torch.long),
            object_rows=torch.tensor(object_rows, dtype=torch.long),
            given=self.entity_labels(given),
            subjects=subjects.targets(n_words, pairs, place, weight),
            queries=queries,
            query_pairs=query_pairs,
            objects=objects.targets(n_words, query_pairs, query_place, query_weight),
            n_sentences=len(sentences),
            weight=None if weight is None or bool((weight == 1).all()) else weight,
        )

    def _given(self, example: Example, corruption: float, rng: random.Random) -> Sequence[Span]:
        """The entities that later turns are told of; probabilities hold for the very entities they come with."""
        sentence = example.sentence
        if corruption == 0 or example.soft is not None:
            return sentence.entities
        return corrupt(sentence.entities, len(sentence), self.schema.entity_types, corruption, rng)

    def _rows(
        self,
        plain: Sequence[Row],
        given: Sequence[Sequence[Span]],
        asked: Sequence[Sequence[tuple[int, int]]],
        joint: bool,
    ) -> tuple[list[Row], list[int], list[int]]:
        """All rows of a batch, those of turn 1 first, and which of them turns 2 and 3 read."""
        rows = list(plain)
        subject_rows = list(range(len(plain)))
        if joint and self.fusion.entities == "markers":
            subject_rows = list(range(len(plain), 2 * len(plain)))
            rows += [self.with_entities(*pair) for pair in zip(plain, given, strict=True)]
        if self.fusion.subject != "markers":
            return rows, subject_rows, subject_rows
        object_rows = []
        for row, entities, subjects in zip(plain, given, asked, strict=True):
            for subject in subjects:
                object_rows.append(len(rows))
                rows.append(self.with_subject(row, entities, subject))
        return rows, subject_rows, object_rows

    def entity_labels(self, entities: Sequence[Sequence[Span]]) -> SpanLabels:
        """Entities of each sentence of a batch as tensors."""
        return _labels(
            (i, span.start, span.end, self.entity_index[span.label])
            for i, spans in enumerate(entities)
            for span in spans
        )

    def _wanted_in_sentences(self, examples: Sequence[Example], lengths: Tensor) -> tuple[Wanted, Wanted]:
        """What turns 1 and 2 are to find."""
        gold = [(i, e.sentence) for i, e in enumerate(examples) if e.soft is None]
        spans = ((i, e.start, e.end, self.entity_index[e.label]) for i, s in gold for e in s.entities)
        subjects = ((i, start, end, 0) for i, s in gold for start, end in gold_subjects(s))
        soft = [(i, e.soft) for i, e in enumerate(examples) if e.soft is not None]
        rows, numbers = [i for i, _ in soft], [labels.number for _, labels in soft]
        return (
            Wanted(_labels(spans), lengths, len(self.entity_index), _source(examples, "entity", rows, numbers)),
            Wanted(_labels(subjects), lengths, 1, _source(examples, "subject", rows, numbers)),
        )

    def _wanted_objects(
        self, examples: Sequence[Example], asked: Sequence[Sequence[tuple[int, int]]], lengths: Tensor
    ) -> Wanted:
        """What turn 3 is to find for each query."""
        found = []
        soft_rows: list[int] = []
        table_rows: list[int] = []
        query = 0
        for example, subjects in zip(examples, asked, strict=True):
            at = {subject: query + i for i, subject in enumerate(subjects)}
            query += len(subjects)
            if example.soft is not None:
                soft_rows += at.values()
                table_rows += _query_rows(example.sentence, example.soft, subjects)
                continue
            for triple in example.sentence.triples:
                head = at.get((triple.head.start, triple.head.end))
                if head is not None:
                    label = self.relation_index[triple.label]
                    found.append((head, triple.tail.start, triple.tail.end, label))
        source = _source(examples, "object", soft_rows, table_rows)
        return Wanted(_labels(found), lengths, len(self.relation_index), source)


def _source(
    examples: Sequence[Example], turn: str, rows: Sequence[int], table_rows: Sequence[int]
) -> SoftSource | None:
    """Where the probabilities of a turn are; None where no example has any."""
    tables = next((example.soft.tables for example in examples if example.soft is not None), None)
    if tables is None:
        return None
    if any(example.soft is not None and example.soft.tables is not tables for example in examples):
        raise ValueError("the soft labels of a batch are of different tables; collate them apart")
    return SoftSource(tables, turn, rows, table_rows)


def _query_rows(sentence: Sentence, soft: SoftLabels, asked: Sequence[tuple[int, int]]) -> Sequence[int]:
    """The rows of those subjects that are asked about, out of one for each span of the entities."""
    if len(asked) == soft.n_queries:
        return range(soft.first_query, soft.first_query + soft.n_queries)
    every = candidate_subjects(sentence, sentence.entities, "entities")
    return [soft.first_query + every.index(subject) for subject in asked]


def sentence_weights(examples: Sequence[Example]) -> Tensor | None:
    """What each sentence counts; None where all are gold ones that count 1. Shape: (n_sentences,)."""
    if all(example.soft is None and example.weight == 1 for example in examples):
        return None
    return torch.tensor([example.weight for example in examples])


def gold_subjects(sentence: Sentence) -> list[tuple[int, int]]:
    """The spans that are the subject of a relation, each once."""
    return sorted({(triple.head.start, triple.head.end) for triple in sentence.triples})


def candidate_subjects(sentence: Sentence, given: Sequence[Span], candidates: str) -> list[tuple[int, int]]:
    """The spans whose objects are asked for in training, each once."""
    if candidates == "subjects":
        return gold_subjects(sentence)
    return sorted({(entity.start, entity.end) for entity in given})


def sampled_pairs(
    lengths: Tensor, wanted: Sequence[Wanted], share: float, rng: random.Random
) -> tuple[Pairs, Tensor | None]:
    """Pairs of words to learn from: all that are wanted, and a share of the others.

    Shapes:
        lengths: (n_rows,)
        returns: the pairs, and the place of each pair of ``pairs_within`` among them, None where all are
    """
    pairs = pairs_within(lengths)
    if share == 1:
        return pairs, None
    drawn = torch.Generator().manual_seed(rng.getrandbits(62))
    keep = torch.rand(len(pairs), generator=drawn) < share
    for each in wanted:
        keep[each.pairs()] = True
    return Pairs(pairs.row[keep], pairs.start[keep], pairs.last[keep]), keep.cumsum(0) - 1


def queries_of(subjects: Sequence[Sequence[tuple[int, int]]]) -> Queries:
    """Subjects of each sentence of a batch as tensors, in order."""
    rows = [(i, start, end - 1) for i, spans in enumerate(subjects) for start, end in spans]
    columns = torch.tensor(rows, dtype=torch.long).view(-1, 3).unbind(1)
    return Queries(*columns)


def _labels(spans: Iterable[tuple[int, int, int, int]]) -> SpanLabels:
    """From (row, start, end, label) with half-open ends."""
    rows = [(row, start, end - 1, label) for row, start, end, label in spans]
    return SpanLabels(*torch.tensor(rows, dtype=torch.long).view(-1, 4).unbind(1))
