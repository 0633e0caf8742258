"""A small graph that is written by hand, without the builder."""

import json

import pytest

from cascade_srn.apps.graph.store import write_graph
from cascade_srn.apps.graph.tables import table_schema

TEXTS = {
    "2019.a": "We train a CRF for named entity recognition (NER). A CRF is part of BERT-CRF.",
    "2020.b": "NER with BERT-CRF is compared with an LSTM.",
    "c": "The LSTM & <b>BERT-CRF</b> are compared. BERT-CRF is part of the CRF.",
}
DATES = {"2019.a": "2019", "2020.b": "2020", "c": None}
NODES = {
    "bert-crf-method": ("BERT-CRF", "Method"),
    "crf-method": ("CRF", "Method"),
    "lstm-method": ("LSTM", "Method"),
    "named-entity-recognition-task": ("named entity recognition", "Task"),
    "b-bert-crf-b-method": ("<b>BERT-CRF</b>", "Method"),
}
SENTENCES = {"2019.a": ((0, 50), (51, 77)), "2020.b": ((0, 43),), "c": ((0, 40), (41, 69))}
# Document, text and which occurrence of it, node and step.
MENTIONS = [
    ("2019.a", "CRF", 0, "crf-method", "text"),
    ("2019.a", "named entity recognition", 0, "named-entity-recognition-task", "text"),
    ("2019.a", "NER", 0, "named-entity-recognition-task", "acronym"),
    ("2019.a", "CRF", 1, "crf-method", "text"),
    ("2019.a", "BERT-CRF", 0, "bert-crf-method", "text"),
    ("2020.b", "NER", 0, "named-entity-recognition-task", "acronym"),
    ("2020.b", "BERT-CRF", 0, "bert-crf-method", "text"),
    ("2020.b", "LSTM", 0, "lstm-method", "text"),
    ("c", "LSTM", 0, "lstm-method", "text"),
    ("c", "<b>BERT-CRF</b>", 0, "b-bert-crf-b-method", "text"),
    ("c", "BERT-CRF", 1, "bert-crf-method", "text"),
    ("c", "CRF", 2, "crf-method", "text"),
]
# Head and tail as positions in MENTIONS, with the score of the relation.
RELATIONS = [
    (0, "USED-FOR", 1, 0.9),
    (3, "PART-OF", 4, 0.8),
    (6, "USED-FOR", 5, 0.75),
    (6, "COMPARE", 7, 0.6),
    (8, "COMPARE", 9, 0.55),
    (10, "PART-OF", 11, 0.5),
]
EDGES = [
    ("b-bert-crf-b-method", "COMPARE", "lstm-method"),
    ("bert-crf-method", "COMPARE", "lstm-method"),
    ("bert-crf-method", "PART-OF", "crf-method"),
    ("bert-crf-method", "USED-FOR", "named-entity-recognition-task"),
    ("crf-method", "PART-OF", "bert-crf-method"),
    ("crf-method", "USED-FOR", "named-entity-recognition-task"),
]


def _place(document):
    number = list(TEXTS).index(document)
    return {"document": number, "document_id": document, "shard": "sample", "input": "sample", "row": number}


def _find(text, wanted, number):
    at = text.find(wanted)
    for _ in range(number):
        at = text.find(wanted, at + 1)
    assert at >= 0
    return at


def _mentions():
    for number, (document, wanted, occurrence, node, step) in enumerate(MENTIONS):
        start = _find(TEXTS[document], wanted, occurrence)
        sentence = next(n for n, (_, end) in enumerate(SENTENCES[document]) if start < end)
        entity = sum(other[0] == document for other in MENTIONS[:number])
        yield _place(document) | {
            "node": node,
            "entity": entity,
            "sentence": sentence,
            "start": start,
            "end": start + len(wanted),
            "text": wanted,
            "label": NODES[node][1],
            "score": 0.9,
            "model": "0" * 64,
            "step": step,
        }


def _evidence(mentions):
    for number, (head, label, tail, score) in enumerate(RELATIONS):
        first, second = mentions[head], mentions[tail]
        ends = [first["node"], second["node"]]
        if label == "COMPARE":
            ends.sort()
        start, end = SENTENCES[first["document_id"]][first["sentence"]]
        relation = sum(mentions[other[0]]["document_id"] == first["document_id"] for other in RELATIONS[:number])
        yield {name: first[name] for name in ("document", "document_id", "sentence", "model")} | {
            "edge": EDGES.index((ends[0], label, ends[1])),
            "relation": relation,
            "sentence_start": start,
            "sentence_end": end,
            "sentence_text": TEXTS[first["document_id"]][start:end],
            **{f"head_{name}": first[name] for name in ("start", "end", "text")},
            **{f"tail_{name}": second[name] for name in ("start", "end", "text")},
            "score": score,
            "version": "1.0",
            "date": DATES[first["document_id"]],
        }


def _span(dates):
    known = sorted(date for date in dates if date)
    return {"first_date": known[0] if known else None, "last_date": known[-1] if known else None}


def _edges(evidence):
    for number, (head, label, tail) in enumerate(EDGES):
        rows = [row for row in evidence if row["edge"] == number]
        scores = [row["score"] for row in rows]
        yield _span(row["date"] for row in rows) | {
            "edge": number,
            "head": head,
            "label": label,
            "tail": tail,
            "n": len(rows),
            "n_documents": len({row["document_id"] for row in rows}),
            "best_score": max(scores),
            "mean_score": sum(scores) / len(scores),
            "symmetric": label == "COMPARE",
            "flag": "contradiction" if label == "PART-OF" else "",
        }


def _nodes(mentions):
    for node, (name, label) in sorted(NODES.items()):
        own = [mention for mention in mentions if mention["node"] == node]
        yield _span(DATES[mention["document_id"]] for mention in own) | {
            "node": node,
            "name": name,
            "label": label,
            "n_mentions": len(own),
            "n_documents": len({mention["document_id"] for mention in own}),
            "degree": sum(node in (edge[0], edge[2]) for edge in EDGES),
            "votes": json.dumps({label: round(0.9 * len(own), 4)}),
        }


def write_sample(folder):
    """Write the sample graph: 5 nodes, 6 edges, 12 mentions, 3 documents, one merge."""
    mentions = list(_mentions())
    evidence = list(_evidence(mentions))
    merge = {
        "node": "named-entity-recognition-task",
        "text": "NER",
        "label": "Task",
        "into_text": "named entity recognition",
        "into_label": "Task",
        "step": "acronym",
        "reason": "defined in 1 document, such as 2019.a",
        "score": 1.0,
    }
    rows = {
        "nodes": list(_nodes(mentions)),
        "edges": list(_edges(evidence)),
        "mentions": mentions,
        "evidence": evidence,
        "merges": [merge],
        "documents": [
            _place(name) | {"date": DATES[name], "title": f"Paper {name}" if name != "c" else None, "text": text}
            for name, text in TEXTS.items()
        ],
    }
    pa = pytest.importorskip("pyarrow")
    tables = {name: pa.Table.from_pylist(found, schema=table_schema(name)) for name, found in rows.items()}
    write_graph(folder, tables, {"settings": {}, "models": ["0" * 64]})
    return folder


@pytest.fixture(scope="session")
def sample_graph(tmp_path_factory):
    """Folder of the sample graph. Do not write to it."""
    pytest.importorskip("duckdb")
    return write_sample(tmp_path_factory.mktemp("graph") / "sample")
