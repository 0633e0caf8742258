"""Model families, and the parts of a cascade from its settings.

The cascade is one family, and each baseline is another. A family has a network with its loss, a collator and a search.
Families share everything else: data, encoders, the training loop, the predictor, scoring and model folders.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol, Self

import torch

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.inference.cascade_search import Search, SearchSettings
from cascade_srn.inference.predictor import RowMaker
from cascade_srn.inference.torch_turns import search_cascade
from cascade_srn.network.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, Collator
from cascade_srn.network.cascade import N_TASKS, Cascade, Network, RelationTurns
from cascade_srn.network.examples import Example
from cascade_srn.network.fusion import EntityTags, SubjectSpan, SubjectTag
from cascade_srn.network.markers import Markers, marker_names
from cascade_srn.network.sequence import BiLSTM, SequenceEncoder
from cascade_srn.network.span_extraction import LinearMatcher, MlpMatcher, SpanExtractor
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Identifies the argument of a relation: all words of an entity, or its first word.
WordKey = tuple[int, ...]


class Unreachable(NamedTuple):
    """An annotation that a model family cannot predict, and why."""

    problem: str
    annotation: Span | Triple


def unreachable_by_key(problem: str, key: Callable[[Span], WordKey], sentence: Sentence) -> Iterator[Unreachable]:
    """Yield the relations of entities that share their key with another entity and are not chosen for it.

    A key is decoded as the entity with the highest score. Only as the object of that entity, it is decoded as the one
    with the next score. The scores are unknown here: the choice that keeps most relations is assumed.
    """
    triples = sorted(set(sentence.triples))
    within = [triple for triple in triples if key(triple.head) == key(triple.tail)]
    between = [triple for triple in triples if key(triple.head) != key(triple.tail)]
    arguments = [*(argument for t in between for argument in (t.head, t.tail)), *(t.head for t in within)]
    first = _most_frequent(arguments, key)
    second = _most_frequent((t.tail for t in within if t.head == first[key(t.head)] != t.tail), key)
    shared = {words for words, number in Counter(map(key, set(sentence.entities))).items() if number > 1}
    for triple in triples:
        head, tail = key(triple.head), key(triple.tail)
        objects = second if head == tail and head in shared else first
        if triple.head != first[head] or triple.tail != objects.get(tail):
            yield Unreachable(problem, triple)


def _most_frequent(entities: Iterable[Span], key: Callable[[Span], WordKey]) -> dict[WordKey, Span]:
    """Return the most frequent entity of each key, the first of equals."""
    chosen: dict[WordKey, Span] = {}
    for entity, _ in sorted(Counter(entities).items(), key=lambda item: (-item[1], item[0])):
        chosen.setdefault(key(entity), entity)
    return chosen


class Batch(Protocol):
    """A training batch: the input of the loss."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""


class BatchMaker(RowMaker, Protocol):
    """A collator: makes encoder rows and training batches for one model."""

    @property
    def schema(self) -> Schema:
        """The labels of the model."""

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> Batch:
        """Make a training batch of gold sentences. A family refuses settings that do not apply to it."""


ENTITY_ROWS, RELATION_ROWS = "entity", "relation"


@dataclass(frozen=True)
class LabelRows:
    """Rows of a weight that belong to labels, in the order of the schema.

    ``kind`` is whether the labels are entity types or relation types. ``before`` is the number of rows before them.
    """

    kind: str
    before: int = 0


@dataclass(frozen=True)
class ModelFamily:
    """A model family, as the functions that make its parts."""

    # Returns the special tokens that the family inserts into text, each with a description in words.
    markers: Callable[[ModelSettings, Schema], dict[str, str]]
    # Makes a network from settings, schema and an encoder whose vocabulary contains the markers.
    network: Callable[[ModelSettings, Schema, PretrainedEncoder], Network]
    # Makes a collator from settings, schema, pieces and tokenizer.
    collator: Callable[[ModelSettings, Schema, WordPieces, Any], BatchMaker]
    # Makes a search from a network, a collator and the search settings of a batch.
    search: Callable[[Any, Any, SearchSettings], Search]
    # Yields the annotations of a sentence that no model of these settings can predict.
    unreachable: Callable[[ModelSettings, Schema, Sentence], Iterator[Unreachable]]
    # Returns the weights with a row for each label, by the start of their names.
    label_rows: Callable[[ModelSettings], Mapping[str, LabelRows]]


# The module with the baselines, which is above this one and therefore imported by name, on first use.
BASELINES_MODULE = "cascade_srn.lab.baselines.build"


@cache
def family_of(method: str) -> ModelFamily:
    """Return the model family that ``ModelSettings.method`` names.

    Baselines are imported on first use, because extraction with a cascade does not need them.
    """
    if method == "cascade":
        return CASCADE
    baselines: dict[str, ModelFamily] = import_module(BASELINES_MODULE).BASELINES
    return baselines[method]


def build_cascade(settings: ModelSettings, schema: Schema, encoder: PretrainedEncoder) -> Cascade:
    """Build a cascade over an encoder whose vocabulary contains the markers."""
    sequence = _sequence_encoder(settings, encoder.width)
    relations = None
    if settings.joint and schema.relation_types:
        relations = _relation_turns(settings, schema, sequence.task_width)
    return Cascade(
        encoder=encoder,
        sequence=sequence,
        entity_head=_span_extractor(settings, sequence.task_width, len(schema.entity_types)),
        relations=relations,
        dropout=settings.dropout,
    )


def _sequence_encoder(settings: ModelSettings, input_width: int) -> SequenceEncoder:
    if settings.sequence_encoder == "bilstm":
        return BiLSTM(input_width, settings.hidden_width)
    return SelectionRecurrentNetwork(
        input_width,
        settings.hidden_width,
        n_tasks=N_TASKS,
        bidirectional=settings.sequence_encoder == "bisrn",
        backend=settings.srn_backend,
    )


def _relation_turns(settings: ModelSettings, schema: Schema, task_width: int) -> RelationTurns:
    fusion = settings.fusion
    tags = EntityTags(len(schema.entity_types), fusion.tag_width) if fusion.entities == "tags" else None
    width = task_width + (tags.width if tags is not None else 0)
    subject_fusion: SubjectTag | SubjectSpan | None = None
    if fusion.subject == "tag":
        subject_fusion = SubjectTag(width, fusion.tag_width)
    elif fusion.subject == "span":
        subject_fusion = SubjectSpan(width, task_width, max_distance=fusion.max_distance)
    object_width = width if subject_fusion is None else subject_fusion.output_width
    return RelationTurns(
        subject_head=_span_extractor(settings, width, 1),
        object_head=_span_extractor(settings, object_width, len(schema.relation_types)),
        entity_tags=tags,
        subject_fusion=subject_fusion,
    )


def _span_extractor(settings: ModelSettings, width: int, n_labels: int) -> SpanExtractor:
    matcher: LinearMatcher | MlpMatcher
    if settings.matcher == "linear":
        matcher = LinearMatcher(width, n_labels)
    else:
        matcher = MlpMatcher(width, n_labels, hidden_width=settings.matcher_width)
    dropout = settings.dropout if settings.head_dropout is None else settings.head_dropout
    return SpanExtractor(width, n_labels, matcher=matcher, dropout=dropout)


def _collator(settings: ModelSettings, schema: Schema, pieces: WordPieces, tokenizer: Any) -> Collator:
    markers = Markers.from_tokenizer(settings.fusion, schema.entity_types, tokenizer)
    return Collator(pieces, markers, schema, settings.fusion)


def _unreachable(settings: ModelSettings, schema: Schema, sentence: Sentence) -> Iterator[Unreachable]:
    """Yield relations of entities on the same words. All entities are reachable, nested ones included."""
    problem = "relation of a second entity on the same words"
    return unreachable_by_key(problem, lambda entity: (entity.start, entity.end), sentence)


def _label_rows(settings: ModelSettings) -> dict[str, LabelRows]:
    entity, relation = LabelRows(ENTITY_ROWS), LabelRows(RELATION_ROWS)
    matcher = ("matcher.start.", "matcher.last.") if settings.matcher == "linear" else ("matcher.output.",)
    rows = {"relations.entity_tags.": entity}
    for head, labels in (("entity_head", entity), ("relations.object_head", relation)):
        rows |= {f"{head}.{layer}": labels for layer in ("start.", "end.", *matcher)}
    return rows


CASCADE = ModelFamily(
    markers=lambda settings, schema: marker_names(settings.fusion, schema.entity_types),
    network=build_cascade,
    collator=_collator,
    search=search_cascade,
    unreachable=_unreachable,
    label_rows=_label_rows,
)
"""The family of ``ModelSettings.method == "cascade"``."""
