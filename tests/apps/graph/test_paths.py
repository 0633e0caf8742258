"""Shortest paths, compared with those of networkx."""

import random
from itertools import pairwise

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("networkx")

import networkx
from tests.apps.graph.large_graph import write_large_graph

from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.reader import NotInGraph
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.errors import ConfigError

NER, CRF, BERT, LSTM = "named-entity-recognition-task", "crf-method", "bert-crf-method", "lstm-method"


@pytest.fixture(scope="module")
def graph(sample_graph):
    with open_graph(sample_graph) as graph:
        yield graph


def nodes_of(paths):
    return [[node["node"] for node in path["nodes"]] for path in paths]


def test_a_path_has_its_edges_and_sentences(graph):
    (path,) = graph.paths("LSTM", "NER")
    assert nodes_of([path]) == [[LSTM, BERT, NER]]
    first, second = path["steps"]
    assert (first["label"], first["symmetric"], first["evidence"][0]["document_id"]) == ("COMPARE", True, "2020.b")
    assert (second["head_name"], second["tail_name"]) == ("BERT-CRF", "named entity recognition")
    assert second["evidence"][0]["sentence_text"] == "NER with BERT-CRF is compared with an LSTM."
    assert "evidence" not in graph.paths("LSTM", "NER", evidence=0)[0]["steps"][0]


def test_paths_obey_filters(graph):
    assert nodes_of(graph.paths(LSTM, NER, without=["BERT-CRF"])) == []
    assert nodes_of(graph.paths(BERT, NER, Filters(last_year=2019))) == [[BERT, CRF, NER]]
    assert nodes_of(graph.paths(LSTM, CRF, Filters(relations=("COMPARE", "USED-FOR")))) == [[LSTM, BERT, NER, CRF]]
    assert graph.paths(LSTM, CRF, Filters(relations=("COMPARE", "USED-FOR"), types=("Method",))) == []
    assert graph.paths(LSTM, NER, max_length=1) == []
    assert graph.paths(LSTM, NER, Filters(min_count=2)) == []


def test_mistakes_are_reported(graph):
    with pytest.raises(ConfigError):
        graph.paths(LSTM, "lstm")
    with pytest.raises(ConfigError):
        graph.paths(LSTM, NER, max_length=0)
    with pytest.raises(ConfigError):
        graph.paths(LSTM, NER, Filters(relations=("USED",)))
    with pytest.raises(NotInGraph):
        graph.paths(LSTM, "nothing")


def test_paths_are_the_shortest_and_the_best_of_these(tmp_path):
    rng = random.Random(3)
    with open_graph(write_large_graph(tmp_path / "large", 400)) as graph:
        filters = Filters(relations=("PART-OF",), min_count=2)
        rows = graph.query("SELECT head, tail, n_documents FROM edges WHERE label = 'PART-OF' AND n >= 2")
        expected = networkx.Graph()
        expected.add_nodes_from(row["node"] for row in graph.query("SELECT node FROM nodes"))
        for row in rows:
            n = max(row["n_documents"], expected.get_edge_data(row["head"], row["tail"], {"n": 0})["n"])
            expected.add_edge(row["head"], row["tail"], n=n)
        lengths = set()
        for _ in range(40):
            start, end = rng.sample(sorted(expected), 2)
            found = graph.paths(start, end, filters, max_length=8, limit=4, evidence=0)
            if not networkx.has_path(expected, start, end):
                assert found == []
                continue
            every = list(networkx.all_shortest_paths(expected, start, end))
            if len(every[0]) - 1 > 8:
                assert found == []
                continue
            lengths.add(found[0]["length"])

            def rank(nodes):
                weights = [expected.edges[pair]["n"] for pair in pairwise(nodes)]
                return -min(weights), -sum(weights)

            ours = nodes_of(found)
            assert all(nodes in every for nodes in ours)
            assert len(ours) == len({tuple(nodes) for nodes in ours}) == min(4, len(every))
            assert [rank(nodes) for nodes in ours] == sorted(rank(nodes) for nodes in every)[:4]
        assert len(lengths) > 3
