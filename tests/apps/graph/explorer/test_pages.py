"""Evidence on the pages of PDF files: over HTTP, and in Chromium."""

import struct
import zlib
from dataclasses import replace

import pytest
from tests.apps.graph.documents import document, write_lines
from tests.apps.graph.explorer.live_graph import live_graph
from tests.apps.service.browsing import open_page
from tests.drawing.browser import start_browser
from tests.text.pdf.make import draw_pdf

from cascade_srn.apps.graph import build
from cascade_srn.apps.graph.explorer.pages import COLOURS
from cascade_srn.errors import DataError
from cascade_srn.text.pdf import PdfText, has_pdfium
from cascade_srn.types import Document, Span, Triple

pytestmark = pytest.mark.skipif(not has_pdfium(), reason="the extra pdf is not installed")
SENTENCE = "We train a CRF for parsing."
OTHER = document("other", ("An [LSTM/M] helps [tagging/T] .", [(0, "USED-FOR", 1, 0.8)]))
WIDTH = 1200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a graph of two documents, and the PDF files of it, one of which has changed."""
    made = tmp_path_factory.mktemp("pages")
    (made / "pdfs").mkdir()
    header = (50, 570, 6, "A header")
    pages = [[header, (50, 500, 10, "First page.")], [header, (50, 400, 10, SENTENCE)], [header]]
    (made / "pdfs" / "paper.pdf").write_bytes(draw_pdf(pages))
    (made / "pdfs" / "other.pdf").write_bytes(draw_pdf([[(50, 500, 10, "Another text")]]))
    read = Document.from_text(PdfText.read(made / "pdfs" / "paper.pdf").text, id="paper")
    first, second = read.sentences
    spans = Span(3, 4, "Method", 0.9), Span(5, 6, "Task", 0.9)
    second = replace(second, entities=spans, triples=(Triple(spans[0], "USED-FOR", spans[1], 0.9),))
    write_lines([replace(read, sentences=(first, second)), OTHER], made / "documents.jsonl")
    build([made / "documents.jsonl"], made / "graph")
    return made


@pytest.fixture(scope="module")
def served(folder):
    with live_graph(folder / "graph", pdfs=folder / "pdfs") as client:
        yield client


def rows_of(client):
    found = [client.get("/api/evidence", params={"edge": edge}).json()["evidence"][0] for edge in (0, 1)]
    return {row["document_id"]: row for row in found}


def place_of(row):
    ends = [f"{name}_{end}" for name in ("sentence", "head", "tail") for end in ("start", "end")]
    return {name: row[name] for name in ("document", *ends)}


def read_png(content):
    """Return the pixels of a picture, as bytes of each row."""
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    start = content.index(b"IDAT") + 4
    rows = zlib.decompress(content[start : start + struct.unpack(">I", content[start - 8 : start - 4])[0]])
    return width, [rows[at * (3 * width + 1) + 1 :][: 3 * width] for at in range(height)]


def test_the_page_has_marks(served):
    row = rows_of(served)["paper"]
    assert row["has_page"]
    answer = served.get("/api/page.png", params=place_of(row))
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["page-number"] == "2"
    assert float(answer.headers["page-position"]) == pytest.approx((595 - 407.5) / 595, abs=0.01)
    width, pixels = read_png(answer.content)
    assert width == WIDTH
    scale = WIDTH / 420
    at = pixels[round((595 - 401) * scale)]
    assert at.count(bytes(COLOURS["sentence"])) > 100
    assert min(at.count(bytes(COLOURS[end])) for end in ("head", "tail")) > 20
    assert not any(set(row) - {255} for row in pixels[round((595 - 380) * scale) :])


def test_pages_that_cannot_be_shown(served, folder, explored):
    row = rows_of(served)["other"]
    answer = served.get("/api/page.png", params=place_of(row))
    assert answer.status_code == 422
    assert "is not the one in the graph" in answer.text
    assert served.get("/api/page.png", params=place_of(row) | {"document": 99}).status_code == 404
    assert served.get("/api/page.png", params={"document": 0}).status_code == 422
    # Without the files of the graph.
    assert explored.get("/api/page.png", params=place_of(row)).status_code == 404
    with live_graph(folder / "graph") as client:
        assert "has_page" not in rows_of(client)["paper"]
    with (
        pytest.raises(DataError, match="no file that ends in .pdf"),
        live_graph(folder / "graph", pdfs=folder / "graph"),
    ):
        pass


@pytest.mark.browser
def test_the_page_in_a_browser(served, tmp_path):
    row = rows_of(served)["paper"]
    url = str(served.base_url).rstrip("/")
    edge = next(
        edge for edge in (0, 1) if served.get("/api/evidence", params={"edge": edge}).json()["evidence"][0] == row
    )
    for browser in start_browser():
        with open_page(browser, f"{url}/#edge={edge}", url=url, reduced_motion="reduce") as page:
            page.get_by_role("button", name="PDF page").click()
            picture = page.get_by_role("img", name="Page 2 of paper with the sentence")
            picture.wait_for()
            assert picture.evaluate("async (img) => { await img.decode(); return img.naturalWidth; }") == WIDTH
            picture.screenshot(path=tmp_path / "page.png")
            page.get_by_role("button", name="PDF page").click()
            picture.wait_for(state="hidden")
