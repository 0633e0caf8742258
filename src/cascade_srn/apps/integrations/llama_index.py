"""Property-graph extractor for LlamaIndex. Needs the extra ``llama-index``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from cascade_srn.apps.integrations.graphs import GraphAdapter, GraphEntity, GraphRelation, ModelLike
from cascade_srn.errors import require
from cascade_srn.extractor import Extractor

require("llama_index.core")
from llama_index.core.bridge.pydantic import PrivateAttr  # noqa: E402
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation  # noqa: E402
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent  # noqa: E402


class CascadePathExtractor(TransformComponent):
    """Adds entities and relations to text nodes, for ``PropertyGraphIndex(kg_extractors=[...])``.

    The index identifies entities by their name. If an entity has several labels in a text, the label is that of the
    mention with the best score. Entities have the metadata of the text node as properties, and ``score``, ``starts``
    and ``ends``: the best score and the character offsets of the mentions in the text of the node. Relations have the
    metadata too, and ``score``, ``sentence``, ``head_start``, ``head_end``, ``tail_start`` and ``tail_end`` of their
    best mention, ``n_mentions`` and ``status``.

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

    model: str | None = None
    labels: list[str] | None = None
    thresholds: float | dict[str, Any] | None = None
    overlaps: str | None = None
    label_map: dict[str, str] | None = None
    device: str = "auto"
    batch_words: int = 4096
    on_error: str = "raise"
    _adapter: GraphAdapter | None = PrivateAttr(default=None)

    def __init__(self, model: ModelLike = None, **options: Any) -> None:
        if isinstance(options.get("labels"), str):
            options["labels"] = [options["labels"]]
        super().__init__(model=None if model is None or isinstance(model, Extractor) else str(model), **options)
        self._adapter = self._make_adapter(model)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex stores."""
        return "CascadePathExtractor"

    def __call__(self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any) -> Sequence[BaseNode]:
        """Add entities and relations to the metadata of text nodes, and return the nodes."""
        if self._adapter is None:  # LlamaIndex leaves out of a pickle what it cannot pickle
            self._adapter = self._make_adapter(self.model)
        for node in nodes:
            node.metadata |= {key: node.metadata.get(key, []) for key in (KG_NODES_KEY, KG_RELATIONS_KEY)}
        pairs = [(node.get_content(metadata_mode=MetadataMode.NONE), node) for node in nodes]
        for node, entities, relations in self._adapter.extract(pairs, progress=show_progress):
            _annotate(node, entities, relations)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.__call__, nodes, **kwargs)

    def _make_adapter(self, model: ModelLike) -> GraphAdapter:
        names = ("labels", "thresholds", "overlaps", "label_map", "device", "batch_words", "on_error")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        return GraphAdapter(model, by_name=True, **options)


def _annotate(node: BaseNode, entities: list[GraphEntity], relations: list[GraphRelation]) -> None:
    found_nodes, found_relations = node.metadata.pop(KG_NODES_KEY), node.metadata.pop(KG_RELATIONS_KEY)
    metadata = dict(node.metadata)
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
