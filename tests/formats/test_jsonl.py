import json
from functools import partial

import pytest
from tests.formats.asserting import assert_mentions, assert_refused_or_skipped

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

RECORD = {
    "id": "d1",
    "text": "Früh: a deep CRF.\nIt works.",
    "sentences": [[[0, 4], [4, 5], [6, 7], [8, 12], [13, 16], [16, 17]], [[18, 20], [21, 26], [26, 27]]],
    "entities": [
        {"start": 8, "end": 16, "label": "Method", "text": "deep CRF", "score": 0.5},
        {"start": 18, "end": 20, "label": "Generic"},
        {"start": 13, "end": 16, "label": "Method", "score": 1},
    ],
    "relations": [{"head": 2, "label": "Part-of", "tail": 0, "score": 0.25}],
}


def test_a_document_with_nested_entities_scores_and_offsets(lines_file):
    (document,) = read_documents(lines_file(RECORD))
    assert (document.id, document.text) == ("d1", RECORD["text"])
    assert document.sentences[0].words == ("Früh", ":", "a", "deep", "CRF", ".")
    assert document.sentences[0].offsets == tuple(map(tuple, RECORD["sentences"][0]))
    assert [(e.text, e.start, e.end, e.label, e.score) for e in document.entities] == [
        ("deep CRF", 8, 16, "Method", 0.5),
        ("CRF", 13, 16, "Method", 1.0),
        ("It", 18, 20, "Generic", None),
    ]
    assert [(r.head.text, r.label, r.tail.text, r.score) for r in document.relations] == [
        ("CRF", "Part-of", "deep CRF", 0.25)
    ]


def test_annotations_and_id_may_be_absent_and_other_fields_are_noted(lines_file):
    stream = read_documents(lines_file({"text": "ab", "sentences": [[[0, 2]]], "entites": []}))
    assert [(d.id, d.entities, d.relations) for d in stream] == [("", (), ())]
    assert stream.report.noted == {"field 'entites' not read": 1}


def test_words_come_from_the_segmenter_where_they_are_absent(lines_file, segmenter, changed):
    stream = read_documents(lines_file(changed(RECORD, ("sentences",), ...)), segmenter=segmenter)
    assert list(stream) == list(read_documents(lines_file(RECORD)))
    assert stream.report.noted == {"words made by the segmenter": 1}


def test_a_segmenter_that_goes_wrong_is_named(lines_file, changed):
    path = lines_file(changed(RECORD, ("sentences",), ...))
    with pytest.raises(DataError, match=r"segmenter\[0\]\[1\] is \(2, 99\).* 27 "):
        list(read_documents(path, segmenter=lambda text: [[(0, 2), (2, 99)]]))


DOCUMENT_FAULTS = [
    (("text",), ..., "missing field", ["'text'"]),
    (("text",), 3, "wrong type", ["text", "3"]),
    (("text",), "\udc00", "lone surrogate", ["text", r"'\udc00'"]),
    (("id",), True, "wrong type", ["id", "True"]),
    (("sentences",), "Früh", "wrong type", ["sentences", "'Früh'"]),
    (("entities",), {"start": 0}, "wrong type", ["entities", "{'start': 0}"]),
    (("relations",), "none", "wrong type", ["relations", "'none'"]),
]


@pytest.mark.parametrize(("path", "value", "kind", "data"), DOCUMENT_FAULTS)
def test_a_bad_document_is_refused_or_skipped(lines_file, changed, path, value, kind, data):
    whole = list(read_documents(lines_file(RECORD)))
    read = partial(read_documents, lines_file(RECORD, changed(RECORD, path, value)))
    assert_refused_or_skipped(read, f"document: {kind}", whole, "data.json, line 2", *data)


SENTENCE_FAULTS = [
    ([18, 20], "wrong type", ["sentences[1][0]", "18"]),
    ([[18, 20, 21]], "wrong length", ["sentences[1][0]", "[18, 20, 21]"]),
    ([[18, 20.0]], "wrong type", ["sentences[1][0][1]", "20.0"]),
    ([[18, 18]], "end before start", ["sentences[1][0]", "[18, 18]"]),
    ([[18, 28]], "index out of range", ["sentences[1][0]", "[18, 28]", "27 characters"]),
    ([[16, 17]], "words out of order", ["sentences[1][0]", "[16, 17]"]),
    ([[18, 20], [19, 21]], "words out of order", ["sentences[1][1]", "[19, 21]", "20"]),
]


@pytest.mark.parametrize(("value", "kind", "data"), SENTENCE_FAULTS)
def test_bad_words_are_refused_or_their_sentence_skipped(lines_file, lenient, changed, value, kind, data):
    file = lines_file(changed(RECORD, ("sentences", 1), value))
    with pytest.raises(DataError) as caught:
        list(read_documents(file))
    assert_mentions(caught, "data.json, line 1, document 'd1'", *data)
    (document,), report = lenient(file)
    assert len(document.sentences) == 1
    assert [e.text for e in document.entities] == ["deep CRF", "CRF"]
    assert report.skipped == {f"sentence: {kind}": 1, "entity: touches no word": 1}


ENTITY_FAULTS = [
    ({"start": "0", "end": 4, "label": "X"}, "wrong type", ["entities[3].start", "'0'"]),
    ({"start": 0, "end": 4.0, "label": "X"}, "wrong type", ["entities[3].end", "4.0"]),
    ({"start": False, "end": 4, "label": "X"}, "wrong type", ["entities[3].start", "False"]),
    ({"start": 0, "end": 4}, "missing field", ["entities[3]", "'label'"]),
    ({"start": 0, "end": 4, "label": None}, "missing field", ["entities[3]", "'label'"]),
    ({"start": 0, "end": 4, "label": "\t"}, "blank label", ["entities[3].label", r"'\t'"]),
    ({"start": 0, "end": 4, "label": "X", "score": "1"}, "wrong type", ["entities[3].score", "'1'"]),
    ({"start": 0, "end": 4, "label": "X", "score": 7}, "score out of range", ["entities[3].score", "7"]),
    ({"start": 0, "end": 4, "label": "X", "score": -0.1}, "score out of range", ["entities[3].score", "-0.1"]),
    ({"start": 0, "end": 4, "label": "X", "score": 10**400}, "wrong type", ["entities[3].score", "1000"]),
    ({"start": 0, "end": 4, "label": "X", "text": "Fruh"}, "text mismatch", ["entities[3]", "'Fruh'", "'Früh'"]),
    ({"start": 4, "end": 0, "label": "X"}, "end before start", ["entities[3]", "4", "0"]),
    ({"start": 0, "end": 28, "label": "X"}, "index out of range", ["entities[3]", "27 characters"]),
    ({"start": 8, "end": 16, "label": "Method"}, "duplicate", ["'Method'", "[3, 5)", "sentence 0"]),
    (
        {"start": 9, "end": 16, "label": "X"},
        "not on word boundaries",
        ["'eep CRF'", "'deep' [8, 12)", "'CRF' [13, 16)"],
    ),
    ({"start": 5, "end": 6, "label": "X"}, "touches no word", ["[5, 6)", "' '", "':' [4, 5)", "'a' [6, 7)"]),
    (
        {"start": 13, "end": 20, "label": "X"},
        "crosses a sentence boundary",
        [r"'CRF.\nIt'", "sentence 0", "sentence 1"],
    ),
]


RELATION_FAULTS = [
    ({"head": 0, "label": "R", "tail": 3}, "missing entity", [".tail", "3 items"]),
    ({"head": 0, "label": "R", "tail": 2.0}, "wrong type", [".tail", "2.0"]),
    ({"head": 0, "tail": 2}, "missing field", ["'label'"]),
    ({"head": 0, "label": "R"}, "missing field", ["'tail'"]),
    ({"head": 0, "label": "R", "tail": 2, "score": True}, "wrong type", [".score", "True"]),
    ({"head": 0, "label": "R", "tail": 2, "score": 1.5}, "score out of range", [".score", "1.5"]),
    ({"head": 0, "label": "R", "tail": 1}, "crosses a sentence boundary", ["sentence 0", "sentence 1"]),
    ("0 R 1", "wrong type", ["'0 R 1'"]),
]


@pytest.mark.parametrize(
    ("field", "name", "item", "kind", "data"),
    [*(("entities", "entity", *f) for f in ENTITY_FAULTS), *(("relations", "relation", *f) for f in RELATION_FAULTS)],
)
def test_a_bad_annotation_is_refused_or_skipped(lines_file, changed, field, name, item, kind, data):
    whole = list(read_documents(lines_file(RECORD)))
    read = partial(read_documents, lines_file(changed(RECORD, (field,), [*RECORD[field], item])))
    assert_refused_or_skipped(read, f"{name}: {kind}", whole, "data.json, line 1", "'d1'", *data)


def test_a_record_is_written_as_documented(lines_file, tmp_path):
    write_documents(read_documents(lines_file(RECORD)), tmp_path / "out.jsonl")
    text = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == 1
    assert "Früh" in text
    assert json.loads(text) == {
        **RECORD,
        "entities": [
            {"id": 0, "text": "deep CRF", "label": "Method", "start": 8, "end": 16, "score": 0.5},
            {"id": 1, "text": "CRF", "label": "Method", "start": 13, "end": 16, "score": 1.0},
            {"id": 2, "text": "It", "label": "Generic", "start": 18, "end": 20, "score": None},
        ],
        "relations": [{"head": 1, "tail": 0, "label": "Part-of", "score": 0.25, "status": "asserted"}],
    }


def test_the_earlier_name_of_the_sentences_is_read(lines_file, changed):
    old = changed(RECORD, ("sentences",), ...) | {"words": RECORD["sentences"]}
    stream = read_documents(lines_file(old))
    assert list(stream) == list(read_documents(lines_file(RECORD))) == [Document.from_dict(old)]
    assert stream.report.noted == {}


def test_ids_of_entities_are_their_positions_or_those_of_other_programs(lines_file, changed):
    named = changed(RECORD, ("entities", 0, "id"), "T1")
    assert list(read_documents(lines_file(named))) == list(read_documents(lines_file(RECORD)))
    with pytest.raises(DataError, match=r"entities\[0\].id is 2, .* 0"):
        list(read_documents(lines_file(changed(RECORD, ("entities", 0, "id"), 2))))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 7, -0.1])
@pytest.mark.parametrize("of", ["entity", "relation"])
def test_a_score_that_would_not_be_read_back_is_not_written(tmp_path, score, of):
    entity = Span(0, 1, "X", score if of == "entity" else None)
    triples = [Triple(entity, "R", entity, score)] if of == "relation" else []
    document = Document.from_sentences([Sentence.from_words(["a"], [entity], triples)])
    with pytest.raises(DataError, match=f" {score} "):
        write_documents([document], tmp_path / "out.jsonl")


def test_the_segmenter_of_the_package_is_the_default(lines_file):
    record = {"text": "A CRF works. It does.", "entities": [{"start": 2, "end": 5, "label": "X", "text": "CRF"}]}
    (document,) = read_documents(lines_file(record))
    assert [sentence.words for sentence in document.sentences] == [("A", "CRF", "works", "."), ("It", "does", ".")]
    assert document.sentences[0].entities == (Span(1, 2, "X"),)
