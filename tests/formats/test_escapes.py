"""Penn Treebank escapes in formats with tokens are read as the characters that they stand for."""

import json

import pytest

from cascade_srn.errors import AnnotationError
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.formats.reports import ESCAPES
from cascade_srn.types import Document, Sentence, Span

TOKENS = ["A", "``", "CRF", "''", "-LRB-", "1\\/2", "-rrb-", "(", '"', "."]
WORDS = ("A", '"', "CRF", '"', "(", "1/2", ")", "(", '"', ".")
N_ESCAPES = 5
RECORDS = {
    "dygie": {
        "doc_key": "d",
        "sentences": [["One", "."], TOKENS],
        "ner": [[], [[4, 4, "Method"]]],
        "relations": [[], []],
    },
    "spert": {
        "tokens": TOKENS,
        "entities": [{"type": "Method", "start": 2, "end": 3}],
        "relations": [],
        "orig_id": "d",
    },
}


@pytest.fixture(params=RECORDS)
def form(request):
    return request.param


@pytest.fixture
def path(form, tmp_path):
    record = json.dumps(RECORDS[form])
    path = tmp_path / "data.json"
    path.write_text(record if form == "dygie" else f"[{record}]", encoding="utf-8")
    return path


def written(path, form):
    record = json.loads(path.read_text(encoding="utf-8"))
    return record if form == "dygie" else record[0]


def test_escapes_are_read_as_characters_and_counted(path):
    stream = read_documents(path)
    (document,) = stream
    assert document.sentences[-1].words == WORDS
    assert document.sentences[-1].escaped == tuple(TOKENS)
    assert document.text.endswith('A " CRF " ( 1/2 ) ( " .')
    assert [entity.text for entity in document.entities] == ["CRF"]
    assert stream.report.noted[ESCAPES] == N_ESCAPES
    assert [example.value for example in stream.report.examples[ESCAPES]] == ["'``'", "\"''\"", "'-LRB-'"]


def test_escapes_can_be_kept(path, form, tmp_path):
    stream = read_documents(path, keep_escapes=True)
    (document,) = stream
    assert document.sentences[-1].words == tuple(TOKENS)
    assert ESCAPES not in stream.report.noted
    write_documents(stream, tmp_path / "again.json", form)
    assert written(tmp_path / "again.json", form) == RECORDS[form]


def test_escapes_can_be_written_back(path, form, tmp_path):
    documents = list(read_documents(path))
    write_documents(documents, tmp_path / "again.json", form, keep_escapes=True)
    assert written(tmp_path / "again.json", form) == RECORDS[form]
    assert list(read_documents(tmp_path / "again.json")) == documents
    write_documents(documents, tmp_path / "natural.json", form)
    natural = written(tmp_path / "natural.json", form)
    assert natural["sentences" if form == "dygie" else "tokens"] != RECORDS[form].get("sentences", TOKENS)
    # A format with text gets the tokens joined by spaces.
    write_documents(documents, tmp_path / "text.jsonl", keep_escapes=True)
    (through,) = read_documents(tmp_path / "text.jsonl")
    assert [sentence.words for sentence in through.sentences][-1] == tuple(TOKENS)
    assert [entity.text for entity in through.entities] == ["CRF"]


def test_other_annotations_keep_the_escapes(path, form, tmp_path):
    (document,) = read_documents(path)
    *others, last = document.sentences
    predicted = Document.from_sentences([*others, last.annotated([Span(0, 1, "Task")], [])], id="d")
    write_documents([predicted], tmp_path / "predicted.json", form, keep_escapes=True)
    found = written(tmp_path / "predicted.json", form)
    assert (found["sentences"][-1] if form == "dygie" else found["tokens"]) == TOKENS


def test_running_text_is_never_changed(tmp_path):
    text = "A -LRB- CRF -RRB- ``x'' 1\\/2."
    (tmp_path / "data.jsonl").write_text(json.dumps({"id": "d", "text": text}) + "\n", encoding="utf-8")
    (tmp_path / "brat").mkdir()
    (tmp_path / "brat" / "d.txt").write_text(text, encoding="utf-8")
    (tmp_path / "brat" / "d.ann").write_text("", encoding="utf-8")
    for path, format in (("data.jsonl", "jsonl"), ("brat", "brat")):
        stream = read_documents(tmp_path / path, format)
        (document,) = stream
        assert document.text == text
        assert "-LRB-" in document.text
        assert ESCAPES not in stream.report.noted


def test_escaped_words_must_match_the_words():
    with pytest.raises(AnnotationError):
        Sentence.from_words(["(", "a"], escaped=["-LRB-"])
