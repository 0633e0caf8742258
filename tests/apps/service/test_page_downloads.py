"""Downloads of the page: JSON lines, brat files and the SVG picture."""

import xml.etree.ElementTree as ET

import pytest
from tests.apps.service.browsing import (
    ATTACK,
    EMOJI,
    TEXT,
    enter_text,
    open_page,
    set_min_score,
    trained_extractor,
)
from tests.apps.service.live import live

from cascade_srn import read_documents
from cascade_srn.drawing import draw_svg

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def url(browser):
    with live(trained_extractor()) as running:
        yield running.url


def download(page, form, folder):
    with page.expect_download() as started:
        page.click(f"#get-{form}")
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    assert path.name == f"extracted.{form}"
    return path


def annotations(document):
    return (
        sorted((e.start, e.end, e.label, e.text) for e in document.entities),
        sorted((r.head.text, r.label, r.tail.text) for r in document.relations),
    )


@pytest.mark.parametrize("text", [TEXT, EMOJI, ATTACK])
def test_json_lines_and_brat(browser, url, tmp_path, text):
    document = trained_extractor().extract(text)
    with open_page(browser, url) as page:
        enter_text(page, text)
        (read,) = read_documents(download(page, "jsonl", tmp_path), format="jsonl")
        assert read == document
        assert [e.score for e in read.entities] == pytest.approx([e.score for e in document.entities])
        brat = tmp_path / "brat"
        brat.mkdir()
        assert download(page, "txt", brat).read_text(encoding="utf-8") == text
        download(page, "ann", brat)
        (read,) = read_documents(brat, format="brat")
        assert annotations(read) == annotations(document)


def test_hidden_results_are_not_downloaded(browser, url, tmp_path):
    document = trained_extractor().extract(TEXT)
    kept = tuple(entity for entity in document.entities if entity.score >= 0.8)
    assert 0 < len(kept) < len(document.entities)
    with open_page(browser, url) as page:
        enter_text(page, TEXT)
        set_min_score(page, 0.8)
        (read,) = read_documents(download(page, "jsonl", tmp_path), format="jsonl")
        picture = download(page, "svg", tmp_path).read_text(encoding="utf-8")
    assert read.entities == kept
    assert read.relations == ()
    assert "leads →" not in picture


@pytest.mark.parametrize(("text", "view"), [(TEXT, "triples"), (f"{ATTACK} \x0b\x01", "drawing")])
def test_svg_is_the_picture_of_the_library(browser, url, tmp_path, text, view):
    document = trained_extractor().extract(text)
    with open_page(browser, url) as page:
        enter_text(page, text)
        page.click(f"#tab-{view}")
        path = download(page, "svg", tmp_path)
    assert ET.parse(path).getroot().tag == f"{SVG}svg"
    assert path.read_text(encoding="utf-8") == draw_svg(document, schema=trained_extractor().schema)
