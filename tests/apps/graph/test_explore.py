"""Questions of the explorer: answers for the sample graph, filters, bounds, and the use of indexes."""

import json
import threading

import pytest

pytest.importorskip("duckdb")

from tests.apps.graph.large_graph import write_large_graph

from cascade_srn.apps.graph.explore import MAX_CENTRES, Explorer, NotInGraph
from cascade_srn.apps.graph.explore_sql import Filters
from cascade_srn.errors import ConfigError, DataError

NER, CRF, BERT, LSTM = "named-entity-recognition-task", "crf-method", "bert-crf-method", "lstm-method"


@pytest.fixture(scope="module")
def explorer(sample_graph):
    opened = Explorer(sample_graph)
    yield opened
    opened.close()


def names(rows):
    return [row["node"] for row in rows]


def edge_numbers(rows):
    return {row["edge"] for row in rows}


def test_overview(explorer, sample_graph):
    found = explorer.overview
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
def test_search(explorer, query, expected):
    assert names(explorer.search(query)) == expected


def test_search_by_type_and_limit(explorer):
    assert names(explorer.search("n", types=["Task"])) == [NER]
    assert explorer.search("ner", types=["Method"]) == []
    assert len(explorer.search("crf", limit=2)) == 2
    assert explorer.search("ner")[0]["form"] == "NER"
    with pytest.raises(ConfigError):
        explorer.search("crf", limit=0)


def test_node(explorer):
    found = explorer.node(NER)
    assert found["name"] == "named entity recognition"
    assert [(row["text"], row["n"]) for row in found["forms"]] == [("NER", 2), ("named entity recognition", 1)]
    assert [(row["text"], row["step"]) for row in found["merges"]] == [("NER", "acronym")]
    assert found["relations"] == [{"label": "USED-FOR", "direction": "in", "n_edges": 2, "n": 2}]
    assert found["votes"] == {"Task": pytest.approx(2.7)}
    # A symmetric relation has no direction, whichever end the node is.
    assert explorer.node(LSTM)["relations"] == [{"label": "COMPARE", "direction": "both", "n_edges": 2, "n": 2}]
    with pytest.raises(NotInGraph):
        explorer.node("nobody")


def test_neighbourhood(explorer):
    found = explorer.neighbourhood([NER])
    assert set(names(found["nodes"])) == {NER, CRF, BERT}
    # Edges between the two neighbours are there, too.
    assert edge_numbers(found["edges"]) == {2, 3, 4, 5}
    assert found["centres"] == [{"node": NER, "n_edges": 2, "n_shown": 2}]


def test_neighbourhood_of_several_nodes(explorer):
    found = explorer.neighbourhood([NER, LSTM, NER])
    assert len(found["nodes"]) == 5
    assert edge_numbers(found["edges"]) == set(range(6))
    assert [row["node"] for row in found["centres"]] == [NER, LSTM]
    with pytest.raises(ConfigError):
        explorer.neighbourhood([f"n{number}" for number in range(MAX_CENTRES + 1)])
    with pytest.raises(NotInGraph):
        explorer.neighbourhood([NER, "nobody"])


def test_the_best_edges_come_first(explorer):
    found = explorer.neighbourhood([BERT], limit=1)
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
def test_filters(explorer, filters, expected):
    found = explorer.neighbourhood([BERT], filters)
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
def test_unknown_labels(explorer, filters):
    with pytest.raises(ConfigError):
        explorer.neighbourhood([BERT], filters)


def test_evidence(explorer):
    found = explorer.evidence(3)
    assert found["total"] == 1
    (row,) = found["evidence"]
    assert (row["document_id"], row["title"], row["date"]) == ("2020.b", "Paper 2020.b", "2020")
    assert row["sentence_text"][row["head_start"] : row["head_end"]] == row["head_text"] == "BERT-CRF"
    assert (row["head_label"], row["tail_label"]) == ("Method", "Task")
    assert (found["edge"]["head_name"], found["edge"]["tail_label"]) == ("BERT-CRF", "Task")
    assert explorer.evidence(3, Filters(last_year=2019))["evidence"] == []
    assert explorer.evidence(3, Filters(min_score=0.76))["total"] == 0
    with pytest.raises(NotInGraph):
        explorer.evidence(99)


def test_ranking_of_all_nodes(explorer):
    assert names(explorer.ranking(type="Method")["rows"]) == [BERT, CRF, LSTM, "b-bert-crf-b-method"]
    found = explorer.ranking(type="Method", filters=Filters(last_year=2019))
    assert [(row["node"], row["n_documents"], row["n"]) for row in found["rows"]] == [(CRF, 1, 2), (BERT, 1, 1)]
    second = explorer.ranking(limit=2, offset=2)
    assert (second["total"], len(second["rows"])) == (5, 2)


def test_ranking_by_relation(explorer):
    found = explorer.ranking(node=NER, relation="USED-FOR")
    assert [(row["node"], row["best_score"], row["edge"]) for row in found["rows"]] == [(BERT, 0.75, 3), (CRF, 0.9, 5)]
    assert explorer.ranking(node=NER, relation="USED-FOR", direction="out")["rows"] == []
    assert names(explorer.ranking(node=CRF, relation="USED-FOR", direction="out")["rows"]) == [NER]
    # A symmetric relation is found from both ends.
    for direction in ("in", "out"):
        assert names(explorer.ranking(node=BERT, relation="COMPARE", direction=direction)["rows"]) == [LSTM]


def test_ranking_by_shared_documents(explorer):
    found = explorer.ranking(node=NER, type="Method")
    assert [(row["node"], row["n_documents"]) for row in found["rows"]] == [(BERT, 2), (CRF, 1), (LSTM, 1)]
    found = explorer.ranking(node=NER, type="Method", filters=Filters(first_year=2020))
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
def test_invalid_rankings(explorer, arguments):
    with pytest.raises(ConfigError):
        explorer.ranking(**arguments)


def test_threads_do_not_disturb_each_other(explorer):
    expected = explorer.neighbourhood([BERT])
    wrong = []

    def ask():
        for _ in range(5):
            if explorer.neighbourhood([BERT]) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_folders_without_a_graph(tmp_path, sample_graph):
    with pytest.raises(DataError):
        Explorer(tmp_path)
    (tmp_path / "graph.json").write_text((sample_graph / "graph.json").read_text())
    with pytest.raises(DataError):
        Explorer(tmp_path)
    (tmp_path / "graph.duckdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(DataError):
        Explorer(tmp_path)


def test_a_folder_with_quotes_in_its_name(sample_graph, tmp_path):
    folder = tmp_path / 'it\'s "odd"'
    folder.mkdir()
    for name in ("graph.json", "graph.duckdb"):
        (folder / name).write_bytes((sample_graph / name).read_bytes())
    opened = Explorer(folder)
    assert opened.overview["n_nodes"] == 5
    opened.close()


class Profiled(Explorer):
    """Records the kind of scan of each table, as DuckDB reports it."""

    scans: set

    def _query(self, sql, **values):
        with self._database.cursor() as cursor:
            plan = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}", values or None).fetchall()[0][1]
        self.scans |= set(find_scans(json.loads(plan)))
        return super()._query(sql, **values)


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
    opened = Profiled(write_large_graph(tmp_path / "large", n_nodes))
    opened.scans = set()
    assert opened.overview["n_edges"] == 3 * n_nodes
    opened.scans = set()
    filters = Filters(types=("Task",), relations=("USED-FOR", "COMPARE"), min_score=0.4, min_count=1)
    opened.node("node-77")
    found = opened.neighbourhood(["node-77", "node-78"], filters)
    assert len(found["nodes"]) > 2
    opened.evidence(found["edges"][0]["edge"], filters)
    opened.ranking(node="node-77", relation="COMPARE", filters=filters)
    # The small tables may be scanned in joins. Edges, evidence and mentions are not.
    scanned = {table for table, kind in opened.scans if kind != "Index Scan"}
    assert scanned <= {"documents", "merges", "nodes"}
    assert {table for table, _ in opened.scans} - scanned >= {"edges", "evidence", "mentions"}
    # A node with very many edges gives no larger answer.
    hub = opened.neighbourhood(["node-0"])
    assert hub["centres"][0]["n_edges"] > n_nodes // 20
    assert len(hub["nodes"]) <= 26
    opened.close()
