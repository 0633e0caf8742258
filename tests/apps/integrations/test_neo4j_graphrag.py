import asyncio

import pytest

pytest.importorskip("neo4j_graphrag")
from neo4j_graphrag.experimental.components.entity_relation_extractor import OnError
from neo4j_graphrag.experimental.components.types import (
    DocumentInfo,
    LexicalGraphConfig,
    TextChunk,
    TextChunks,
)
from tests.apps.integrations.models import TEXTS

from cascade_srn import Extractor
from cascade_srn.apps.integrations.neo4j_graphrag import CascadeEntityRelationExtractor
from cascade_srn.errors import ConfigError

pytestmark = pytest.mark.slow
INFO = DocumentInfo(path="paper.pdf", uid="paper")


def chunks(texts=TEXTS):
    return TextChunks(chunks=[TextChunk(text=text, index=n, uid=f"chunk{n}") for n, text in enumerate(texts)])


def run(extractor, texts=TEXTS, **inputs):
    return asyncio.run(extractor.run(chunks=chunks(texts), **inputs))


def test_graph_has_the_predictions_and_their_places(given):
    graph = run(CascadeEntityRelationExtractor(given), TEXTS[:1], document_info=INFO)
    nodes = {node.id: node for node in graph.nodes}
    assert {node.label for node in graph.nodes} == {"Document", "Chunk", "Thing", "Task"}
    tagger = nodes["chunk0:0"]
    assert tagger.properties == {"name": "tagger", "starts": [2], "ends": [8], "score": 0.9, "chunk_index": 0}
    found = {(r.start_node_id, r.type, r.end_node_id): r.properties for r in graph.relationships}
    assert found["chunk0:0", "used_for", "chunk0:1"]["sentence"] == TEXTS[0]
    assert found["chunk0:0", "used_for", "chunk0:1"]["chunk_id"] == "chunk0"
    assert found["chunk0:0", "FROM_CHUNK", "chunk0"] == {"starts": [2], "ends": [8], "score": 0.9}
    assert ("chunk0", "FROM_DOCUMENT", "paper") in found


def test_without_lexical_graph(given):
    graph = run(CascadeEntityRelationExtractor(given, create_lexical_graph=False))
    assert {node.label for node in graph.nodes} == {"Thing", "Task"}
    assert {r.type for r in graph.relationships} == {"used_for"}
    config = LexicalGraphConfig(node_to_chunk_relationship_type="IN")
    graph = run(CascadeEntityRelationExtractor(given, create_lexical_graph=False), lexical_graph_config=config)
    assert {r.type for r in graph.relationships} == {"used_for", "IN"}


def test_results_of_a_model_equal_those_of_the_extractor(model_folder):
    graph = run(
        CascadeEntityRelationExtractor(model_folder, thresholds=0.3, overlaps="flat", create_lexical_graph=False)
    )
    documents = Extractor.from_pretrained(model_folder)(TEXTS, thresholds=0.3, overlaps="flat")
    assert sum(r.properties["n_mentions"] for r in graph.relationships) == sum(len(d.relations) for d in documents)
    for number, document in enumerate(documents):
        names = {n.properties["name"] for n in graph.nodes if n.properties["chunk_index"] == number}
        assert names == {entity.text for entity in document.entities}
    ids = {node.id for node in graph.nodes}
    assert len(ids) == len(graph.nodes)
    assert {end for r in graph.relationships for end in (r.start_node_id, r.end_node_id)} <= ids


def test_labels_of_the_lexical_graph_are_refused(given):
    extractor = CascadeEntityRelationExtractor(given, label_map={"Thing": "Chunk"})
    with pytest.raises(ConfigError, match="Chunk"):
        run(extractor)
    assert run(extractor, lexical_graph_config=LexicalGraphConfig(chunk_node_label="Part"))


def test_bad_chunks(given):
    texts = [TEXTS[0], "broken", TEXTS[2]]
    with pytest.raises(RuntimeError):
        run(CascadeEntityRelationExtractor(given), texts)
    graph = run(CascadeEntityRelationExtractor(given, on_error=OnError.IGNORE, create_lexical_graph=False), texts)
    assert {node.properties["chunk_index"] for node in graph.nodes} == {0, 2}
