"""Generic mentions that are resolved by coreference clusters."""

import json

import pytest

pytest.importorskip("duckdb")

from cascade_srn import Document, Sentence, Span, Triple
from cascade_srn.apps.graph import GraphSettings, build, open_graph
from cascade_srn.apps.graph.generic import find_antecedents
from cascade_srn.formats.jsonl import to_record
from cascade_srn.types import Mention

CRF, IT, PARSING = Span(1, 2, "Method"), Span(0, 1, "Generic"), Span(3, 4, "Task")


CLUSTERS = ((Mention(0, 1, 2), Mention(1, 0, 1)),)


def document(*, names=(CRF,), clusters=CLUSTERS):
    first = Sentence.from_words(["A", "CRF", "works", "."], names)
    triple = Triple(IT, "USED-FOR", PARSING)
    second = Sentence.from_words(["It", "helps", "with", "parsing", "."], [IT, PARSING], [triple])
    return Document.from_sentences([first, second], id="d", clusters=clusters)


def built(folder, item, **settings):
    path = folder / "found.jsonl"
    path.write_text(json.dumps(to_record(item)) + "\n", encoding="utf-8")
    report = build(path, folder / "graph", GraphSettings(**settings))
    return report, folder / "graph"


def test_relations_of_generic_mentions_count_for_what_they_stand_for(tmp_path):
    report, folder = built(tmp_path, document(), coreference=True)
    assert report.counts["edges"] == 1
    assert "generic mentions" not in report.dropped
    with open_graph(folder) as graph:
        (edge,) = graph.query("SELECT head, label, tail FROM edges")
        assert edge == {"head": "crf-method", "label": "USED-FOR", "tail": "parsing-task"}
        (row,) = graph.evidence(0)
        assert row["head_text"] == "It"
        steps = {row["text"]: row["step"] for row in graph.query("SELECT text, step FROM mentions")}
        assert steps["It"] == "coreference"
        assert graph.query("SELECT label FROM nodes WHERE node = 'crf-method'") == [{"label": "Method"}]


def test_pronouns_are_no_names(tmp_path):
    _, folder = built(tmp_path, document(), coreference=True)
    explorer = open_graph(folder)
    assert [form["text"] for form in explorer.describe("crf-method")["forms"]] == ["CRF"]
    assert explorer.search("it") == []
    explorer.close()


def test_clusters_are_used_on_request_only(tmp_path):
    report, _ = built(tmp_path, document())
    assert report.counts["edges"] == 0
    assert report.dropped["generic mentions"] == 1


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (document(clusters=()), {}),
        (document(names=()), {}),  # the other mention of the cluster is no entity
        (document(names=(Span(1, 2, "Generic"),)), {}),  # nothing in the cluster is a name
        (document(names=(Span(1, 2, "Generic"), Span(1, 2, "Method"))), {2: 1}),  # two types of the same words
        (document(clusters=((Mention(1, 0, 1), Mention(1, 3, 4)),)), {1: 2}),  # the name comes later
        (document(clusters=((Mention(0, 1, 2), Mention(1, 0, 1), Mention(1, 3, 4)),)), {1: 0}),  # the nearest before
    ],
)
def test_antecedents(item, expected):
    assert find_antecedents(item, ["Generic"]) == expected
