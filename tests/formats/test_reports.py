import json

import pytest

from cascade_srn.errors import short_repr
from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import EXAMPLES_KEPT, Occurrence, Place, ReadReport, may_be_missed
from cascade_srn.types import Document


def example(line):
    return Occurrence(Place("train.json", f"line {line}", "d1"), "ner[0]", "[4, 3, 'X']")


def test_counts_by_kind_with_the_first_examples():
    report = ReadReport()
    for line in range(1, 10):
        report.skip("entity: duplicate", example(line))
    report.note("relation repeated", example(99))
    assert (report.n_skipped, report.skipped, report.noted) == (9, {"entity: duplicate": 9}, {"relation repeated": 1})
    assert report.examples["entity: duplicate"] == [example(line) for line in range(1, EXAMPLES_KEPT + 1)]


def test_the_report_reads_in_a_few_lines():
    report = ReadReport()
    report.count(Document.from_words([["a"], ["b"]]))
    report.skip("entity: duplicate", example(7))
    report.note("relation repeated", example(8))
    report.note("relation repeated", example(9))
    assert str(report).splitlines() == [
        "read 1 documents, 2 sentences, 0 entities, 0 relations; skipped 1, noted 2",
        "  skipped 1 x entity: duplicate (first: train.json, line 7, document 'd1': ner[0] = [4, 3, 'X'])",
        "  noted 2 x relation repeated (first: train.json, line 8, document 'd1': ner[0] = [4, 3, 'X'])",
    ]


def test_long_values_are_cut():
    assert len(short_repr("x" * 1000)) <= 60
    assert len(short_repr(list(range(1000)))) <= 60
    assert short_repr("short") == "'short'"


def test_a_place_leaves_out_what_is_not_known():
    assert str(Place("a.json")) == "a.json"
    assert str(Place("a.json", document="d")) == "a.json, document 'd'"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("field 'entites' not read", True),
        ("attribute line not read", True),
        ("field 'clusters' not read", False),
        ("relation repeated", False),
    ],
)
def test_what_may_be_missed(kind, expected):
    assert may_be_missed(kind) is expected


def test_what_corpora_hold_besides_is_noted_under_that_name(tmp_path):
    record = {"doc_key": "a", "sentences": [["One"]], "events": [], "entites": []}
    (tmp_path / "data.json").write_text(json.dumps(record), encoding="utf-8")
    stream = read_documents(tmp_path / "data.json", "dygie")
    list(stream)
    assert [may_be_missed(kind) for kind in stream.report.noted] == [False, True]
