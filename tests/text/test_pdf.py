"""Text of PDF files. The files in ``tests/text/pdf`` were made with its ``make.py``."""

import re
import sys
import zlib
from pathlib import Path

import pytest
from tests.text.pdf.make import PARAGRAPHS, draw_pdf

from cascade_srn.errors import DataError
from cascade_srn.text import pdf
from cascade_srn.text.pdf import PageBoxes, PdfText, is_pdf, parse_pdf, read_pdf

FILES = Path(__file__).parents[1] / "text" / "pdf"
needs_pdfium = pytest.mark.skipif(not pdf.has_pdfium(), reason="the extra pdf is not installed")
pytestmark = pytest.mark.filterwarnings("error")


def words(text):
    """Return the words of a text, with hyphens at line ends removed."""
    return re.sub(r"-\n", "", text).split()


def simple(*lines):
    return draw_pdf([[(50, 500 - 12 * at, 10, line) for at, line in enumerate(lines)]])


def expected(name):
    return (FILES / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


@needs_pdfium
def test_columns_are_read_in_order_without_headers_and_page_numbers():
    text = read_pdf(str(FILES / "columns.pdf"))
    assert text == expected("columns")
    paragraphs = text.split("\n\n")
    source = [paragraph.replace("s-s", "ss").replace("i-m", "im").split() for paragraph in PARAGRAPHS]
    # Paragraphs that continue in another column or on another page are whole.
    assert [words(one) for one in paragraphs if words(one) in source] == source * 5
    others = [one for one in paragraphs if words(one) not in source]
    assert others[0] == "Parsing with a Stack of Partial Trees"
    assert [one for one in others if "Section" in one] == [f"{number} Section of the Paper" for number in range(1, 6)]
    assert "CRF 81.2 79.9\nParser 84.0 83.5" in others
    assert "1 It is on the last page." in others
    assert len(others) == 9


@needs_pdfium
def test_rows_of_columns_are_put_in_order():
    found = read_pdf(FILES / "rows.pdf")
    assert found == expected("rows")
    title, text = found.split("\n\n")
    assert title == "A title across both columns of the page"
    source = " ".join(PARAGRAPHS * 4).replace("s-s", "ss").replace("i-m", "im")
    assert text.split() == source.split()


def damage(kind):
    data = simple("one", "two")
    return {
        "no PDF": b"plain text",
        "only the mark": b"%PDF-1.7\n",
        "no text": draw_pdf([[]]),
        "encrypted": (FILES / "encrypted.pdf").read_bytes(),
        "zeros": b"%PDF-1.4\n" + bytes(2000),
        "truncated": data[:-200],
    }[kind]


@needs_pdfium
@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("no PDF", "is not a PDF"),
        ("only the mark", "is damaged"),
        ("no text", "contains no text"),
        ("encrypted", "is encrypted"),
        ("zeros", "is damaged"),
        ("truncated", "is damaged"),
    ],
)
def test_files_that_cannot_be_read(kind, problem):
    with pytest.raises(DataError, match=problem) as caught:
        parse_pdf(damage(kind), "a.pdf")
    assert caught.value.problem.startswith("a.pdf: ")
    assert caught.value.hint


@needs_pdfium
@pytest.mark.parametrize(
    ("limit", "value", "problem"),
    [
        ("MAX_BYTES", 500, "more than 0 MB"),
        ("MAX_PAGES", 1, "has 2 pages, more than 1"),
        ("MAX_CHARACTERS", 10, "more than 10 characters"),
    ],
)
def test_limits(monkeypatch, limit, value, problem):
    monkeypatch.setattr(pdf, limit, value)
    with pytest.raises(DataError, match=problem):
        parse_pdf(draw_pdf([[(50, 500, 10, "some words")]] * 2), "a.pdf")


@needs_pdfium
def test_a_page_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(pdf, "MAX_SECONDS_PER_PAGE", 0.001)  # less than the import takes
    with pytest.raises(DataError, match="took more than 0.001 seconds"):
        parse_pdf(simple("one"), "a.pdf")


@pytest.mark.parametrize(
    ("worker", "problem"), [("import os; os.abort()", "stopped"), ("raise SystemExit(1)", "took more than")]
)
def test_a_reader_that_ends_early(monkeypatch, tmp_path, worker, problem):
    (tmp_path / "worker.py").write_text(worker, encoding="utf-8")
    monkeypatch.setattr(pdf, "has_pdfium", lambda: True)
    monkeypatch.setattr(pdf.pdf_worker, "__file__", str(tmp_path / "worker.py"))
    with pytest.raises(DataError, match=problem):
        parse_pdf(simple("one"), "a.pdf")


@pytest.mark.slow
@needs_pdfium
def test_a_stream_that_expands_without_end():
    bomb = zlib.compress(bytes(100_000_000), 9)
    data = simple("one").replace(b"/Contents 5 0 R", b"/Contents 9 0 R")
    body = b"9 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\n" % (len(bomb), bomb)
    # Without a valid table of places, the objects are searched.
    with pytest.raises(DataError):
        parse_pdf(data.replace(b"xref\n0 ", body + b"xref\n9 "), "a.pdf")


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(DataError, match="pypdfium2") as caught:
        parse_pdf(simple("one"), "a.pdf")
    assert "cascade-srn[pdf]" in caught.value.hint


def test_the_mark():
    assert is_pdf(simple("one"))
    assert not is_pdf(b"A text about %PDF-1.4")


@needs_pdfium
def test_bytes_before_the_mark():
    assert parse_pdf(b"\n\nHTTP rest\n" + simple("one"), "a.pdf").text == "one"


@needs_pdfium
def test_places_on_pages():
    found = PdfText.read(FILES / "columns.pdf")
    start = found.text.index("sentence from\nleft")
    (place,) = found.locate(start, start + len("sentence from\nleft"))
    assert place.page == 0
    (upper, lower) = place.boxes
    assert upper[0] > lower[0]
    assert upper[1] > lower[3] - 3
    assert found.locate(start, start + 2) == [
        PageBoxes(0, (upper[:2] + found.locate(start, start + 8)[0].boxes[0][2:],))
    ]
    assert {each.page for each in found.locate(0, len(found.text))} == {0, 1}


@needs_pdfium
@pytest.mark.parametrize(
    ("matrix", "box"), [("0 1 -1 0 300 50", (292.5, 50, 302.2, 68)), ("-1 0 0 -1 300 50", (282, 42.5, 300, 52.2))]
)
def test_turned_pages(matrix, box):
    found = parse_pdf(draw_pdf([[(0, 0, 10, "one")]], matrix), "a.pdf")
    assert found.text == "one"
    assert found.locate(0, 3)[0].boxes[0] == pytest.approx(box)


@needs_pdfium
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[(mo) -28 (del) -333 (p) -28 (erform)] TJ", "model perform"),  # letters moved apart, and a tight space
        ("[(of) -140 (the)] TJ", "of the"),
        ("[(T) 80 (able) -333 (1)] TJ", "Table 1"),
        ("4 Tc (ABSTRACT) Tj", "ABSTRACT"),
        ("[(messages) 300 ( ) 300 (sent)] TJ", "messages sent"),  # as in texts of scans
        ("(one ) Tj 60 0 Td (two) Tj", "one two"),
        ("(Andr) Tj 24 0 Td (\\264) Tj 0 0 Td (e) Tj", "André"),
    ],
)
def test_words_from_the_places_of_characters(content, text):
    assert parse_pdf(draw_pdf([[(50, 500, 10, content)]], raw=True), "a.pdf").text == text


@needs_pdfium
def test_pages_that_draw_nothing_known():
    codes = "".join(f"\\{code:03o}" for code in (*range(1, 9), *range(16, 27))) * 3
    with pytest.raises(DataError, match="do not say which letters"):
        parse_pdf(draw_pdf([[(50, 500, 10, f"({codes}) Tj")]], raw=True), "a.pdf")
