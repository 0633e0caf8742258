"""Operations of the explorer over HTTP: answers, tables, errors, security and static files."""

import csv
import io
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.graph.explorer.live_graph import live_graph
from tests.apps.graph.explorer.made_graph import MARKUP, node_id
from tests.apps.web.live_app import PATIENCE

from cascade_srn.apps.graph.explorer import app
from cascade_srn.apps.graph.explorer.app import MAX_CENTRES
from cascade_srn.apps.graph.explorer.evidence import draw_evidence, graph_schema
from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.apps.web.assets import page_assets
from cascade_srn.apps.web.middleware import HEADERS
from cascade_srn.apps.web.settings import ServeSettings

NER = node_id("named entity recognition")
PATHS = ("overview", "search", "node", "neighbourhood", "neighbourhood.csv", "evidence", "evidence.csv", "ranking")
PATHS += ("ranking.csv", "communities", "path", "triples", "triples.csv", "trends", "page.png")


def find_edge(explored):
    found = explored.get("/api/neighbourhood", params={"node": NER, "relation": "USED-FOR", "limit": 1}).json()
    return found["edges"][0]["edge"]


def read_table(answer):
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_answers_are_those_of_the_graph(explored, made_graph):
    graph = open_graph(made_graph)
    assert explored.get("/api/overview").json() == graph.overview
    assert explored.get("/api/search", params={"q": "ner"}).json() == {"nodes": graph.search("ner")}
    assert explored.get("/api/node", params={"node": NER}).json() == graph.describe(NER)
    found = explored.get("/api/neighbourhood", params={"node": NER, "limit": 5}).json()
    assert found == graph.neighbourhood([NER], limit=5)
    graph.close()


def test_filters_arrive(explored):
    wide = explored.get("/api/neighbourhood", params={"node": NER, "limit": 200}).json()
    chosen = {"node": NER, "limit": 200, "type": ["Method", "Metric"], "relation": "USED-FOR", "first_year": 2016}
    narrow = explored.get("/api/neighbourhood", params=chosen | {"last_year": 2023, "min_score": 0.4}).json()
    assert 0 < len(narrow["edges"]) < len(wide["edges"])
    assert {edge["label"] for edge in narrow["edges"]} == {"USED-FOR"}
    assert {node["label"] for node in narrow["nodes"]} == {"Method", "Task"}


def test_evidence_is_paged_and_drawn(explored):
    edge = find_edge(explored)
    first = explored.get("/api/evidence", params={"edge": edge, "limit": 2}).json()
    rest = explored.get("/api/evidence", params={"edge": edge, "limit": 100, "offset": 2}).json()
    assert len(first["evidence"]) == 2
    assert first["total"] == 2 + len(rest["evidence"])
    scores = [row["score"] for row in first["evidence"] + rest["evidence"]]
    assert scores == sorted(scores, reverse=True)
    assert first["evidence"][0]["drawing"].count("<figure") == 1
    assert "USED-FOR" in first["evidence"][0]["drawing"]


def test_rankings(explored):
    found = explored.get("/api/ranking", params={"node": NER, "relation": "USED-FOR", "type": "Method"}).json()
    counts = [row["n_documents"] for row in found["rows"]]
    assert counts == sorted(counts, reverse=True)
    assert found["total"] >= len(counts) > 3
    shared = explored.get("/api/ranking", params={"node": NER, "type": "Material"}).json()
    assert {row["label"] for row in shared["rows"]} == {"Material"}


def test_paths_triples_and_trends(explored, made_graph):
    crf = node_id("conditional random field")
    with open_graph(made_graph) as graph:
        found = explored.get("/api/path", params={"start": "NER", "end": crf, "limit": 2}).json()
        assert found == {"paths": graph.paths(NER, crf, limit=2)}
        assert found["paths"][0]["steps"][0]["evidence"][0]["sentence_text"]
        asked = {"tail": "ner", "head_type": "Method", "relation": "USED-FOR", "by_year": True, "limit": 2}
        rows = graph.triples(
            tail=NER, head_type="Method", filters=Filters(relations=("USED-FOR",)), by_year=True, limit=2
        )
        assert explored.get("/api/triples", params=asked).json() == {"triples": rows}
        table = read_table(explored.get("/api/triples.csv", params=asked))
        assert [(row["year"], row["head_name"]) for row in table] == [
            (str(row["year"]), row["head_name"]) for row in rows
        ]
        asked = {"node": ["NER", crf], "first_year": 2018}
        assert explored.get("/api/trends", params=asked).json()["trends"] == graph.trends(
            [NER, crf], Filters(first_year=2018)
        )
        assert explored.get("/api/communities").json() == graph.communities
    unknown = explored.get("/api/path", params={"start": "nothing like this", "end": crf})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_in_graph")


def test_spreadsheets_run_no_text_of_a_table():
    rows = [{"name": "=1+1", "n": -2, "score": -0.5}, {"name": "-0.5", "n": 1, "score": None}]
    answer = app._table("a.csv", ["name", "n", "score"], lambda: rows)
    assert answer.body == b"name,n,score\r\n'=1+1,-2,-0.5\r\n-0.5,1,\r\n"


def test_tables(explored):
    edges = read_table(explored.get("/api/neighbourhood.csv", params={"node": NER, "limit": 5}))
    found = explored.get("/api/neighbourhood", params={"node": NER, "limit": 5}).json()
    assert [(row["head"], row["label"], row["tail"], int(row["n"])) for row in edges] == [
        (edge["head"], edge["label"], edge["tail"], edge["n"]) for edge in found["edges"]
    ]
    ranking = read_table(explored.get("/api/ranking.csv", params={"type": "Method", "limit": 500}))
    assert MARKUP in [row["name"] for row in ranking]
    edge = find_edge(explored)
    evidence = read_table(explored.get("/api/evidence.csv", params={"edge": edge, "limit": 500}))
    assert len(evidence) == explored.get("/api/evidence", params={"edge": edge}).json()["total"]


@pytest.mark.parametrize(
    ("path", "parameters", "status"),
    [
        ("node", {"node": "nobody"}, 404),
        ("neighbourhood", {"node": [NER, "nobody"]}, 404),
        ("evidence", {"edge": 999_999}, 404),
        ("ranking", {"node": "nobody"}, 404),
        ("node", {}, 422),
        ("search", {}, 422),
        ("search", {"q": "a" * 2000}, 422),
        ("search", {"q": "a", "limit": 0}, 422),
        ("neighbourhood", {}, 422),
        ("neighbourhood", {"node": [str(number) for number in range(MAX_CENTRES + 1)]}, 422),
        ("neighbourhood", {"node": NER, "type": "Methods"}, 422),
        ("neighbourhood", {"node": NER, "min_score": "nan"}, 422),
        ("neighbourhood", {"node": NER, "min_count": "1.5"}, 422),
        ("neighbourhood", {"node": NER, "min_scores": 1}, 422),
        ("evidence", {"edge": 1 << 70}, 422),
        ("evidence", {"edge": 1, "offset": 1 << 70}, 422),
        ("ranking", {"relation": "USED-FOR"}, 422),
        ("ranking", {"node": NER, "direction": "both"}, 422),
        ("nothing", {}, 404),
    ],
)
def test_errors(explored, path, parameters, status):
    answer = explored.get(f"/api/{path}", params=parameters)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "problem", "hint"}


def test_a_misspelt_parameter_is_corrected(explored):
    answer = explored.get("/api/neighbourhood", params={"node": NER, "min_scores": 1})
    assert "min_score" in answer.json()["error"]["message"]


@pytest.mark.parametrize("text", ["\x00", "\u202e<b>", "😀", "%00", "'; DROP TABLE nodes; --", "a" * 1000, "\ud7ff"])
def test_strange_queries_find_nothing(explored, text):
    answer = explored.get("/api/search", params={"q": text})
    assert answer.status_code == 200
    assert answer.json() == {"nodes": []}


def test_security(explored):
    for path in ("/", "/api/overview", "/web/vendor/cytoscape.js", "/nothing"):
        headers = explored.get(path).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert explored.get("/api/overview", headers={"Host": "evil.example"}).status_code == 421


def test_the_key_is_needed_for_everything_about_the_graph(made_graph):
    with live_graph(made_graph, ServeSettings(port=0, api_key="secret")) as client:
        for path in PATHS:
            assert client.get(f"/api/{path}").status_code == 401
            assert client.get(f"/api/{path}", headers={"X-API-Key": "secret"}).status_code in (200, 422)
        assert client.get("/").status_code == client.get("/health").status_code == 200


def test_queries_are_not_logged(explored, caplog):
    with caplog.at_level(logging.DEBUG, logger="cascade_srn.apps.web"):
        explored.get("/api/search", params={"q": "a confidential name"})
        explored.get("/api/node", params={"node": "a confidential name"})
    assert any("/api/search" in message for message in caplog.messages)
    assert "confidential" not in caplog.text


def test_questions_at_work_are_limited(made_graph, monkeypatch):
    """Further ones wait for a moment and are refused. Other requests are answered."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def search(*_, **__):
        begun.release()
        assert go_on.wait(PATIENCE)
        return []

    monkeypatch.setattr(app, "TURN_SECONDS", 0.2)
    monkeypatch.setattr(Graph, "search", search)
    with live_graph(made_graph) as client, ThreadPoolExecutor(app.MAX_QUESTIONS) as pool:
        at_work = [pool.submit(client.get, "/api/search?q=a") for _ in range(app.MAX_QUESTIONS)]
        for _ in at_work:
            assert begun.acquire(timeout=PATIENCE)
        answer = client.get("/api/overview")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "graph_busy")
        assert answer.headers["retry-after"] == "2"
        assert client.get("/health").status_code == 200
        go_on.set()
        assert [one.result().status_code for one in at_work] == [200] * app.MAX_QUESTIONS
        assert client.get("/api/overview").status_code == 200


def test_every_operation_is_described(explored):
    description = explored.get("/openapi.json").json()
    assert set(description["paths"]) == {"/health", "/metrics", *(f"/api/{path}" for path in PATHS)}
    page = explored.get("/docs").text
    for path, methods in description["paths"].items():
        assert path in page
        for parameter in methods["get"].get("parameters", []):
            assert f"<code>{parameter['name']}</code>" in page


def test_static_files(explored):
    for path, asset in page_assets("graph/explorer/page").items():
        answer = explored.get("/" if path == "/index.html" else path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, asset.type), path
    for name in ("explorer/app.py", "app.py", "web/vendor/cytoscape.LICENSE.txt", "web/vendor/README.md", "index.html"):
        assert explored.get(f"/{name}").status_code == 404


ROW = {
    "sentence_text": "A CRF-tagger & NER.",
    "sentence_start": 100,
    "head_start": 102,
    "head_end": 105,
    "head_label": "Method",
    "tail_start": 115,
    "tail_end": 118,
    "tail_label": "Task",
    "score": 0.5,
}


@pytest.fixture(scope="module")
def schema():
    relations = [{"label": "USED-FOR", "symmetric": False}]
    return graph_schema({"types": [{"label": "Method"}, {"label": "Task"}], "relations": relations})


def test_a_drawing_shows_the_exact_offsets(schema):
    drawing = draw_evidence(ROW, "USED-FOR", schema)
    assert 'title="CRF: Method"' in drawing
    assert "CRF — USED-FOR → NER, score 0.50" in drawing


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sentence_text": None}, []),
        ({"sentence_text": "  "}, []),
        ({"tail_start": 130, "tail_end": 135}, ["CRF: Method"]),  # in another sentence
        ({"head_start": 2, "head_end": 5, "tail_start": 130, "tail_end": 135}, []),
        ({"tail_start": 102, "tail_end": 105, "tail_label": "Method"}, ["CRF: Method"]),
        ({"score": None}, ["CRF: Method", "NER: Task"]),
        ({"sentence_text": "A CRF-tagger & NER." + " more" * 5000}, ["CRF: Method", "NER: Task"]),
        ({"head_label": "Unknown"}, ["CRF: Unknown", "NER: Task"]),
    ],
)
def test_drawings_of_strange_evidence(schema, changes, expected):
    drawing = draw_evidence(ROW | changes, "USED-FOR", schema)
    assert re.findall(r'class="bar[^"]*opens[^>]*title="([^"]*)"', drawing) == expected
    assert len(drawing) < 100_000
