"""A graph with strange names, labels, ids and texts, and without some values."""

import json

import pytest

from cascade_srn.apps.graph.store import open_graph, write_graph
from cascade_srn.apps.graph.tables import table_schema

STRANGE = {
    "html": "<script>alert('x')</script> & <b>bold</b>",
    "quotes": 'the "best" \'model\' `ever` \\ \\n ""',
    "newline": "two\nlines\r\nand\ra tab\t.",
    "commas": "a, b; c | d",
    "emoji": "😀 naïve 👩‍🔬 e\u0301",
    "rtl": "נוירוני \u202eעברית\u202c عربي",
    "long": "x" * 5000,
    "csv": "=cmd|' /C calc'!A0",
    "quoted": "'@SUM(1)",
    "minus": "-0.5",
    "iri": "http://a.example/?q=1#f <>{}^`%20",
    "number": "007",
    "spaces": "  padded\u00a0 ",
    "null": "null",
}
CONTROL = "a\x00\x01b\x0bc\ufffed\x7f"
LABELS = {"html": "Other Scientific; Term", "iri": "Métho d/<x>", "rtl": "מודל"}
RELATIONS = ("USED-FOR", 'is "part" of; x/y', "<比較>")


def _ids():
    return [*STRANGE, "control", "alone"]


def _name(node):
    return STRANGE.get(node, CONTROL if node == "control" else node)


def _documents():
    names = _ids()
    # Ids repeat, are empty, and have characters that an IRI cannot have.
    ids = ["d 1/<ü>", "same", "same", "", "a#b?c"]
    for row, document_id in enumerate(ids):
        text = "\n".join(f"{_name(node)} is used for {_name(names[0])}." for node in names[row::5])
        yield {
            "document": row,
            "document_id": document_id,
            "shard": "s'1",
            "input": f"file {row} of 5",
            "row": 0,
            "date": "2020-01-01" if row % 2 else None,
            "title": _name(names[row]) if row else None,
            "text": text if row != 2 else None,
        }


def strange_tables():
    """Rows of each table."""
    nodes, mentions = [], []
    for number, node in enumerate(_ids()):
        name = _name(node)
        label = LABELS.get(node, "Method")
        nodes.append(
            {
                "node": node,
                "name": name,
                "label": label,
                "n_mentions": 1,
                "n_documents": 1,
                "degree": 0 if node == "alone" else 2,
                "votes": json.dumps({label: 0.5}, ensure_ascii=False),
                "first_date": "2020-01-01" if number % 2 else None,
                "last_date": None,
            }
        )
        mentions.append(
            {
                "node": node,
                "document": number % 5,
                "document_id": list(_documents())[number % 5]["document_id"],
                "entity": number,
                "sentence": 0,
                "start": number,
                "end": number + len(name),
                "text": name,
                "label": label,
                "score": None if number % 3 == 0 else 0.123456,
                "model": "f" * 64,
                "step": "text",
            }
        )
    edges, evidence = [], []
    chain = [node for node in _ids() if node != "alone"]
    pairs = list(zip(chain, [*chain[1:], chain[0]], strict=True))
    # Two edges between the same nodes, and an edge to itself.
    pairs += [pairs[0], (chain[0], chain[0])]
    for number, (head, tail) in enumerate(pairs):
        bare = number == 3  # an edge without evidence
        edges.append(
            {
                "edge": number,
                "head": head,
                "label": RELATIONS[number % 3 if number < len(chain) else 1],
                "tail": tail,
                "n": 0 if bare else 1 + number % 2,
                "n_documents": 0 if bare else 1,
                "best_score": None if bare else 0.9,
                "mean_score": None if bare else 0.7,
                "first_date": None,
                "last_date": "2021" if number % 2 else None,
                "symmetric": number % 3 == 2 and number < len(chain),
                "flag": "cycle" if number % 4 == 0 else "",
            }
        )
        for k in range(edges[-1]["n"]):
            evidence.append(
                {
                    "edge": number,
                    "document": number % 5,
                    "document_id": list(_documents())[number % 5]["document_id"],
                    "relation": 10 * number + k,
                    "sentence": 0,
                    "sentence_start": 0,
                    "sentence_end": 30_000 + number,
                    "sentence_text": f"{_name(head)} and\n{_name(tail)}",
                    "head_start": 10_000 + number,
                    "head_end": 10_000 + number + 5,
                    "head_text": _name(head),
                    "tail_start": 20_050,
                    "tail_end": 20_060,
                    "tail_text": _name(tail),
                    "score": 0.9 if k == 0 else None,
                    "model": "f" * 64 if number % 2 else None,
                    "version": "1.0+x y" if number % 2 else "",
                    "date": None,
                }
            )
    return {
        "nodes": nodes,
        "edges": edges,
        "mentions": mentions,
        "evidence": evidence,
        "merges": [],
        "documents": list(_documents()),
    }


@pytest.fixture(scope="session")
def strange_graph(tmp_path_factory):
    """Folder of the graph with strange content. Do not write to it."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    rows = strange_tables()
    tables = {name: pa.Table.from_pylist(found, schema=table_schema(name)) for name, found in rows.items()}
    folder = tmp_path_factory.mktemp("strange") / "it's [1] a graph"
    write_graph(folder, tables, {"settings": {}, "models": ["f" * 64]})
    return folder


@pytest.fixture(params=["sample", "strange"])
def any_graph(request, sample_graph, strange_graph):
    """A graph that is open for reading: the small sample, then the strange one."""
    with open_graph(sample_graph if request.param == "sample" else strange_graph) as graph:
        yield graph
