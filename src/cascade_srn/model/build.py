"""Build the parts of a model from its settings."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.inference.predictor import SearchSettings
from cascade_srn.inference.torch_search import TorchSearch
from cascade_srn.model.family import ENTITY_ROWS, RELATION_ROWS, LabelRows, ModelFamily
from cascade_srn.model.unreachable import Unreachable, unreachable_by_key
from cascade_srn.network.cascade import N_TASKS, Cascade, RelationTurns
from cascade_srn.network.collate import Collator
from cascade_srn.network.fusion import EntityTags, SubjectSpan, SubjectTag
from cascade_srn.network.markers import Markers, marker_names
from cascade_srn.network.sequence import BiLSTM, SequenceEncoder
from cascade_srn.network.span_extraction import LinearMatcher, MlpMatcher, SpanExtractor
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence

# The module with the baselines, which is above this one and therefore imported by name, on first use.
BASELINES_MODULE = "cascade_srn.lab.baselines.build"


def family_of(settings: ModelSettings) -> ModelFamily:
    """Return the model family that ``settings.method`` names.

    Baselines are imported on first use, because extraction with a cascade does not need them.
    """
    if settings.method == "cascade":
        return CASCADE
    baselines: dict[str, ModelFamily] = import_module(BASELINES_MODULE).BASELINES
    return baselines[settings.method]


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


def _search(cascade: Cascade, collator: Collator, settings: SearchSettings) -> TorchSearch:
    return TorchSearch(cascade, collator, settings)


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
    search=_search,
    unreachable=_unreachable,
    label_rows=_label_rows,
)
"""The family of ``ModelSettings.method == "cascade"``."""
