"""Entity-relation extractor for pipelines of neo4j-graphrag. Needs the extra ``neo4j``."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from cascade_srn.apps.integrations.graphs import (
    GraphAdapter,
    GraphEntity,
    GraphRelation,
    ModelLike,
)
from cascade_srn.errors import ConfigError, require
from cascade_srn.inference.streaming import BadText

require("neo4j_graphrag")
from neo4j_graphrag.experimental.components.entity_relation_extractor import (  # noqa: E402
    EntityRelationExtractor,
    OnError,
)
from neo4j_graphrag.experimental.components.lexical_graph import LexicalGraphBuilder  # noqa: E402
from neo4j_graphrag.experimental.components.types import (  # noqa: E402
    DocumentInfo,
    LexicalGraphConfig,
    Neo4jGraph,
    Neo4jNode,
    Neo4jRelationship,
    TextChunk,
    TextChunks,
)
from pydantic import validate_call  # noqa: E402

logger = logging.getLogger(__name__)


class CascadeEntityRelationExtractor(EntityRelationExtractor):
    """Extracts a graph from text chunks, in the place of ``LLMEntityRelationExtractor``.

    Every chunk has a node for each text and label of an entity, with the properties ``name``, ``score``, ``starts``,
    ``ends`` (character offsets of the mentions in the chunk) and ``chunk_index``. Resolvers merge nodes of the same
    ``name`` and keep the properties of one of them, so the relationship from a node to its chunk has the score and the
    offsets too. Other relationships have ``chunk_id``, ``score``, ``sentence``, ``head_start``, ``head_end``,
    ``tail_start`` and ``tail_end`` of their best mention, ``n_mentions`` and ``status``.

    Args:
        model: A model folder, the name of a bundled model, a hub id, or an extractor.
        labels: Labels to return. See :class:`.Extractor`.
        thresholds: Minimum scores. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        label_map: Names of labels in the graph. By default, other characters than letters, digits and underscores
            become underscores: ``USED-FOR`` is ``USED_FOR``.
        device: Device of the model.
        batch_words: Maximum number of words per batch.
        create_lexical_graph: Add nodes for the document and its chunks.
        on_error: ``OnError.RAISE`` raises the error of a chunk, ``OnError.IGNORE`` logs it and leaves the chunk empty.
    """

    def __init__(
        self,
        model: ModelLike = None,
        *,
        create_lexical_graph: bool = True,
        on_error: OnError = OnError.RAISE,
        **options: Any,
    ) -> None:
        super().__init__(on_error=on_error, create_lexical_graph=create_lexical_graph)
        self.adapter = GraphAdapter(model, on_error="raise" if on_error == OnError.RAISE else _log, **options)

    @validate_call  # a pipeline passes the outputs of other components as dictionaries
    async def run(
        self,
        chunks: TextChunks,
        document_info: DocumentInfo | None = None,
        lexical_graph_config: LexicalGraphConfig | None = None,
        **kwargs: Any,
    ) -> Neo4jGraph:
        """Extract entities and relations from all chunks.

        Args:
            chunks: The chunks.
            document_info: The document of the chunks, for the lexical graph.
            lexical_graph_config: Names in the lexical graph.
            kwargs: Other inputs of a pipeline, such as a schema or examples, are refused, because the model has its
                own labels.

        Returns:
            The lexical graph, if there is one, with the entities and relations of all chunks.
        """
        if kwargs:
            raise ConfigError(
                f"the extractor cannot use {', '.join(sorted(kwargs))}",
                "Do not connect it; choose labels with the option labels, and rename them with label_map",
            )
        builder, graph = None, Neo4jGraph()
        if self.create_lexical_graph or lexical_graph_config:
            config = lexical_graph_config or LexicalGraphConfig()
            self._check_names(config)
            builder = LexicalGraphBuilder(config=config)
        if builder and self.create_lexical_graph:
            graph = (await builder.run(text_chunks=chunks, document_info=document_info)).graph
        pairs = [(chunk.text, chunk) for chunk in chunks.chunks]
        for chunk, entities, relations in await asyncio.to_thread(lambda: list(self.adapter.extract(pairs))):
            found = self._to_graph(chunk, entities, relations, builder)
            graph.nodes.extend(found.nodes)
            graph.relationships.extend(found.relationships)
        return graph

    def _check_names(self, config: LexicalGraphConfig) -> None:
        """Refuse entity labels that are names of the lexical graph, where they would be taken for its nodes."""
        for label in self.adapter.extractor.schema.entity_types:
            if (name := self.adapter.names[label]) in config.lexical_graph_node_labels:
                raise ConfigError(
                    f"the entity label {label!r} is {name!r} in the graph, as nodes of the lexical graph",
                    "Give it another name in label_map",
                )

    def _to_graph(
        self,
        chunk: TextChunk,
        entities: list[GraphEntity],
        relations: list[GraphRelation],
        builder: LexicalGraphBuilder | None,
    ) -> Neo4jGraph:
        ids = {entity: str(number) for number, entity in enumerate(entities)}
        graph = Neo4jGraph(
            nodes=[
                Neo4jNode(id=ids[e], label=e.label, properties={"name": e.name, **e.properties()}) for e in entities
            ],
            relationships=[
                Neo4jRelationship(
                    start_node_id=ids[r.head],
                    end_node_id=ids[r.tail],
                    type=r.label,
                    properties={"chunk_id": chunk.chunk_id, **r.properties()},
                )
                for r in relations
            ],
        )
        self.update_ids(graph, chunk)
        if builder:
            for node, entity in zip(graph.nodes, entities, strict=True):
                origin = builder.create_node_to_chunk_rel(node, chunk.chunk_id)
                origin.properties = entity.properties()
                graph.relationships.append(origin)
        return graph


def _log(bad: BadText) -> None:
    logger.error("chunk %d could not be processed: %s", bad.position, bad.error)
