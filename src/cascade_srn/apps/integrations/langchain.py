"""Graph transformer for LangChain: documents to graph documents. Needs the extra ``langchain``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from cascade_srn.apps.integrations.graphs import (
    GraphAdapter,
    GraphEntity,
    GraphOptions,
    GraphRelation,
    ModelLike,
)
from cascade_srn.errors import require

require("langchain_community")
from langchain_community.graphs.graph_document import GraphDocument, Node, Relationship  # noqa: E402
from langchain_core.documents import Document as LangChainDocument  # noqa: E402


class CascadeGraphTransformer:
    """Converts documents to graph documents, as ``LLMGraphTransformer`` does, without a language model.

    A node is identified by the text and the label of an entity, so that graph stores merge it across documents. Nodes
    have the properties ``score``, ``starts`` and ``ends``: the best score and the character offsets of the mentions in
    ``page_content``. Relationships have ``score``, ``sentence``, ``head_start``, ``head_end``, ``tail_start`` and
    ``tail_end`` of their best mention, ``n_mentions`` and ``status``.

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

    def __init__(self, model: ModelLike = None, **options: Unpack[GraphOptions]) -> None:
        self.adapter = GraphAdapter(model, **options)

    def convert_to_graph_documents(
        self, documents: Sequence[LangChainDocument], config: Any = None
    ) -> list[GraphDocument]:
        """Convert documents, in order. ``config`` of LangChain is accepted and has no effect."""
        return self._convert(documents)

    def process_response(self, document: LangChainDocument, config: Any = None) -> GraphDocument:
        """Convert one document. Raise its error if it cannot be processed."""
        return self._convert([document], on_error="raise")[0]

    async def aconvert_to_graph_documents(
        self, documents: Sequence[LangChainDocument], config: Any = None
    ) -> list[GraphDocument]:
        """Convert documents in a thread."""
        return await asyncio.to_thread(self.convert_to_graph_documents, documents, config)

    async def aprocess_response(self, document: LangChainDocument, config: Any = None) -> GraphDocument:
        """Convert one document in a thread."""
        return await asyncio.to_thread(self.process_response, document, config)

    def _convert(self, documents: Iterable[LangChainDocument], **options: Any) -> list[GraphDocument]:
        pairs = ((document.page_content, document) for document in documents)
        return [_to_graph(*found) for found in self.adapter.extract(pairs, **options)]


def _to_graph(source: LangChainDocument, entities: list[GraphEntity], relations: list[GraphRelation]) -> GraphDocument:
    nodes = {e: Node(id=e.name, type=e.label, properties=e.properties()) for e in entities}
    relationships = [
        Relationship(source=nodes[r.head], target=nodes[r.tail], type=r.label, properties=r.properties())
        for r in relations
    ]
    return GraphDocument(nodes=list(nodes.values()), relationships=relationships, source=source)
