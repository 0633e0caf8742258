"""Tables of spans: texts that spreadsheet programs would run as formulas."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.formats.table import NUMBER, escape_cell, unescape_cell
from cascade_srn.types import Document, Sentence, Span, Triple


@given(st.text("'=+-@\t\r\n 05.ex"))
@example("-0.5")
@example("'-0.5")
@example("-0.5\n")
def test_every_text_survives_and_none_is_a_formula(text):
    written = escape_cell(text)
    assert unescape_cell(written) == text
    assert written[:1] not in {*"=+-@\t\r"} or re.fullmatch(NUMBER, written)


@pytest.mark.parametrize("value", ["-0.5", "+1e-05", "-12", "-3.", -0.5, 7, None, "", "CRF", "'quoted'", "a=b"])
def test_numbers_and_other_texts_stay(value):
    assert escape_cell(value) is value


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_documents_are_read_back(tmp_path, suffix):
    words = ["=CRF", "+tags", "'@text", "'", "-"]
    spans = [Span(0, 1, "@Method"), Span(2, 3, "-Material")]
    sentence = Sentence.from_words(words, spans, [Triple(spans[0], "+Used-for", spans[1])])
    documents = [
        Document.from_sentences([sentence], id="-1"),
        Document.from_text("-5", id="=1"),
        Document.from_text("'=", id="\tid"),
    ]
    path = tmp_path / f"a.{suffix}"
    write_documents(documents, path, format="table")
    assert "'=CRF" in path.read_text(encoding="utf-8")
    found = list(read_documents(path, format="table"))
    assert [(each.id, each.text, set(each.entities), set(each.relations)) for each in found] == [
        (each.id, each.text, set(each.entities), set(each.relations)) for each in documents
    ]
