import json
from functools import partial

import pytest
from tests.formats.asserting import assert_refused_or_skipped

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

RECORD = {
    "tokens": ["A", "deep", "CRF", "for", "tagging"],
    "entities": [
        {"type": "Method", "start": 1, "end": 3},
        {"type": "Method", "start": 2, "end": 3},
        {"type": "Task", "start": 4, "end": 5},
    ],
    "relations": [{"type": "Used-for", "head": 0, "tail": 2}, {"type": "Part-of", "head": 1, "tail": 0}],
    "orig_id": "s1",
}


def test_a_sentence_is_a_document(array_file):
    (document,) = read_documents(array_file(RECORD))
    (sentence,) = document.sentences
    assert (document.id, document.text) == ("s1", "A deep CRF for tagging")
    assert sentence.entities == (Span(1, 3, "Method"), Span(2, 3, "Method"), Span(4, 5, "Task"))
    assert sentence.triples == (
        Triple(Span(1, 3, "Method"), "Used-for", Span(4, 5, "Task")),
        Triple(Span(2, 3, "Method"), "Part-of", Span(1, 3, "Method")),
    )


def test_ids_may_be_integers_repeated_or_absent(array_file, changed):
    records = [changed(RECORD, ("orig_id",), value) for value in (5178, "x", "x", ...)]
    assert [document.id for document in read_documents(array_file(*records))] == ["5178", "x", "x", ""]


def test_annotations_may_be_absent_and_other_fields_are_noted(array_file):
    stream = read_documents(array_file({"tokens": ["a"], "ltokens": ["b"]}))
    assert [document.entities for document in stream] == [()]
    assert stream.report.noted == {"field 'ltokens' not read": 1}


DOCUMENT_FAULTS = [
    (("tokens",), ..., "missing field", ["'tokens'"]),
    (("tokens",), "A deep", "wrong type", ["tokens", "'A deep'"]),
    (("tokens", 1), 3, "wrong type", ["tokens[1]", "3"]),
    (("tokens", 1), "", "empty word", ["tokens[1]", "''"]),
    (("entities",), {}, "wrong type", ["entities", "{}"]),
    (("relations",), 0, "wrong type", ["relations", "0"]),
    (("orig_id",), ["s1"], "wrong type", ["orig_id", "['s1']"]),
]


@pytest.mark.parametrize(("path", "value", "kind", "data"), DOCUMENT_FAULTS)
def test_a_bad_record_is_refused_or_skipped(array_file, changed, path, value, kind, data):
    whole = list(read_documents(array_file(RECORD)))
    read = partial(read_documents, array_file(RECORD, changed(RECORD, path, value)))
    assert_refused_or_skipped(read, f"document: {kind}", whole, "data.json, record 2", *data)


def test_an_item_that_is_no_object_is_refused_or_skipped(array_file):
    whole = list(read_documents(array_file(RECORD)))
    read = partial(read_documents, array_file(RECORD, "text"))
    assert_refused_or_skipped(read, "document: wrong type", whole, "record 2: ", "'text'")


ENTITY_FAULTS = [
    ({"type": "X", "start": "0", "end": 1}, "wrong type", ["entities[3].start", "'0'"]),
    ({"type": "X", "start": 0.0, "end": 1}, "wrong type", ["entities[3].start", "0.0"]),
    ({"type": "X", "start": 0, "end": True}, "wrong type", ["entities[3].end", "True"]),
    ({"type": 4, "start": 0, "end": 1}, "wrong type", ["entities[3].type", "4"]),
    ({"type": "X", "start": 0}, "missing field", ["entities[3]", "'end'"]),
    ([0, 1, "X"], "wrong type", ["entities[3]", "[0, 1, 'X']"]),
    ({"type": "X", "start": 2, "end": 2}, "end before start", ["entities[3]", "2"]),
    ({"type": "X", "start": 4, "end": 6}, "index out of range", ["entities[3]", "5 tokens"]),
    ({"type": "X", "start": -1, "end": 1}, "index out of range", ["entities[3]", "5 tokens"]),
    ({"type": "Task", "start": 4, "end": 5}, "duplicate", ["'Task'", "[4, 5)"]),
]


RELATION_FAULTS = [
    ({"type": "R", "head": 0, "tail": 3}, "missing entity", [".tail", "3 items"]),
    ({"type": "R", "head": -1, "tail": 0}, "missing entity", [".head", "-1", "3 items"]),
    ({"type": "R", "head": 0.0, "tail": 1}, "wrong type", [".head", "0.0"]),
    ({"type": "R", "head": False, "tail": 1}, "wrong type", [".head", "False"]),
    ({"head": 0, "tail": 1}, "missing field", ["'type'"]),
]


@pytest.mark.parametrize(
    ("field", "name", "item", "kind", "data"),
    [*(("entities", "entity", *f) for f in ENTITY_FAULTS), *(("relations", "relation", *f) for f in RELATION_FAULTS)],
)
def test_a_bad_annotation_is_refused_or_skipped(array_file, changed, field, name, item, kind, data):
    whole = list(read_documents(array_file(RECORD)))
    read = partial(read_documents, array_file(changed(RECORD, (field,), [*RECORD[field], item])))
    assert_refused_or_skipped(read, f"{name}: {kind}", whole, "data.json, record 1, document 's1'", *data)


def test_a_skipped_entity_takes_its_relations_along_and_shifts_no_other(array_file, lenient, changed):
    (document,), report = lenient(array_file(changed(RECORD, ("entities", 1, "end"), 99)))
    assert report.skipped == {"entity: index out of range": 1, "relation: needs a skipped entity": 1}
    assert [(r.head.text, r.label, r.tail.text) for r in document.relations] == [("deep CRF", "Used-for", "tagging")]


def test_a_file_that_is_no_array_is_refused_even_when_lenient(lines_file, lenient):
    with pytest.raises(DataError, match="data.json") as caught:
        lenient(lines_file(RECORD), "spert")
    assert caught.value.option == "format"


def test_what_is_written_is_what_was_read(array_file, tmp_path):
    records = [RECORD, {"tokens": [], "entities": [], "relations": [], "orig_id": ""}]
    write_documents(read_documents(array_file(*records)), tmp_path / "out.json", "spert")
    assert json.loads((tmp_path / "out.json").read_text()) == records


def test_each_sentence_of_a_document_becomes_a_record_with_its_id(tmp_path):
    sentences = [Sentence.from_words(["a"], [Span(0, 1, "X")]), Sentence.from_words(["b", "c"])]
    documents = [Document.from_sentences(sentences, id="d"), Document("", (), "empty")]
    write_documents(documents, tmp_path / "out.json", "spert")
    written = json.loads((tmp_path / "out.json").read_text())
    assert [(r["orig_id"], r["tokens"], len(r["entities"])) for r in written] == [
        ("d", ["a"], 1),
        ("d", ["b", "c"], 0),
        ("empty", [], 0),
    ]


def test_no_documents_make_an_empty_array(tmp_path):
    write_documents([], tmp_path / "out.json", "spert")
    assert json.loads((tmp_path / "out.json").read_bytes()) == []


def test_array_without_documents_is_refused(array_file):
    with pytest.raises(DataError, match="empty"):
        list(read_documents(array_file(), "spert"))
