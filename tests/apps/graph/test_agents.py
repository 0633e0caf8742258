"""The server for agents, asked by the client of the official SDK: in the process, over standard input and over HTTP."""

import asyncio
import os
import sys

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("mcp")

import httpx
from mcp import Client, StdioServerParameters
from tests.apps.web.live_app import run_app
from tests.small_models import small_model

from cascade_srn.apps.graph.agents import create_agent_app, create_agent_server
from cascade_srn.apps.graph.safe_sql import SafeSql
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.extractor import Extractor

NER, BERT = "named-entity-recognition-task", "bert-crf-method"
TOOLS = {"extract", "search", "node", "neighbours", "path", "triples", "evidence", "sql"}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "small"
    small_model().save(folder)
    return folder


@pytest.fixture
def server(sample_graph, model_folder):
    graph, sql = open_graph(sample_graph), SafeSql(sample_graph, seconds=0.5)
    yield create_agent_server(lambda: Extractor.from_pretrained(model_folder), graph, sql)
    graph.close()
    sql.close()


def talk(server, *calls):
    """Call tools in one session. Return the names of all tools, the instructions and the results."""

    async def run():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, client.instructions, [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(run())


def answers(server, *calls):
    results = talk(server, *calls)[2]
    assert not any(result.is_error for result in results), results
    return [result.structured_content for result in results]


def test_tools_are_described(server):
    tools, instructions, _ = talk(server)
    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)
    assert "USED-FOR" in instructions
    assert "2019 to 2020" in instructions


def test_answers_can_be_cited(server):
    found, node, near, path, triples, proof = answers(
        server,
        ("search", {"text": "ner"}),
        ("node", {"node": "NER"}),
        ("neighbours", {"node": "NER", "relations": ["USED-FOR"]}),
        ("path", {"start": "LSTM", "end": NER}),
        ("triples", {"tail": "NER", "head_type": "Method", "limit": 1}),
        ("evidence", {"edge": 3}),
    )
    assert found["nodes"][0]["node"] == node["node"] == NER
    assert {quote["document_id"] for quote in node["quotes"]} == {"2019.a", "2020.b"}
    assert all(quote["text"] in quote["quote"] for quote in node["quotes"])
    assert (near["total"], len(near["edges"])) == (2, 2)
    assert path["paths"][0]["nodes"] == ["LSTM", "BERT-CRF", "named entity recognition"]
    assert proof["total"] == 1
    cited = [near["edges"][0], path["paths"][0]["steps"][1], triples["triples"][0]]
    for row in [*proof["evidence"], *(row["evidence"][0] for row in cited)]:
        assert row["document_id"]
        assert row["head_text"] in row["sentence_text"]


def test_extract(server):
    (found,) = answers(server, ("extract", {"text": "We train a CRF for NER.", "id": "mine"}))
    assert found["id"] == "mine"
    assert found["text"] == "We train a CRF for NER."
    assert "entities" in found


def test_mistakes_are_messages(server):
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE hash(a.range, b.range) = 1"
    calls = (
        ("node", {"node": "nothing at all"}),
        ("path", {"start": "LSTM", "end": "lstm"}),
        ("triples", {"relations": ["USED"]}),
        ("neighbours", {"node": NER, "limit": 0}),
        ("evidence", {"edge": 99}),
        ("sql", {"query": "DROP TABLE nodes"}),
        ("sql", {"query": endless}),
        ("nothing", {}),
    )
    results = talk(server, *calls)[2]
    assert all(result.is_error for result in results)
    texts = [result.content[0].text for result in results]
    assert "no node has the name" in texts[0]
    assert "USED-FOR" in texts[2]
    assert "0.5 s" in texts[6]


def test_sql(server):
    (found,) = answers(server, ("sql", {"query": "SELECT count(*) AS n FROM edges", "limit": 5}))
    assert found == {"rows": [{"n": 6}], "truncated": False}


def test_without_a_graph(model_folder):
    tools, _, _ = talk(create_agent_server(lambda: Extractor.from_pretrained(model_folder)))
    assert [tool.name for tool in tools] == ["extract"]


@pytest.mark.slow
def test_over_standard_input(sample_graph, model_folder, tmp_path):
    options = ("mcp", "--graph", sample_graph, "--model", model_folder)
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "cascade_srn", *map(str, options)], cwd=tmp_path, env=dict(os.environ)
    )
    tools, _, results = talk(
        command, ("extract", {"text": "A CRF is a model."}), ("triples", {"head": "CRF"}), ("node", {"node": "x"})
    )
    assert {tool.name for tool in tools} == TOOLS
    assert [result.is_error for result in results] == [False, False, True]
    assert results[1].structured_content["triples"][0]["evidence"][0]["document_id"] == "2019.a"


def test_over_http(server):
    settings = ServeSettings(api_key="secret")
    with run_app(create_agent_app(server, settings), settings) as (_, client):
        url = f"{str(client.base_url).rstrip('/')}/mcp"
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert httpx.post(url, json=body).status_code == 401
        key = {"Authorization": "Bearer secret"}
        assert httpx.post(url, json=body, headers=key | {"Host": "evil.example"}).status_code in (400, 403, 421)
        headers = key | {"Accept": "application/json, text/event-stream"}
        answer = httpx.post(url, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert {tool["name"] for tool in answer.json()["result"]["tools"]} == TOOLS
    settings = ServeSettings()
    with run_app(create_agent_app(server, settings), settings) as (_, client):
        url = f"{str(client.base_url).rstrip('/')}/mcp"
        (found,) = answers(url, ("search", {"text": "crf"}))
    assert found["nodes"][0]["name"] == "CRF"
