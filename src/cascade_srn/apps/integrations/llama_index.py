"""Property-graph extractor for LlamaIndex. Needs the extra ``llama-index``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from cascade_srn.apps.integrations.graphs import (
    ModelLike,
    empty_on_error,
    load_extractor,
    map_labels,
    merge_mentions,
    missing_library,
)
from cascade_srn.extractor import Extractor
from cascade_srn.types import Document

try:
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
    from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent
except ModuleNotFoundError as error:
    raise missing_library("the property-graph extractor", "llama-index-core", "llama-index") from error


class CascadePathExtractor(TransformComponent):
    """Adds entities and relations to text nodes, for ``PropertyGraphIndex(kg_extractors=[...])``.

    The index identifies entities by their name. If an entity has several labels in a text, the label is that of the
    mention with the best score. Entities have the metadata of the text node as properties, and ``score``, ``starts``
    and ``ends``: the best score and the character offsets of the mentions in the text of the node. Relations have the
    metadata too, and ``score``, ``sentence``, ``head_start``, ``head_end``, ``tail_start`` and ``tail_end`` of their
    best mention, and ``n_mentions``.

    Args:
        model: A model folder, the name of a bundled model, a hub id, or an extractor.
        labels: Labels to return. See :class:`.Extractor`.
        thresholds: Minimum scores: one number, or a mapping. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        label_map: Names of labels in the graph. By default, other characters than letters, digits and underscores
            become underscores: ``USED-FOR`` is ``USED_FOR``.
        device: Device of the model.
        batch_words: Maximum number of words per batch.
        on_error: What to do with a text that cannot be processed: "raise", "warn" or "skip". A text that is skipped
            gets no entities.
    """

    model: str | None = Field(default=None, description="Model folder, name of a bundled model, or hub id.")
    labels: list[str] | None = Field(default=None, description="Labels to return.")
    thresholds: float | dict[str, Any] | None = Field(default=None, description="Minimum scores.")
    overlaps: str | None = Field(default=None, description="Treatment of entities that share words.")
    label_map: dict[str, str] | None = Field(default=None, description="Names of labels in the graph.")
    device: str = Field(default="auto", description="Device of the model.")
    batch_words: int = Field(default=4096, description="Maximum number of words per batch.")
    on_error: str = Field(default="raise", description="What to do with a text that cannot be processed.")
    _extractor: Any = PrivateAttr(default=None)
    _names: dict[str, str] = PrivateAttr(default_factory=dict)

    def __init__(self, model: ModelLike = None, **options: Any) -> None:
        if isinstance(options.get("labels"), str):
            options["labels"] = [options["labels"]]
        super().__init__(model=None if model is None or isinstance(model, Extractor) else str(model), **options)
        self._extractor = load_extractor(model, self.device)
        self._names = map_labels(self._extractor.schema, self.label_map)
        self._stream([])  # raises for wrong options

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex stores."""
        return "CascadePathExtractor"

    def __call__(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> Sequence[BaseNode]:
        """Add entities and relations to the metadata of text nodes, and return the nodes."""
        texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        for node, document in zip(nodes, self._stream(texts, progress=show_progress), strict=True):
            self._annotate(node, document)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.__call__, nodes, **kwargs)

    def _stream(self, texts: Sequence[str], *, progress: bool = False) -> Iterator[Document]:
        if self._extractor is None:  # LlamaIndex leaves out of a pickle what it cannot pickle
            self._extractor = load_extractor(self.model, self.device)
        stream: Iterator[Document] = self._extractor.stream(
            texts,
            labels=self.labels,
            thresholds=self.thresholds,
            overlaps=self.overlaps,
            batch_words=self.batch_words,
            on_error=empty_on_error(self.on_error),
            progress=progress,
        )
        return stream

    def _annotate(self, node: BaseNode, document: Document) -> None:
        found_nodes = node.metadata.pop(KG_NODES_KEY, [])
        found_relations = node.metadata.pop(KG_RELATIONS_KEY, [])
        metadata = dict(node.metadata)
        entities, relations = merge_mentions(document, self._names, by_name=True)
        nodes = {e: EntityNode(name=e.name, label=e.label, properties=metadata | e.properties()) for e in entities}
        node.metadata[KG_NODES_KEY] = [*found_nodes, *nodes.values()]
        node.metadata[KG_RELATIONS_KEY] = found_relations + [
            Relation(
                label=relation.label,
                source_id=nodes[relation.head].id,
                target_id=nodes[relation.tail].id,
                properties=metadata | relation.properties(),
            )
            for relation in relations
        ]
