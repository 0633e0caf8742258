import asyncio

import pytest

pytest.importorskip("langchain_community")
from langchain_core.documents import Document as LangChainDocument
from langchain_core.load import dumps
from langchain_core.runnables import RunnableLambda
from tests.apps.integrations.models import TEXTS

from cascade_srn import Extractor
from cascade_srn.apps.integrations.langchain import CascadeGraphTransformer
from cascade_srn.errors import ConfigError, SchemaError

pytestmark = pytest.mark.slow
DOCUMENTS = [LangChainDocument(page_content=text, metadata={"n": n}) for n, text in enumerate(TEXTS)]


def test_graph_documents_have_the_predictions(given):
    (graph,) = CascadeGraphTransformer(given).convert_to_graph_documents(DOCUMENTS[:1])
    assert graph.source is DOCUMENTS[0] or graph.source == DOCUMENTS[0]
    assert [(node.id, node.type) for node in graph.nodes] == [("tagger", "Thing"), ("parsing", "Task")]
    assert graph.nodes[0].properties == {"starts": [2], "ends": [8], "score": 0.9}
    (relation,) = graph.relationships
    assert (relation.source.id, relation.type, relation.target.id) == ("tagger", "used_for", "parsing")
    assert relation.properties["sentence"] == TEXTS[0]


def test_results_of_a_model_equal_those_of_the_extractor(model_folder):
    graphs = CascadeGraphTransformer(str(model_folder), thresholds=0.3, overlaps="flat").convert_to_graph_documents(
        DOCUMENTS
    )
    documents = Extractor.from_pretrained(model_folder)(TEXTS, thresholds=0.3, overlaps="flat")
    assert [{node.id for node in g.nodes} for g in graphs] == [{e.text for e in d.entities} for d in documents]
    assert sum(len(d.relations) for d in documents)
    for graph, document in zip(graphs, documents, strict=True):
        n_mentions = [relation.properties["n_mentions"] for relation in graph.relationships]
        assert sum(n_mentions) == len(document.relations)
        assert dumps(graph)


def test_async_and_single_documents_give_the_same(given):
    transformer = CascadeGraphTransformer(given)
    expected = transformer.convert_to_graph_documents(DOCUMENTS)
    assert asyncio.run(transformer.aconvert_to_graph_documents(DOCUMENTS)) == expected
    assert [transformer.process_response(document) for document in DOCUMENTS] == expected
    assert asyncio.run(transformer.aprocess_response(DOCUMENTS[0])) == expected[0]
    assert RunnableLambda(transformer.convert_to_graph_documents).invoke(DOCUMENTS) == expected


def test_options(given):
    transformer = CascadeGraphTransformer(given, labels=["Thing"], label_map={"Thing": "Werkzeug"})
    (graph,) = transformer.convert_to_graph_documents(DOCUMENTS[:1])
    assert [(node.id, node.type) for node in graph.nodes] == [("tagger", "Werkzeug")]
    assert graph.relationships == []


def test_bad_options_are_refused_at_once(given):
    with pytest.raises(SchemaError):
        CascadeGraphTransformer(given, labels=["Thin"])
    with pytest.raises(ConfigError):
        CascadeGraphTransformer(given, thresholds={"Tusk": 0.3})


def test_bad_documents(given):
    documents = [*DOCUMENTS[:1], LangChainDocument(page_content="broken"), *DOCUMENTS[2:]]
    with pytest.raises(RuntimeError):
        CascadeGraphTransformer(given).convert_to_graph_documents(documents)
    graphs = CascadeGraphTransformer(given, on_error="skip").convert_to_graph_documents(documents)
    assert [graph.source for graph in graphs] == [documents[0], documents[2]]
