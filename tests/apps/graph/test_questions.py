"""Questions to a graph: answers for the sample graph, filters, bounds, and the use of indexes."""

import json
import random
import threading
from collections import defaultdict
from functools import partial

import pytest

pytest.importorskip("duckdb")

from tests.apps.graph.documents import DOCUMENTS, document, write_lines
from tests.apps.graph.large_graph import write_large_graph
from tests.apps.graph.random_documents import random_document

from cascade_srn.apps.graph import GraphSettings, build
from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.reader import NotInGraph
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.errors import ConfigError, DataError

NER, CRF, BERT, LSTM = "named-entity-recognition-task", "crf-method", "bert-crf-method", "lstm-method"


@pytest.fixture(scope="module")
def graph(sample_graph):
    opened = open_graph(sample_graph)
    yield opened
    opened.close()


def names(rows):
    return [row["node"] for row in rows]


def edge_numbers(rows):
    return {row["edge"] for row in rows}


def test_overview(graph, sample_graph):
    found = graph.overview
    assert (found["n_nodes"], found["n_edges"], found["n_evidence"], found["n_documents"]) == (5, 6, 6, 3)
    assert found["name"] == sample_graph.name
    assert found["types"] == [{"label": "Method", "n": 4}, {"label": "Task", "n": 1}]
    assert [(row["label"], row["symmetric"]) for row in found["relations"]] == [
        ("COMPARE", True),
        ("PART-OF", False),
        ("USED-FOR", False),
    ]
    assert found["years"] == {"first": 2019, "last": 2020}
    assert names(found["best"])[0] == BERT


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("named entity recognition", [NER]),
        ("NER", [NER]),  # another form in the texts
        ("ent", [NER]),  # the beginning of a word
        ("recognition named", [NER]),
        ("bert crf", [BERT, "b-bert-crf-b-method"]),  # the exact name first
        ("bert–CRF", [BERT, "b-bert-crf-b-method"]),
        ("crf", [CRF, BERT, "b-bert-crf-b-method"]),
        ("ertcrf", []),
        ("<b>", ["b-bert-crf-b-method"]),
        ("%", []),
        ("_", []),
        ("", []),
        ("  - ", []),
        ("' OR 1=1 --", []),
    ],
)
def test_search(graph, query, expected):
    assert names(graph.search(query)) == expected


def test_search_by_type_and_limit(graph):
    assert names(graph.search("n", types=["Task"])) == [NER]
    assert graph.search("ner", types=["Method"]) == []
    assert len(graph.search("crf", limit=2)) == 2
    assert graph.search("ner")[0]["form"] == "NER"
    with pytest.raises(ConfigError):
        graph.search("crf", limit=0)


def test_node(graph):
    found = graph.describe(NER)
    assert found["name"] == "named entity recognition"
    assert [(row["text"], row["n"]) for row in found["forms"]] == [("NER", 2), ("named entity recognition", 1)]
    assert [(row["text"], row["step"]) for row in found["merges"]] == [("NER", "acronym")]
    assert found["relations"] == [{"label": "USED-FOR", "direction": "in", "n_edges": 2, "n": 2}]
    assert found["votes"] == {"Task": pytest.approx(2.7)}
    # A symmetric relation has no direction, whichever end the node is.
    assert graph.describe(LSTM)["relations"] == [{"label": "COMPARE", "direction": "both", "n_edges": 2, "n": 2}]
    with pytest.raises(NotInGraph):
        graph.describe("nobody")


def test_neighbourhood(graph):
    found = graph.neighbourhood([NER])
    assert set(names(found["nodes"])) == {NER, CRF, BERT}
    # Edges between the two neighbours are there, too.
    assert edge_numbers(found["edges"]) == {2, 3, 4, 5}
    assert found["centres"] == [{"node": NER, "n_edges": 2, "n_shown": 2}]


def test_neighbourhood_of_several_nodes(graph):
    found = graph.neighbourhood([NER, LSTM, NER])
    assert len(found["nodes"]) == 5
    assert edge_numbers(found["edges"]) == set(range(6))
    assert [row["node"] for row in found["centres"]] == [NER, LSTM]
    with pytest.raises(NotInGraph):
        graph.neighbourhood([NER, "nobody"])


def test_the_best_edges_come_first(graph):
    found = graph.neighbourhood([BERT], limit=1)
    assert found["centres"] == [{"node": BERT, "n_edges": 4, "n_shown": 1}]
    # With the second edge between the same two nodes.
    assert [row["edge"] for row in found["edges"]] == [4, 2]
    assert found["edges"][0]["best_score"] == 0.8


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(relations=("PART-OF",)), {2, 4}),
        (Filters(relations=("PART-OF", "USED-FOR")), {2, 3, 4}),
        (Filters(types=("Task",)), {3}),
        (Filters(min_score=0.75), {3, 4}),
        (Filters(min_score=0.8), {4}),  # equal in single precision
        (Filters(min_score=1), set()),
        (Filters(min_count=2), set()),
        (Filters(first_year=2020), {1, 3}),
        (Filters(last_year=2019), {4}),
        (Filters(first_year=2020, last_year=2019), set()),
        (Filters(first_year=0), {1, 3, 4}),  # evidence without a date has no year
    ],
)
def test_filters(graph, filters, expected):
    found = graph.neighbourhood([BERT], filters)
    assert {row["edge"] for row in found["edges"] if BERT in (row["head"], row["tail"])} == expected
    assert found["centres"][0]["n_edges"] == len(expected)
    assert BERT in names(found["nodes"])


@pytest.mark.parametrize(
    "filters",
    [{"min_score": -0.1}, {"min_score": 2.0}, {"min_count": 0}, {"first_year": -1}, {"last_year": 10_000}],
)
def test_invalid_filters(filters):
    with pytest.raises(ConfigError):
        Filters(**filters)


@pytest.mark.parametrize("filters", [Filters(types=("Methods",)), Filters(relations=("' OR 1=1",))])
def test_unknown_labels(graph, filters):
    with pytest.raises(ConfigError):
        graph.neighbourhood([BERT], filters)


def test_evidence(graph):
    (row,) = graph.evidence(3)
    assert row["total"] == 1
    assert (row["document_id"], row["title"], row["date"]) == ("2020.b", "Paper 2020.b", "2020")
    assert row["sentence_text"][row["head_start"] : row["head_end"]] == row["head_text"] == "BERT-CRF"
    assert (row["head_label"], row["tail_label"]) == ("Method", "Task")
    assert (graph.edge(3)["head_name"], graph.edge(3)["tail_label"]) == ("BERT-CRF", "Task")
    assert graph.evidence(3, Filters(last_year=2019)) == []
    assert graph.evidence(3, Filters(min_score=0.76)) == []
    with pytest.raises(NotInGraph):
        graph.evidence(99)


def test_ranking_of_all_nodes(graph):
    assert names(graph.ranking(type="Method")["rows"]) == [BERT, CRF, LSTM, "b-bert-crf-b-method"]
    found = graph.ranking(type="Method", filters=Filters(last_year=2019))
    assert [(row["node"], row["n_documents"], row["n"]) for row in found["rows"]] == [(CRF, 1, 2), (BERT, 1, 1)]
    second = graph.ranking(limit=2, offset=2)
    assert (second["total"], len(second["rows"])) == (5, 2)


def test_ranking_by_relation(graph):
    found = graph.ranking(node=NER, relation="USED-FOR")
    assert [(row["node"], row["best_score"], row["edge"]) for row in found["rows"]] == [(BERT, 0.75, 3), (CRF, 0.9, 5)]
    assert graph.ranking(node=NER, relation="USED-FOR", direction="out")["rows"] == []
    assert names(graph.ranking(node=CRF, relation="USED-FOR", direction="out")["rows"]) == [NER]
    # A symmetric relation is found from both ends.
    for direction in ("in", "out"):
        assert names(graph.ranking(node=BERT, relation="COMPARE", direction=direction)["rows"]) == [LSTM]


def test_ranking_by_shared_documents(graph):
    found = graph.ranking(node=NER, type="Method")
    assert [(row["node"], row["n_documents"]) for row in found["rows"]] == [(BERT, 2), (CRF, 1), (LSTM, 1)]
    found = graph.ranking(node=NER, type="Method", filters=Filters(first_year=2020))
    assert names(found["rows"]) == [BERT, LSTM]


@pytest.mark.parametrize(
    "arguments",
    [
        {"type": "Methods"},
        {"relation": "USED-FOR"},
        {"node": NER, "relation": "USED"},
        {"node": NER, "direction": "both"},
        {"offset": -1},
        {"limit": 0},
    ],
)
def test_invalid_rankings(graph, arguments):
    with pytest.raises(ConfigError):
        graph.ranking(**arguments)


def ends(rows):
    return [(row["head"], row["label"], row["tail"]) for row in rows]


def test_triples_by_name_and_type(graph):
    used = (BERT, "USED-FOR", NER), (CRF, "USED-FOR", NER)
    assert ends(graph.triples(tail="NER")) == [used[1], used[0]]  # the best score first
    assert ends(graph.triples(head="bert crf", tail="NER")) == [used[0]]
    assert ends(graph.triples(tail="*entity*", head_type="Method")) == [used[1], used[0]]
    assert ends(graph.triples(head="*crf*", filters=Filters(relations=("USED-FOR",)))) == [used[1], used[0]]
    assert ends(graph.triples(tail="*entity*", head="Method")) == [used[1], used[0]]  # a type of the schema
    assert ends(graph.triples(head_type="Task")) == []
    assert ends(graph.triples(tail_type="Task", limit=1)) == [used[1]]
    assert len(graph.triples()) == 6
    (row,) = graph.triples(head=BERT, tail=NER, evidence=2)
    assert (row["head_name"], row["tail_name"], row["tail_label"]) == ("BERT-CRF", "named entity recognition", "Task")
    assert [(one["document_id"], one["title"]) for one in row["evidence"]] == [("2020.b", "Paper 2020.b")]


def test_symmetric_triples_are_found_from_both_ends(graph):
    assert ends(graph.triples(head=LSTM)) == [(LSTM, "COMPARE", BERT), (LSTM, "COMPARE", "b-bert-crf-b-method")]
    assert ends(graph.triples(head=BERT, tail=LSTM)) == [(BERT, "COMPARE", LSTM)]
    assert ends(graph.triples(tail="*lstm*")) == ends(graph.triples(tail=LSTM))
    # Both directions match, and the edge is there once.
    assert len(graph.triples(head_type="Method", tail_type="Method", filters=Filters(relations=("COMPARE",)))) == 2


def test_triples_by_year(graph):
    rows = graph.triples(by_year=True, evidence=1)
    assert [(row["year"], row["edge"]) for row in rows] == [(2019, 5), (2019, 4), (2020, 3), (2020, 1)]
    assert [row["evidence"][0]["date"] for row in rows] == ["2019", "2019", "2020", "2020"]
    assert [row["edge"] for row in graph.triples(by_year=True, limit=1)] == [5, 3]
    assert [row["edge"] for row in graph.triples(by_year=True, filters=Filters(first_year=2020))] == [3, 1]


def test_trends(graph):
    rows = graph.trends(["NER", "CRF"])
    assert [(row["node"], row["year"], row["n_documents"], row["n_all"], row["share"]) for row in rows] == [
        (NER, 2019, 1, 1, 1.0),
        (NER, 2020, 1, 1, 1.0),
        (CRF, 2019, 1, 1, 1.0),
        (CRF, 2020, 0, 1, 0.0),
    ]
    assert [row["year"] for row in graph.trends(["NER"], Filters(first_year=2020))] == [2020]


def test_a_graph_without_years_says_so(tmp_path):
    build(write_lines(DOCUMENTS, tmp_path / "in.jsonl"), tmp_path / "graph")
    with open_graph(tmp_path / "graph") as graph:
        assert graph.overview["years"] is None
        for ask in (partial(graph.trends, ["CRF"]), partial(graph.triples, by_year=True)):
            with pytest.raises(DataError) as caught:
                ask()
            assert caught.value.option == "date_field"


def test_names_are_resolved(tmp_path):
    names = ["MAP", "map", "Map of Words", "Rouge", "ROUGE"]
    texts = [(f"The [{name}/M] is here .", []) for name in names]
    texts += [("[mAP/D] is here .", [])]
    settings = GraphSettings(text=False, types=False, acronyms=False)
    build(write_lines([document("a", *texts)], tmp_path / "in.jsonl"), tmp_path / "graph", settings)
    with open_graph(tmp_path / "graph") as graph:
        by_name = {row["name"]: row["node"] for row in graph.query("SELECT node, name FROM nodes")}
        for name in names:
            assert graph.resolve(name) == by_name[name] == graph.resolve(by_name[name])
        assert graph.resolve("maP", types=["Material"]) == by_name["mAP"]
        with pytest.raises(NotInGraph) as caught:
            graph.resolve("Map", types=["Method"])
        assert by_name["MAP"] in caught.value.hint
        assert by_name["map"] in caught.value.hint
        with pytest.raises(NotInGraph) as caught:
            graph.resolve("rogue")
        assert by_name["ROUGE"] in caught.value.hint
        with pytest.raises(NotInGraph) as caught:
            graph.resolve("method")
        assert "entity type" in caught.value.hint


def test_communities(tmp_path):
    """Two groups of entities that one relation connects."""
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("y", "z"), ("x", "z"), ("c", "x")]
    texts = [(f"[node{one}/M] helps [node{two}/M] .", [(0, "USED-FOR", 1, 0.9)]) for one, two in pairs]
    build(write_lines([document("d", *texts)], tmp_path / "in.jsonl"), tmp_path / "graph")
    with open_graph(tmp_path / "graph") as graph:
        found = graph.communities
    assert sorted(sorted(row["names"]) for row in found["communities"]) == [
        ["nodea", "nodeb", "nodec"],
        ["nodex", "nodey", "nodez"],
    ]
    assert [row["n_nodes"] for row in found["communities"]] == [3, 3]
    assert len(found["nodes"]) == 6
    assert len(found["edges"]) == 7


def test_threads_do_not_disturb_each_other(graph):
    expected = graph.neighbourhood([BERT])
    wrong = []

    def ask():
        for _ in range(5):
            if graph.neighbourhood([BERT]) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_folder_with_quotes_in_its_name(sample_graph, tmp_path):
    folder = tmp_path / 'it\'s "odd"'
    folder.mkdir()
    for name in ("graph.json", "graph.duckdb"):
        (folder / name).write_bytes((sample_graph / name).read_bytes())
    opened = open_graph(folder)
    assert opened.overview["n_nodes"] == 5
    opened.close()


class Profiled(Graph):
    """Records the kind of scan of each table, as DuckDB reports it."""

    scans: set

    def _run(self, sql, values):
        with self._connection.cursor() as cursor:
            cursor.execute("USE graph")
            plan = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}", values or None).fetchall()[0][1]
        self.scans |= set(find_scans(json.loads(plan)))
        return super()._run(sql, values)


def find_scans(plan):
    if isinstance(plan, list):
        for part in plan:
            yield from find_scans(part)
    elif isinstance(plan, dict):
        about = plan.get("extra_info")
        if isinstance(about, dict) and "Table" in about:
            yield about["Table"].rpartition(".")[2], about.get("Type")
        yield from find_scans([value for name, value in plan.items() if name != "extra_info"])


@pytest.mark.parametrize("n_nodes", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_questions_about_a_node_use_indexes(tmp_path, n_nodes):
    folder = write_large_graph(tmp_path / "large", n_nodes)
    graph = open_graph(folder)
    opened = Profiled(folder, graph.record, graph._connection)
    opened.scans = set()
    assert opened.overview["n_edges"] == 3 * n_nodes
    opened.scans = set()
    filters = Filters(types=("Task",), relations=("USED-FOR", "COMPARE"), min_score=0.4, min_count=1)
    opened.describe("node-77")
    found = opened.neighbourhood(["node-77", "node-78"], filters)
    assert len(found["nodes"]) > 2
    opened.evidence(found["edges"][0]["edge"], filters)
    opened.ranking(node="node-77", relation="COMPARE", filters=filters)
    assert opened.triples(head="node-77", evidence=1)
    assert opened.triples(tail="node-78", filters=Filters(min_score=0.4))
    near = opened.neighbours("node-77", Filters(min_count=2), evidence=1)[0]["neighbour"]
    far = next(row["neighbour"] for row in opened.neighbours(near) if row["neighbour"] != "node-77")
    assert opened.paths("node-77", far)[0]["length"] <= 2
    opened.trends(["node-77"])
    # The small tables may be scanned in joins. Edges, evidence and mentions are not.
    scanned = {table for table, kind in opened.scans if kind != "Index Scan"}
    assert scanned <= {"documents", "merges", "nodes"}, opened.scans
    assert {table for table, _ in opened.scans} - scanned >= {"edges", "evidence", "mentions"}
    # A node with very many edges gives no larger answer.
    hub = opened.neighbourhood(["node-0"])
    assert hub["centres"][0]["n_edges"] > n_nodes // 20
    assert len(hub["nodes"]) <= 26
    opened.close()


def test_counts_of_years_are_those_of_the_evidence(tmp_path):
    rng = random.Random(5)
    documents = [random_document(rng, rng.choice(("", "2019.", "2020.", "2021.")) + f"d{n}") for n in range(60)]
    settings = GraphSettings(date_field="id", date_pattern=r"^\d{4}")
    build(write_lines(documents, tmp_path / "documents.jsonl"), tmp_path / "graph", settings)
    with open_graph(tmp_path / "graph") as graph:
        evidence = graph.query("SELECT edge, document, date AS year, score, date FROM evidence WHERE date IS NOT NULL")
        mentions = graph.query("SELECT node, document, date FROM mentions JOIN documents USING (document)")
        hubs = names(graph.query("SELECT node FROM nodes ORDER BY degree DESC, node LIMIT 5"))
        columns = ("n", "n_documents", "best_score", "mean_score", "first_date", "last_date")
        for first, last in ((2019, 2021), (2019, 2019), (2020, 2021), (2000, 2001)):
            filters = Filters(first_year=first, last_year=last)
            proof = [row for row in evidence if first <= int(row["year"]) <= last]
            expected = count_evidence(proof, lambda row: (int(row["year"]), row["edge"]))
            found = graph.triples(filters=filters, by_year=True, limit=None)
            assert {(row["year"], row["edge"]): tuple(row[name] for name in columns) for row in found} == expected
            expected = count_evidence(proof, lambda row: row["edge"])
            found = graph.neighbourhood(hubs, filters, limit=1000)["edges"]
            assert {row["edge"]: tuple(row[name] for name in columns) for row in found}.items() <= expected.items()
            own = [row for row in mentions if row["date"] and first <= int(row["date"]) <= last]
            expected = count_evidence(own, lambda row: row["node"])
            for offset in (0, 7):
                found = graph.ranking(filters=filters, limit=1000, offset=offset)["rows"]
                counted = {row["node"]: tuple(row[name] for name in columns if name != "mean_score") for row in found}
                assert counted.items() <= {node: (*row[:3], *row[4:]) for node, row in expected.items()}.items()
                assert len(found) == max(0, len(expected) - offset)


def count_evidence(rows, key):
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    counted = {}
    for name, group in groups.items():
        scores = [row["score"] for row in group if row.get("score") is not None]
        best, mean = (round(max(scores), 6), round(sum(scores) / len(scores), 6)) if scores else (None, None)
        dates = sorted(row["date"] for row in group)
        counted[name] = (len(group), len({row["document"] for row in group}), best, mean, dates[0], dates[-1])
    return counted
