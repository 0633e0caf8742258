"""Build the parts of each baseline from settings."""

import copy
from typing import Any

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.lab.baselines.limits import unreachable_in_pipeline, unreachable_in_tables
from cascade_srn.lab.baselines.pipeline import (
    PairClassifier,
    Pipeline,
    PipelineCollator,
    SpanClassifier,
    TwoEncoders,
    find_markers,
    pipeline_markers,
)
from cascade_srn.lab.baselines.prediction import PipelineSearch, TableSearch
from cascade_srn.lab.baselines.table_filling import (
    PartitionFilterNetwork,
    Table,
    TableCollator,
    TableFilling,
    TwoTaskEncoder,
)
from cascade_srn.model.build import ENTITY_ROWS, RELATION_ROWS, LabelRows, ModelFamily
from cascade_srn.network.markers import Markers
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.schema import Schema

N_TASKS = 2


def _has_relations(settings: ModelSettings, schema: Schema) -> bool:
    return settings.joint and bool(schema.relation_types)


def _head_dropout(settings: ModelSettings) -> float:
    return settings.dropout if settings.head_dropout is None else settings.head_dropout


def build_tables(settings: ModelSettings, schema: Schema, encoder: PretrainedEncoder) -> TableFilling:
    """Build PFN or Table-SRN, which differ in the sequence encoder only."""
    sequence: TwoTaskEncoder
    if settings.method == "pfn":
        drop_connect = settings.baseline.drop_connect
        sequence = PartitionFilterNetwork(encoder.width, settings.hidden_width, drop_connect=drop_connect)
    else:
        sequence = SelectionRecurrentNetwork(
            encoder.width, settings.hidden_width, n_tasks=N_TASKS, backend=settings.srn_backend
        )

    def table(n_labels: int) -> Table:
        return Table(sequence.task_width, settings.hidden_width, n_labels, dropout=_head_dropout(settings))

    return TableFilling(
        encoder=encoder,
        sequence=sequence,
        entities=table(len(schema.entity_types)),
        relations=table(len(schema.relation_types)) if _has_relations(settings, schema) else None,
        dropout=settings.dropout,
    )


def build_pipeline(settings: ModelSettings, schema: Schema, encoder: PretrainedEncoder) -> Pipeline:
    """Build the pipeline. The encoder of the relation model starts as a copy of the entity model's."""
    joint, baseline = _has_relations(settings, schema), settings.baseline
    return Pipeline(
        encoder=TwoEncoders(encoder, copy.deepcopy(encoder) if joint else None),
        spans=SpanClassifier(
            encoder.width,
            len(schema.entity_types),
            max_words=baseline.max_span_words,
            length_width=baseline.length_width,
            hidden_width=baseline.span_width,
            dropout=_head_dropout(settings),
        ),
        relations=PairClassifier(encoder.width, len(schema.relation_types), dropout=settings.dropout)
        if joint
        else None,
    )


def _pipeline_collator(settings: ModelSettings, schema: Schema, pieces: WordPieces, tokenizer: Any) -> PipelineCollator:
    markers = find_markers(schema, tokenizer) if _has_relations(settings, schema) else Markers({})
    return PipelineCollator(pieces, schema, markers, max_words=settings.baseline.max_span_words)


_TABLES = ModelFamily(
    markers=lambda settings, schema: {},
    network=build_tables,
    collator=lambda settings, schema, pieces, tokenizer: TableCollator(pieces, schema, settings.method),
    search=TableSearch,
    unreachable=unreachable_in_tables,
    label_rows=lambda settings: {
        "entities.output.": LabelRows(ENTITY_ROWS),
        "relations.output.": LabelRows(RELATION_ROWS),
    },
)
_PIPELINE = ModelFamily(
    markers=lambda settings, schema: pipeline_markers(schema) if _has_relations(settings, schema) else {},
    network=build_pipeline,
    collator=_pipeline_collator,
    search=PipelineSearch,
    unreachable=unreachable_in_pipeline,
    # The first row is the class of spans that are no entity, and of pairs without a relation.
    label_rows=lambda settings: {
        "spans.output.": LabelRows(ENTITY_ROWS, before=1),
        "relations.output.": LabelRows(RELATION_ROWS, before=1),
    },
)
BASELINES = {"pfn": _TABLES, "table-srn": _TABLES, "pipeline": _PIPELINE}
"""The baselines by ``ModelSettings.method``."""
