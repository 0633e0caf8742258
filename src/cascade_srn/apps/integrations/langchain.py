"""Graph transformer for LangChain: documents to graph documents. Needs the extra ``langchain``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cascade_srn.apps.integrations.graphs import (
    GraphEntity,
    ModelLike,
    load_extractor,
    map_labels,
    merge_mentions,
    missing_library,
)
from cascade_srn.inference.streaming import OnError
from cascade_srn.inference.thresholds import ThresholdsLike
from cascade_srn.types import Document

try:
    from langchain_community.graphs.graph_document import GraphDocument, Node, Relationship
    from langchain_core.documents import Document as LangChainDocument
except ModuleNotFoundError as error:
    raise missing_library("the graph transformer", "langchain-community", "langchain") from error


class CascadeGraphTransformer:
    """Converts documents to graph documents, as ``LLMGraphTransformer`` does, without a language model.

    A node is identified by the text and the label of an entity, so that graph stores merge it across documents. Nodes
    have the properties ``score``, ``starts`` and ``ends``: the best score and the character offsets of the mentions in
    ``page_content``. Relationships have ``score``, ``sentence``, ``head_start``, ``head_end``, ``tail_start`` and
    ``tail_end`` of their best mention, and ``n_mentions``.

    Args:
        model: A model folder, the name of a bundled model, a hub id, or an extractor.
        labels: Labels to return. See :class:`.Extractor`.
        thresholds: Minimum scores. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        label_map: Names of labels in the graph. By default, other characters than letters, digits and underscores
            become underscores: ``USED-FOR`` is ``USED_FOR``.
        device: Device of the model.
        batch_words: Maximum number of words per batch.
        on_error: What to do with a document that cannot be processed. See :meth:`.Extractor.stream`.
    """

    def __init__(
        self,
        model: ModelLike = None,
        *,
        labels: str | Collection[str] | None = None,
        thresholds: ThresholdsLike | None = None,
        overlaps: str | None = None,
        label_map: Mapping[str, str] | None = None,
        device: str = "auto",
        batch_words: int = 4096,
        on_error: OnError = "raise",
    ) -> None:
        self.extractor = load_extractor(model, device)
        self.names = map_labels(self.extractor.schema, label_map)
        self.options: dict[str, Any] = {
            "labels": labels,
            "thresholds": thresholds,
            "overlaps": overlaps,
            "batch_words": batch_words,
            "on_error": on_error,
        }
        self.extractor.stream([], **self.options)  # raises for wrong options

    def convert_to_graph_documents(
        self, documents: Sequence[LangChainDocument], config: Any = None
    ) -> list[GraphDocument]:
        """Convert documents, in order. ``config`` of LangChain is accepted and has no effect."""
        pairs = [(document.page_content, document) for document in documents]
        return [
            self._to_graph(document, source)
            for document, source in self.extractor.stream(pairs, as_tuples=True, **self.options)
        ]

    def process_response(self, document: LangChainDocument, config: Any = None) -> GraphDocument:
        """Convert one document. Raise its error if it cannot be processed."""
        options = {key: value for key, value in self.options.items() if key not in ("batch_words", "on_error")}
        return self._to_graph(self.extractor.extract(document.page_content, **options), document)

    async def aconvert_to_graph_documents(
        self, documents: Sequence[LangChainDocument], config: Any = None
    ) -> list[GraphDocument]:
        """Convert documents in a thread."""
        return await asyncio.to_thread(self.convert_to_graph_documents, documents, config)

    async def aprocess_response(self, document: LangChainDocument, config: Any = None) -> GraphDocument:
        """Convert one document in a thread."""
        return await asyncio.to_thread(self.process_response, document, config)

    def _to_graph(self, document: Document, source: LangChainDocument) -> GraphDocument:
        entities, relations = merge_mentions(document, self.names)
        nodes: dict[GraphEntity, Any] = {
            entity: Node(id=entity.name, type=entity.label, properties=entity.properties()) for entity in entities
        }
        relationships = [
            Relationship(source=nodes[r.head], target=nodes[r.tail], type=r.label, properties=r.properties())
            for r in relations
        ]
        return GraphDocument(nodes=list(nodes.values()), relationships=relationships, source=source)
