"""Training batches of the cascade: sentences as rows for the encoder and targets for the loss."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from cascade_srn.config import require_choice
from cascade_srn.encoder.pieces import Row, RowBatch
from cascade_srn.encoder.windows import Division
from cascade_srn.network.examples import Example, RowCollator
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels, SpanTargets
from cascade_srn.network.span_extraction import Pairs, pairs_within
from cascade_srn.network.targets import SoftLabels, SoftSource, TargetTable
from cascade_srn.types import Sentence, Span

CANDIDATES = ("entities", "subjects")


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a training batch.

    Attributes:
        candidates: Subjects whose objects are learned. ``"entities"`` are all entities, so that the model also learns
            that most have no object (default of the paper). ``"subjects"`` are the gold subjects (its ablation).
        joint: Whether the batch is for all turns, or for turn 1 only.
        corruption: Share of the entities given to turns 2 and 3 that are corrupted.
        negatives: Share of the word pairs that are not a span to learn from.
        masking: Share of the words that are masked for the encoder, the same in all turns.
        division: How the encoder splits rows of different lengths into several passes
            (:meth:`~cascade_srn.encoder.pieces.WordPieces.batch`).
    """

    candidates: str = "entities"
    joint: bool = True
    corruption: float = 0.0
    negatives: float = 1.0
    masking: float = 0.0
    division: Division | None = None

    def __post_init__(self) -> None:
        require_choice("candidates", self.candidates, CANDIDATES)


DEFAULT_BATCH_SETTINGS = BatchSettings()


T = TypeVar("T")


def to_device(batch: T, device: torch.device | str) -> T:
    """Return a dataclass with all tensors, also those of nested dataclasses, on a device."""
    found: list[Tensor] = []
    _collect(batch, found)
    device = torch.device(device)
    if all(tensor.device == device for tensor in found):
        return batch
    return _replace_tensors(batch, iter(_move_in_one_copy(found, device)))


def _collect(value: Any, found: list[Tensor]) -> None:
    """Append the tensors of nested dataclasses in order."""
    if isinstance(value, Tensor):
        found.append(value)
    elif value is not None and not isinstance(value, int | tuple):
        for field in fields(value):
            _collect(getattr(value, field.name), found)


def _replace_tensors(value: T, tensors: Any) -> T:
    """Return a copy with other tensors, in the order of :func:`_collect`."""
    if isinstance(value, Tensor):
        return next(tensors)  # type: ignore[no-any-return]
    if value is None or isinstance(value, int | tuple):
        return value
    parts = {field.name: _replace_tensors(getattr(value, field.name), tensors) for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**parts)


def _move_in_one_copy(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """Copy tensors to a device with a single transfer. Floats are transferred as their bits."""
    flat = torch.cat([_as_integers(tensor).flatten().long() for tensor in tensors])
    if device.type == "cuda":
        # A copy from memory that is not pinned waits until the GPU is idle.
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    parts = flat.split([math.prod(tensor.shape) for tensor in tensors])
    return [_from_integers(part.view(tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]


def _as_integers(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float32:
        raise TypeError(f"a batch has a tensor of {tensor.dtype}, but floats must be float32")
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def _from_integers(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(torch.int32).view(dtype) if dtype == torch.float32 else numbers.to(dtype)


@dataclass(frozen=True)
class CascadeBatch:
    """Annotated sentences as tensors for the loss.

    The encoder reads all rows together. Turn 1 uses the first ``n_sentences`` rows.

    Attributes:
        rows: Input of the encoder.
        lengths: Number of words of each sentence. Shape: (n_sentences,).
        pairs: Word pairs of the sentences.
        entities: Targets of turn 1.
        subject_rows: Rows of turn 2. Shape: (n_sentences,).
        object_rows: Rows of turn 3. Shape: (n_queries,) if markers show the subject, else (n_sentences,).
        given: Entities given to turns 2 and 3.
        subjects: Targets of turn 2.
        queries: Subjects whose objects turn 3 looks for.
        query_pairs: Word pairs of the queries.
        objects: Targets of turn 3.
        n_sentences: Number of sentences.
        weight: Weight of each sentence in the loss; None if all are 1. Shape: (n_sentences,).
    """

    rows: RowBatch
    lengths: Tensor
    pairs: Pairs
    entities: SpanTargets
    subject_rows: Tensor
    object_rows: Tensor
    given: SpanLabels
    subjects: SpanTargets
    queries: Queries
    query_pairs: Pairs
    objects: SpanTargets
    n_sentences: int
    weight: Tensor | None = None

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on a device."""
        return to_device(self, device)


MISTAKES = ("missed", "moved", "retyped", "invented")
# Maximum number of words of an invented entity.
_LONGEST_INVENTED = 4


def corrupt(
    entities: Sequence[Span], n_words: int, labels: Sequence[str], share: float, rng: random.Random
) -> list[Span]:
    """Return the entities with a random mistake (see :data:`MISTAKES`) in about ``share`` of them."""
    kept: list[Span] = []
    for entity in entities:
        mistake = rng.choice(MISTAKES) if rng.random() < share else None
        if mistake == "moved":
            kept.append(_move_edge(entity, n_words, rng))
        elif mistake == "retyped":
            kept.append(Span(entity.start, entity.end, rng.choice(labels)))
        elif mistake != "missed":
            kept.append(entity)
        if mistake == "invented":
            kept.append(_invent_entity(n_words, labels, rng))
    return sorted(set(kept))


def _move_edge(entity: Span, n_words: int, rng: random.Random) -> Span:
    """Move start or end by one word, if the result is a valid span."""
    start, end = entity.start, entity.end
    if rng.random() < 0.5:
        start += rng.choice((-1, 1))
    else:
        end += rng.choice((-1, 1))
    return Span(start, end, entity.label) if 0 <= start < end <= n_words else entity


def _invent_entity(n_words: int, labels: Sequence[str], rng: random.Random) -> Span:
    start = rng.randrange(n_words)
    end = min(n_words, start + rng.randint(1, _LONGEST_INVENTED))
    return Span(start, end, rng.choice(labels))


class Collator(RowCollator):
    """Make rows and batches for a model with its tokenizer, schema and fusion."""

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> CascadeBatch:
        """Return a batch of gold sentences and sentences with soft labels."""
        rng = random.Random() if rng is None else rng
        sentences = [example.sentence for example in examples]
        given = [
            self._choose_entities(example, settings.corruption if settings.joint else 0.0, rng) for example in examples
        ]
        asked: list[list[tuple[int, int]]] = [[] for _ in sentences]
        if settings.joint:
            asked = [candidate_subjects(*pair, settings.candidates) for pair in zip(sentences, given, strict=True)]
        plain = [self.pieces.mask_words(self.plain(example), settings.masking, rng) for example in examples]
        rows, subject_rows, object_rows = self._rows(plain, given, asked, settings.joint)
        queries = make_queries(asked)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.long)
        n_words = int(lengths.max()) if sentences else 0
        entities, subjects = self._sentence_targets(examples, lengths)
        objects = self._object_targets(examples, asked, lengths[queries.sentence])
        pairs, place = sample_pairs(lengths, (entities, subjects), settings.negatives, rng)
        query_pairs, query_place = sample_pairs(objects.lengths, (objects,), settings.negatives, rng)
        weight = sentence_weights(examples)
        query_weight = None if weight is None else weight[queries.sentence]
        return CascadeBatch(
            rows=self.pieces.batch(rows, settings.division),
            lengths=lengths,
            pairs=pairs,
            entities=entities.to_targets(n_words, pairs, place, weight),
            subject_rows=torch.tensor(subject_rows, dtype=torch.long),
            object_rows=torch.tensor(object_rows, dtype=torch.long),
            given=self.entity_labels(given),
            subjects=subjects.to_targets(n_words, pairs, place, weight),
            queries=queries,
            query_pairs=query_pairs,
            objects=objects.to_targets(n_words, query_pairs, query_place, query_weight),
            n_sentences=len(sentences),
            weight=None if weight is None or bool((weight == 1).all()) else weight,
        )

    def _choose_entities(self, example: Example, corruption: float, rng: random.Random) -> Sequence[Span]:
        """Return the entities given to turns 2 and 3. Soft labels are only valid for the original entities."""
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
        """Return the rows of a batch, those of turn 1 first, and the row numbers of turns 2 and 3."""
        rows = list(plain)
        subject_rows = list(range(len(plain)))
        if joint and self.fusion.entities == "markers":
            subject_rows = list(range(len(plain), 2 * len(plain)))
            rows += self.with_entities(plain, given)
        if self.fusion.subject != "markers":
            return rows, subject_rows, subject_rows
        queries = [(i, start, end - 1) for i, subjects in enumerate(asked) for start, end in subjects]
        object_rows = list(range(len(rows), len(rows) + len(queries)))
        rows += self.with_subjects(plain, given, np.array(queries, dtype=np.int64).reshape(-1, 3))
        return rows, subject_rows, object_rows

    def entity_labels(self, entities: Sequence[Sequence[Span]]) -> SpanLabels:
        """Return the entities of each sentence of a batch as tensors."""
        return SpanLabels(*torch.from_numpy(self.entity_columns(entities)).unbind(1))

    def _sentence_targets(self, examples: Sequence[Example], lengths: Tensor) -> tuple[TargetTable, TargetTable]:
        """Return the targets of turns 1 and 2."""
        gold = [(i, e.sentence) for i, e in enumerate(examples) if e.soft is None]
        spans = ((i, e.start, e.end, self.entity_index[e.label]) for i, s in gold for e in s.entities)
        subjects = ((i, start, end, 0) for i, s in gold for start, end in gold_subjects(s))
        soft = [(i, e.soft) for i, e in enumerate(examples) if e.soft is not None]
        rows, numbers = [i for i, _ in soft], [labels.number for _, labels in soft]
        return (
            TargetTable(_labels(spans), lengths, len(self.entity_index), _source(examples, "entity", rows, numbers)),
            TargetTable(_labels(subjects), lengths, 1, _source(examples, "subject", rows, numbers)),
        )

    def _object_targets(
        self, examples: Sequence[Example], asked: Sequence[Sequence[tuple[int, int]]], lengths: Tensor
    ) -> TargetTable:
        """Return the targets of turn 3 for each query."""
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
        return TargetTable(_labels(found), lengths, len(self.relation_index), source)


def _source(
    examples: Sequence[Example], turn: str, rows: Sequence[int], table_rows: Sequence[int]
) -> SoftSource | None:
    """Return the probabilities of a turn, or None if no example has any."""
    tables = next((example.soft.tables for example in examples if example.soft is not None), None)
    if tables is None:
        return None
    if any(example.soft is not None and example.soft.tables is not tables for example in examples):
        raise ValueError("the soft labels of a batch are from different tables; put them into separate batches")
    return SoftSource(tables, turn, rows, table_rows)


def _query_rows(sentence: Sentence, soft: SoftLabels, asked: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Return the table rows of subjects. The table has one row for each distinct entity span."""
    if len(asked) == soft.n_queries:
        return range(soft.first_query, soft.first_query + soft.n_queries)
    every = candidate_subjects(sentence, sentence.entities, "entities")
    return [soft.first_query + every.index(subject) for subject in asked]


def sentence_weights(examples: Sequence[Example]) -> Tensor | None:
    """Return the weight of each sentence, or None if all are gold with weight 1. Shape: (n_sentences,)."""
    if all(example.soft is None and example.weight == 1 for example in examples):
        return None
    return torch.tensor([example.weight for example in examples])


def gold_subjects(sentence: Sentence) -> list[tuple[int, int]]:
    """Return the distinct spans that are the subject of a relation."""
    return sorted({(triple.head.start, triple.head.end) for triple in sentence.triples})


def candidate_subjects(sentence: Sentence, given: Sequence[Span], candidates: str) -> list[tuple[int, int]]:
    """Return the distinct spans whose objects are learned."""
    if candidates == "subjects":
        return gold_subjects(sentence)
    return sorted({(entity.start, entity.end) for entity in given})


def sample_pairs(
    lengths: Tensor, tables: Sequence[TargetTable], share: float, rng: random.Random
) -> tuple[Pairs, Tensor | None]:
    """Return the word pairs to learn from: all targets, and a share of the others.

    Returns:
        The pairs, and the index in them of each pair of ``pairs_within``; None if all pairs are used.
    """
    pairs = pairs_within(lengths)
    if share == 1:
        return pairs, None
    drawn = torch.Generator().manual_seed(rng.getrandbits(62))
    keep = torch.rand(len(pairs), generator=drawn) < share
    for table in tables:
        keep[table.pairs()] = True
    return Pairs(pairs.row[keep], pairs.start[keep], pairs.last[keep]), keep.cumsum(0) - 1


def make_queries(subjects: Sequence[Sequence[tuple[int, int]]]) -> Queries:
    """Return the subjects of each sentence of a batch as tensors."""
    rows = [(i, start, end - 1) for i, spans in enumerate(subjects) for start, end in spans]
    columns = torch.tensor(rows, dtype=torch.long).view(-1, 3).unbind(1)
    return Queries(*columns)


def _labels(spans: Iterable[tuple[int, int, int, int]]) -> SpanLabels:
    """Return tensors of (row, start, end, label) with half-open ends."""
    rows = [(row, start, end - 1, label) for row, start, end, label in spans]
    return SpanLabels(*torch.tensor(rows, dtype=torch.long).view(-1, 4).unbind(1))
