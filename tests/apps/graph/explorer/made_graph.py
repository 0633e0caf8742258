"""A graph of made-up papers, for tests and pictures: every sentence is written from a pattern."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict

import pyarrow as pa

from cascade_srn.apps.graph.store import write_graph
from cascade_srn.apps.graph.tables import table_schema

METHODS = ("conditional random field", "graph convolution", "contrastive learning", "beam search", "span pointer")
METHODS += ("sparse attention", "curriculum training", "label smoothing", "character encoder", "transition parser")
METHODS += ("copy mechanism", "bilinear scorer", "memory network", "self-training", "phrase table", "lattice decoder")
METHODS += ("gated recurrence", "minimum risk training", "dual encoder", "tree kernel", "adapter layers")
TASKS = ("named entity recognition", "relation extraction", "machine translation", "dependency parsing")
TASKS += ("document retrieval", "speech recognition", "coreference resolution", "summarization")
MATERIALS = ("Harbour Corpus", "LakeNews", "OpenLetters", "TideBank", "Northern Treebank", "Radio Hours", "MillerSet")
METRICS = ("F1", "BLEU", "labelled attachment score", "word error rate", "mean reciprocal rank")
TERMS = ("span boundaries", "rare words", "long sentences", "label noise", "word order", "nested names")
MARKUP = "<img src=x onerror=boom()>"
# Names that documents also use for an entity.
SHORT = {"named entity recognition": "NER", "conditional random field": "CRF", "machine translation": "MT"}
TYPES = {
    "Method": (*METHODS, MARKUP),
    "Task": TASKS,
    "Material": MATERIALS,
    "Metric": METRICS,
    "OtherScientificTerm": TERMS,
}
LABELS = {name: label for label, names in TYPES.items() for name in names}
# Words with the kind of entity in braces, and relations between the entities by their position.
PATTERNS = (
    ("We apply a {Method} to {Task}.", [(0, "USED-FOR", 1)]),
    ("The {Method} helps {Task} most where {OtherScientificTerm} matter.", [(0, "USED-FOR", 1)]),
    ("On the {Material}, the {Method} gains two points of {Metric}.", [(0, "EVALUATE-FOR", 1), (2, "EVALUATE-FOR", 1)]),
    ("We compare the {Method} with {Method} on the {Material}.", [(0, "COMPARE", 1), (2, "EVALUATE-FOR", 0)]),
    ("A {Method} is one part of our {Method} for {Task}.", [(0, "PART-OF", 1), (1, "USED-FOR", 2)]),
    ("Systems for {Task} are scored by {Metric} on the {Material}.", [(1, "EVALUATE-FOR", 0), (2, "EVALUATE-FOR", 0)]),
    ("Both {OtherScientificTerm} and {OtherScientificTerm} make {Task} harder.", [(0, "CONJUNCTION", 1)]),
)
SYMMETRIC = ("COMPARE", "CONJUNCTION")
MODEL = "5f" * 32
# The entry of a vocabulary.
LINK = {"node": "named-entity-recognition-task", "identifier": "https://example.org/ner", "name": "NER"}
LINK |= {"text": "NER", "link": "exact", "score": 1.0}
_SLOT = re.compile(r"\{(\w+)\}")


def write_made_graph(folder, *, n_documents=150, seed=3, markup=True):
    """Write the graph to a folder."""
    chosen = random.Random(seed)
    documents, mentions, relations = [], [], []
    for row in range(n_documents):
        topic = chosen.choice(TASKS)
        text, sentences = "", []
        for pattern, links in chosen.sample(PATTERNS, 3):
            sentences.append(_write(pattern, links, topic, len(text), chosen, markup=markup and row % 20 == 0))
            text += sentences[-1]["text"] + " "
        place = {"document": row, "document_id": f"made-{row:03}", "shard": "made", "input": "made", "row": row}
        date = None if row % 15 == 14 else f"{2015 + row * 10 // n_documents}-0{1 + row % 9}"
        documents.append({**place, "date": date, "title": f"A study of {topic}, part {row + 1}", "text": text.strip()})
        _collect(sentences, {**place, "date": date}, mentions, relations)
    record = {"settings": {}, "models": [MODEL], "vocabulary": {"format": "table"}}
    write_graph(folder, _tables(documents, mentions, relations), record)
    return folder


def _write(pattern, links, topic, at, chosen, *, markup):
    """Fill a pattern, and return the sentence with its entities as (start, end, name) and its relations."""
    text, entities, used = "", [], set()
    end = 0
    for slot in _SLOT.finditer(pattern):
        text += pattern[end : slot.start()]
        end = slot.end()
        kind = slot[1]
        pool = [name for name in TYPES[kind] if name not in used and (name == MARKUP) <= markup]
        # Each topic has its own frequent names.
        first = 3 * TASKS.index(topic) % len(pool)
        weights = [1 / (1 + (rank - first) % len(pool)) ** 1.5 for rank in range(len(pool))]
        name = chosen.choices(pool, weights)[0]
        name = topic if kind == "Task" else MARKUP if markup and kind == "Method" and not used else name
        used.add(name)
        form = SHORT[name] if name in SHORT and chosen.random() < 0.4 else name
        entities.append((at + len(text), at + len(text) + len(form), name, form))
        text += form
    return {"start": at, "text": text + pattern[end:], "entities": entities, "links": links, "random": chosen.random()}


def _collect(sentences, place, mentions, relations):
    for number, sentence in enumerate(sentences):
        first = sum(len(other["entities"]) for other in sentences[:number])
        for position, (start, end, name, form) in enumerate(sentence["entities"]):
            mentions.append(
                {**place, "node": node_id(name), "name": name, "entity": first + position, "sentence": number}
                | {"start": start, "end": end, "text": form, "label": LABELS[name], "model": MODEL}
                | {"score": 0.9, "step": "text" if form == name else "acronym"}
            )
        for order, (head, label, tail) in enumerate(sentence["links"]):
            ends = {"head": sentence["entities"][head], "tail": sentence["entities"][tail]}
            keys = [node_id(ends[end][2]) for end in ("head", "tail")]
            key = (*(sorted(keys) if label in SYMMETRIC else keys), label)
            relations.append(
                {**place, "key": key, "relation": 10 * number + order, "sentence": number, "model": MODEL}
                | {"sentence_start": sentence["start"], "sentence_end": sentence["start"] + len(sentence["text"])}
                | {"sentence_text": sentence["text"], "score": round(0.35 + 0.6 * sentence["random"], 3)}
                | {
                    f"{end}_{name}": ends[end][at]
                    for end in ends
                    for name, at in (("start", 0), ("end", 1), ("text", 3))
                }
                | {"version": "1.0"}
            )


def node_id(name):
    """Return the id of a node of the graph."""
    return f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{LABELS[name].lower()}"


def _tables(documents, mentions, relations):
    keys = sorted({relation["key"] for relation in relations})
    evidence = [{**relation, "edge": keys.index(relation["key"])} for relation in relations]
    by_edge, by_node, degree = defaultdict(list), defaultdict(list), Counter()
    for row in evidence:
        by_edge[row["edge"]].append(row)
    for row in mentions:
        by_node[row["node"]].append(row)
    edges = []
    for number, (head, tail, label) in enumerate(keys):
        rows = by_edge[number]
        degree.update({head, tail})
        scores = [row["score"] for row in rows]
        edges.append(
            {"edge": number, "head": head, "tail": tail, "label": label, "symmetric": label in SYMMETRIC}
            | {"best_score": max(scores), "mean_score": sum(scores) / len(scores), **_count(rows)}
            | {"flag": "contradiction" if label == "PART-OF" and (tail, head, label) in keys else ""}
        )
    nodes = []
    for node, rows in sorted(by_node.items()):
        counts = _count(rows)
        counts["n_mentions"] = counts.pop("n")
        votes = json.dumps({rows[0]["label"]: round(0.9 * len(rows), 2)})
        nodes.append(
            {"node": node, "name": rows[0]["name"], "label": rows[0]["label"], "degree": degree[node]}
            | {"votes": votes, **counts}
            | ({"identifier": LINK["identifier"], "link": "exact"} if node == LINK["node"] else {})
        )
    merges = [
        {"node": node_id(name), "text": short, "label": LABELS[name], "into_text": name, "into_label": LABELS[name]}
        | {"step": "acronym", "reason": "defined in 3 documents, such as made-001", "score": 1.0}
        for name, short in SHORT.items()
        if node_id(name) in by_node
    ]
    rows = {"nodes": nodes, "edges": edges, "mentions": mentions, "evidence": evidence, "merges": merges}
    rows |= {"documents": documents, "links": [LINK]}
    tables = {}
    for name, found in rows.items():
        columns = table_schema(name).names
        chosen = [{column: row.get(column) for column in columns} for row in found]
        tables[name] = pa.Table.from_pylist(chosen, schema=table_schema(name))
    return tables


def _count(rows):
    dates = sorted(row["date"] for row in rows if row["date"])
    first, last = (dates[0], dates[-1]) if dates else (None, None)
    return {
        "n": len(rows),
        "n_documents": len({row["document"] for row in rows}),
        "first_date": first,
        "last_date": last,
    }
