"""Annotations that would be lost: unread fields, skipped documents, entities on the same words, other encodings."""

import json

import pytest

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import MERGED

TEXT = {"text": "Ada Berg leads Norlux."}
DOCCANO = {**TEXT, "id": 1, "label": [[0, 8, "Person"]]}
PRODIGY = {
    **TEXT,
    "_input_hash": 1,
    "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0}],
    "spans": [{"start": 0, "end": 8, "token_start": 0, "token_end": 1, "label": "Person"}],
}
CASREL = {**TEXT, "triple_list": [["Ada Berg", "leads", "Norlux"]]}
DYGIE = {"doc_key": "a", "sentences": [["Ada", "Berg"]], "predicted_ner": [[[0, 1, "Person", 3.1, 0.9]]]}


@pytest.mark.parametrize(
    ("record", "field", "origin"),
    [
        (DOCCANO, "label", "doccano"),
        (PRODIGY, "spans", "prodigy"),
        (CASREL, "triple_list", "triples"),
        (DYGIE, "predicted_ner", "DyGIE"),
        ({**TEXT, "annotations": [{"result": []}]}, "annotations", "label-studio"),
        ({**TEXT, "marks": [{"from": 0}]}, "marks", None),
        ({**TEXT, "tags": ["B-Person", "I-Person", "O"]}, "tags", None),
    ],
)
def test_annotations_in_another_field_are_an_error(lines_file, record, field, origin):
    with pytest.raises(DataError, match=repr(field)) as caught:
        list(read_documents(lines_file(record, record), "dygie" if "doc_key" in record else "jsonl"))
    assert (origin or "") in caught.value.problem
    assert ("looks like" in caught.value.problem) == (origin is not None)


def test_records_without_annotations_among_them(lines_file):
    with pytest.raises(DataError, match="doccano"):
        list(read_documents(lines_file({**TEXT, "label": []}, DOCCANO), "jsonl"))


@pytest.mark.parametrize(
    "records",
    [
        [{**DOCCANO, "entities": [{"start": 0, "end": 8, "label": "Person"}]}],
        [DOCCANO, {**TEXT, "entities": []}],
        [{**TEXT, "keywords": ["one", "two"]}],
        [{**TEXT, "events": [[[0, 1]]]}],
        [{**TEXT, "authors": []}],
        [TEXT],
    ],
    ids=["entities are read", "not in every record", "strings", "known field", "empty", "no field"],
)
def test_other_fields_are_noted_only(lines_file, records):
    stream = read_documents(lines_file(*records), "jsonl")
    assert len(list(stream)) == len(records)


def test_error_comes_after_the_documents(lines_file):
    stream = iter(read_documents(lines_file(DOCCANO), "jsonl"))
    assert next(stream).text == TEXT["text"]
    with pytest.raises(DataError):
        next(stream)


def test_all_documents_malformed(lines_file):
    path = lines_file({"text": 3}, {"text": 4})
    with pytest.raises(DataError, match="all 2 documents"):
        list(read_documents(path, "jsonl", strict=False))
    assert len(list(read_documents(lines_file({"text": 3}, TEXT), "jsonl", strict=False))) == 1


class TestSameWords:
    ENTITIES = ({"start": 0, "end": 2, "label": "A"}, {"start": 1, "end": 3, "label": "A"})

    def read(self, path, **options):
        stream = read_documents(path, align="expand", **options)
        return list(stream), stream.report

    def test_entities_on_the_same_words_are_merged(self, lines_file):
        relation = {"head": 1, "tail": 2, "label": "near"}
        other = {"start": 15, "end": 21, "label": "B"}
        record = {**TEXT, "entities": [*self.ENTITIES, other], "relations": [relation]}
        (document,), report = self.read(lines_file(record))
        assert [(e.text, e.label) for e in document.entities] == [("Ada", "A"), ("Norlux", "B")]
        assert [(r.head.text, r.tail.text) for r in document.relations] == [("Ada", "Norlux")]
        assert report.noted[MERGED] == 1

    def test_repetition_of_the_file_is_refused(self, lines_file):
        with pytest.raises(DataError, match="repeats"):
            self.read(lines_file({**TEXT, "entities": [self.ENTITIES[0], self.ENTITIES[0]]}))


RECORD = {"text": "Übung 🙂", "entities": [{"start": 0, "end": 5, "label": "A"}]}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
class TestEncodings:
    def test_json_lines(self, tmp_path, encoding):
        path = tmp_path / "data.jsonl"
        path.write_bytes("".join(json.dumps(RECORD, ensure_ascii=False) + "\n" for _ in range(3)).encode(encoding))
        documents = list(read_documents(path))
        assert [e.text for document in documents for e in document.entities] == ["Übung"] * 3

    def test_array(self, tmp_path, encoding):
        path = tmp_path / "data.json"
        path.write_bytes(json.dumps([{"tokens": ["a"], "entities": [], "relations": []}]).encode(encoding))
        assert len(list(read_documents(path))) == 1

    def test_brat(self, tmp_path, encoding):
        (tmp_path / "a.txt").write_bytes("Übung".encode(encoding))
        (tmp_path / "a.ann").write_bytes("T1\tA 0 5\tÜbung\n".encode(encoding))
        (document,) = read_documents(tmp_path)
        assert [e.text for e in document.entities] == ["Übung"]

    def test_damaged_file(self, tmp_path, encoding):
        path = tmp_path / "data.jsonl"
        path.write_bytes('{"text": "a"}\n'.encode(encoding) + b"\n")
        with pytest.raises(DataError, match=encoding.upper()):
            list(read_documents(path, "jsonl"))
