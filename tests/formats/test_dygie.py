import json
from functools import partial

import pytest
from tests.formats.asserting import assert_mentions, assert_refused_or_skipped

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

# As the usual preprocessing of ACE05 gives it: several sentences, nested entities, fields we do not need.
ACE = {
    "doc_key": "CNN_1",
    "sentences": [
        ["The", "president", "of", "France", "met", "her", "."],
        ["He", "flew", "home", "."],
        ["Paris", "police", "waited", "in", "Paris", "."],
    ],
    "ner": [[[0, 3, "PER"], [3, 3, "GPE"], [5, 5, "PER"]], [], [[11, 12, "ORG"], [11, 11, "GPE"], [15, 15, "GPE"]]],
    "relations": [[[0, 3, 3, 3, "ORG-AFF"]], [], [[11, 12, 11, 11, "PART-WHOLE"], [11, 12, 15, 15, "PHYS"]]],
    "_sentence_start": [0, 7, 11],
}


def test_a_document_of_several_sentences_with_nested_entities(lines_file):
    (document,) = read_documents(lines_file(ACE))
    assert document.id == "CNN_1"
    assert document.text == "The president of France met her .\nHe flew home .\nParis police waited in Paris ."
    assert [s.words for s in document.sentences] == [tuple(words) for words in ACE["sentences"]]
    first, second, third = document.sentences
    assert first.entities == (Span(0, 4, "PER"), Span(3, 4, "GPE"), Span(5, 6, "PER"))
    assert first.triples == (Triple(Span(0, 4, "PER"), "ORG-AFF", Span(3, 4, "GPE")),)
    assert second.entities == second.triples == ()
    assert third.entities == (Span(0, 2, "ORG"), Span(0, 1, "GPE"), Span(4, 5, "GPE"))
    assert [(t.head.start, t.tail.start, t.label) for t in third.triples] == [(0, 0, "PART-WHOLE"), (0, 4, "PHYS")]
    assert [e.text for e in document.entities][:2] == ["The president of France", "France"]


def test_fields_that_are_not_needed_are_noted(lines_file):
    stream = read_documents(lines_file(ACE, ACE))
    assert len(list(stream)) == 2
    assert stream.report.noted == {"field '_sentence_start' not read": 2}
    assert not stream.report.skipped


def test_annotations_may_be_absent(lines_file):
    bare = {"doc_key": "a", "sentences": [["One", "."]]}
    stream = read_documents(lines_file(bare, {**bare, "ner": None}, {**bare, "ner": [[[0, 0, "X"]]]}))
    assert [len(d.entities) for d in stream] == [0, 0, 1]


def test_predictions_keep_their_probability(lines_file):
    record = {
        "doc_key": "a",
        "sentences": [["One", "two"]],
        "ner": [[[0, 0, "X", 7.5, 0.75], [1, 1, "Y", 0.5]]],
        "relations": [[[0, 0, 1, 1, "R", -1, 0.25]]],
    }
    (document,) = read_documents(lines_file(record))
    assert [e.score for e in document.entities] == [0.75, 0.5]
    assert [r.score for r in document.relations] == [0.25]


def test_a_raw_score_alone_is_no_score_and_no_probability_is_refused(lines_file):
    record = {"doc_key": "a", "sentences": [["One", "two"]], "ner": [[[0, 0, "X", -3.2], [1, 1, "Y", 7.9]]]}
    (document,) = read_documents(lines_file(record))
    assert [e.score for e in document.entities] == [None, None]
    record["ner"][0][0].append(1.5)
    with pytest.raises(DataError, match=r"1\.5"):
        list(read_documents(lines_file(record)))


def test_a_repeated_relation_is_kept_and_noted(lines_file, tmp_path, changed):
    record = changed(ACE, ("relations", 0), [[0, 3, 3, 3, "ORG-AFF"], [0, 3, 3, 3, "ORG-AFF"]])
    stream = read_documents(lines_file(record))
    (document,) = stream
    assert len(document.sentences[0].triples) == 2
    assert stream.report.noted["relation repeated"] == 1
    write_documents([document], tmp_path / "out.json", "dygie")
    assert json.loads((tmp_path / "out.json").read_text())["relations"] == record["relations"]


def test_entities_that_share_a_span_make_a_relation_ambiguous(lines_file, changed):
    record = changed(ACE, ("ner", 0), [[0, 3, "PER"], [3, 3, "GPE"], [3, 3, "LOC"]])
    stream = read_documents(lines_file(record))
    (document,) = stream
    assert document.sentences[0].triples[0].tail.label == "GPE"
    assert stream.report.noted["relation ambiguous: several entities share a span"] == 1


def test_a_relation_that_would_come_back_as_another_is_not_written(tmp_path):
    first, second, tail = Span(0, 1, "A"), Span(0, 1, "B"), Span(1, 2, "C")
    sentence = Sentence.from_words(["x", "y"], [first, second, tail], [Triple(second, "R", tail)])
    with pytest.raises(DataError, match=r"document 'd', sentence 0: .*'B'.*\[0, 1\).*'A'"):
        write_documents([Document.from_sentences([sentence], id="d")], tmp_path / "out.json", "dygie")
    assert list(tmp_path.iterdir()) == []


DOCUMENT_FAULTS = [
    (("sentences",), ..., "missing field", ["'sentences'"]),
    (("sentences",), "The president", "wrong type", ["sentences", "'The president'"]),
    (("sentences", 1), {"a": 1}, "wrong type", ["sentences[1]", "{'a': 1}"]),
    (("ner",), [[]], "wrong length", ["ner", "[[]]", "1", "3 sentences"]),
    (("ner",), {}, "wrong type", ["ner", "{}"]),
    (("relations",), [[], []], "wrong length", ["relations", "[[], []]", "2", "3 sentences"]),
    (("doc_key",), 1.5, "wrong type", ["doc_key", "1.5"]),
]


@pytest.mark.parametrize(("path", "value", "kind", "data"), DOCUMENT_FAULTS)
def test_a_bad_document_is_refused_or_skipped(lines_file, changed, path, value, kind, data):
    whole = list(read_documents(lines_file(ACE)))
    read = partial(read_documents, lines_file(ACE, changed(ACE, path, value)), "dygie")
    assert_refused_or_skipped(read, f"document: {kind}", whole, "data.json, line 2", *data)


SENTENCE_FAULTS = [
    (("sentences", 0, 2), 7, "wrong type", ["sentences[0][2]", "7"]),
    (("sentences", 0, 2), "", "empty word", ["sentences[0][2]", "''"]),
    (("sentences", 0, 2), "\ud800", "lone surrogate", ["sentences[0][2]", r"'\ud800'"]),
    (("ner", 0), 3, "wrong type", ["ner[0]", "3"]),
    (("relations", 0), "x", "wrong type", ["relations[0]", "'x'"]),
]


@pytest.mark.parametrize(("path", "value", "kind", "data"), SENTENCE_FAULTS)
def test_a_bad_sentence_is_refused_or_skipped(lines_file, lenient, changed, path, value, kind, data):
    file = lines_file(changed(ACE, path, value))
    with pytest.raises(DataError) as caught:
        list(read_documents(file))
    assert_mentions(caught, "data.json, line 1, document 'CNN_1'", *data)
    (document,), report = lenient(file)
    assert report.skipped == {f"sentence: {kind}": 1}
    (whole,) = read_documents(lines_file(ACE))
    assert [(s.words, s.entities, s.triples) for s in document.sentences] == [
        (s.words, s.entities, s.triples) for s in whole.sentences[1:]
    ]


ENTITY_FAULTS = [
    ([3, "3", "X"], "wrong type", ["ner[0][3][1]", "'3'"]),
    ([3.0, 3, "X"], "wrong type", ["ner[0][3][0]", "3.0"]),
    ([True, 3, "X"], "wrong type", ["ner[0][3][0]", "True"]),
    ([3, 3, 3], "wrong type", ["ner[0][3][2]", "3"]),
    ([3, 3, " "], "blank label", ["ner[0][3][2]", "' '"]),
    ([3, 3], "wrong length", ["ner[0][3]", "[3, 3]", "3 to 5"]),
    ([3, 3, "X", "high"], "wrong type", ["ner[0][3][3]", "'high'"]),
    ("3 3 X", "wrong type", ["ner[0][3]", "'3 3 X'"]),
    ([4, 3, "X"], "end before start", ["ner[0][3]", "[4, 3, 'X']"]),
    ([0, 17, "X"], "index out of range", ["[0, 17, 'X']", "17 words"]),
    ([-1, 2, "X"], "index out of range", ["[-1, 2, 'X']", "17 words"]),
    ([6, 7, "X"], "crosses a sentence boundary", ["[6, 7, 'X']", "sentence 0", "0 to 6"]),
    ([8, 8, "X"], "crosses a sentence boundary", ["[8, 8, 'X']", "sentence 0", "0 to 6"]),
    ([0, 3, "PER"], "duplicate", ["'PER'", "[0, 4)", "sentence 0"]),
]


RELATION_FAULTS = [
    ([0, 3, 4, 4, "R"], "missing entity", ["tail", "4 to 4"]),
    ([4, 4, 0, 3, "R"], "missing entity", ["head", "4 to 4"]),
    ([0, 3, 15, 15, "R"], "crosses a sentence boundary", ["sentence 0", "0 to 6"]),
    ([0, 3, 3, 99, "R"], "index out of range", ["99", "17 words"]),
    ([0, 3, 3, "R"], "wrong length", ["4", "5 to 7"]),
    ([0, 3, 3, 3, None], "wrong type", ["relations[0][1][4]", "None"]),
    ([0, 3, 3, 3, "R", 0.5, []], "wrong type", ["relations[0][1][6]", "[]"]),
]


@pytest.mark.parametrize(
    ("field", "name", "item", "kind", "data"),
    [*(("ner", "entity", *f) for f in ENTITY_FAULTS), *(("relations", "relation", *f) for f in RELATION_FAULTS)],
)
def test_a_bad_annotation_is_refused_or_skipped(lines_file, changed, field, name, item, kind, data):
    whole = list(read_documents(lines_file(ACE)))
    read = partial(read_documents, lines_file(changed(ACE, (field, 0), [*ACE[field][0], item])))
    assert_refused_or_skipped(
        read, f"{name}: {kind}", whole, "data.json, line 1, document 'CNN_1'", f"{field}[0]", *data
    )


def test_a_skipped_entity_takes_its_relations_along(lines_file, lenient, changed):
    file = lines_file(changed(ACE, ("ner", 2, 1, 2), ""))
    (document,), report = lenient(file)
    assert report.skipped == {"entity: blank label": 1, "relation: missing entity": 1}
    assert [t.label for t in document.sentences[2].triples] == ["PHYS"]


def test_what_is_written_is_what_was_read(lines_file, tmp_path):
    empty = {"doc_key": "none", "sentences": [], "ner": [], "relations": []}
    hollow = {"doc_key": "hollow", "sentences": [[], ["a"]], "ner": [[], [[0, 0, "X"]]], "relations": [[], []]}
    records = [ACE, empty, hollow]
    write_documents(read_documents(lines_file(*records)), tmp_path / "out.json", "dygie")
    written = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    kept = ("doc_key", "sentences", "ner", "relations")
    assert written == [{name: record[name] for name in kept} for record in records]
