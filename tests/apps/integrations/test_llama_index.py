import asyncio
import pickle

import pytest

pytest.importorskip("llama_index.core")
from llama_index.core import MockEmbedding, PropertyGraphIndex
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from tests.apps.integrations.models import TEXTS

from cascade_srn import Extractor
from cascade_srn.apps.integrations.llama_index import CascadePathExtractor
from cascade_srn.errors import SchemaError

pytestmark = pytest.mark.slow


def nodes(texts=TEXTS):
    return [TextNode(text=text, metadata={"file": f"{n}.txt"}) for n, text in enumerate(texts)]


def test_nodes_get_entities_and_relations(given):
    (node,) = CascadePathExtractor(given)(nodes(TEXTS[:1]))
    tagger, parsing = node.metadata[KG_NODES_KEY]
    assert (tagger.name, tagger.label, parsing.name, parsing.label) == ("tagger", "Thing", "parsing", "Task")
    assert tagger.properties == {"file": "0.txt", "starts": [2], "ends": [8], "score": 0.9}
    (relation,) = node.metadata[KG_RELATIONS_KEY]
    assert (relation.source_id, relation.label, relation.target_id) == ("tagger", "used_for", "parsing")
    assert relation.properties["sentence"] == TEXTS[0]
    assert relation.properties["file"] == "0.txt"


def test_an_index_is_built(model_folder):
    extractor = CascadePathExtractor(str(model_folder), thresholds=0.3, overlaps="flat")
    index = PropertyGraphIndex(
        nodes(), kg_extractors=[extractor], llm=MockLLM(), embed_model=MockEmbedding(4), embed_kg_nodes=False
    )
    documents = Extractor.from_pretrained(model_folder)(TEXTS, thresholds=0.3, overlaps="flat")
    expected = {
        (r.head.text, r.label.replace("-", "_"), r.tail.text) for document in documents for r in document.relations
    }
    assert expected
    assert expected <= index.property_graph_store.graph.triplets


def test_async_gives_the_same(given):
    extractor = CascadePathExtractor(given)
    first, second = extractor(nodes()), asyncio.run(extractor.acall(nodes()))
    assert [node.metadata for node in first] == [node.metadata for node in second]


def test_component_is_stored_and_pickled(model_folder):
    extractor = CascadePathExtractor(str(model_folder), labels="Thing", label_map={"Thing": "Tool"})
    again = CascadePathExtractor.from_dict(extractor.to_dict())
    assert again.to_dict() == extractor.to_dict()
    copied = pickle.loads(pickle.dumps(extractor))
    (expected,), (found,), (unpickled,) = (each(nodes(TEXTS[:1])) for each in (extractor, again, copied))
    assert expected.metadata == found.metadata == unpickled.metadata
    assert {node.label for node in found.metadata[KG_NODES_KEY]} == {"Tool"}
    assert len(IngestionPipeline(transformations=[again]).run(nodes=nodes())) == len(TEXTS)


def test_bad_texts_and_options(given):
    with pytest.raises(SchemaError):
        CascadePathExtractor(given, labels=["Thin"])
    with pytest.raises(RuntimeError):
        CascadePathExtractor(given)(nodes(["broken"]))
    first, bad, last = CascadePathExtractor(given, on_error="skip")(nodes([TEXTS[0], "broken", TEXTS[2]]))
    assert [len(node.metadata[KG_NODES_KEY]) for node in (first, bad, last)] == [2, 0, 1]
