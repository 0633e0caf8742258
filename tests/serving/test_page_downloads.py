"""What the page saves: JSON lines and brat files that the library reads, a picture that stands for itself."""

import xml.etree.ElementTree as ET
import zipfile

import pytest
from tests.drawing.browser import start_browser
from tests.serving.browsing import ATTACK, EMOJI, TEXT, slide, taught_extractor, visiting, write
from tests.serving.live import live

from cascade_srn import read_documents

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture(scope="module")
def url(browser):
    with live(taught_extractor()) as running:
        yield running.url


def downloaded(page, form, folder):
    with page.expect_download() as started:
        page.click(f"#get-{form}")
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def annotations(document):
    return (
        [(e.start, e.end, e.label, e.text) for e in document.entities],
        [(r.head.text, r.label, r.tail.text) for r in document.relations],
    )


@pytest.mark.parametrize("text", [TEXT, EMOJI, ATTACK])
def test_json_lines_and_brat(browser, url, tmp_path, text):
    document = taught_extractor().extract(text)
    with visiting(browser, url) as page:
        write(page, text)
        path = downloaded(page, "jsonl", tmp_path)
        assert path.name == "extracted.jsonl"
        (read,) = read_documents(path, format="jsonl")
        assert read == document
        assert [e.score for e in read.entities] == pytest.approx([e.score for e in document.entities])
        archive = downloaded(page, "brat", tmp_path)
        assert archive.name == "extracted-brat.zip"
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(tmp_path / "brat")
        (read,) = read_documents(tmp_path / "brat", format="brat")
        assert read.text == text
        assert [sorted(found) for found in annotations(read)] == [sorted(found) for found in annotations(document)]


def test_what_is_hidden_is_not_saved(browser, url, tmp_path):
    document = taught_extractor().extract(TEXT)
    with visiting(browser, url) as page:
        write(page, TEXT)
        slide(page, 0.8)
        (read,) = read_documents(downloaded(page, "jsonl", tmp_path), format="jsonl")
    kept = [entity for entity in document.entities if entity.score >= 0.8]
    assert read.entities == tuple(kept)
    assert read.relations == ()
    assert 0 < len(kept) < len(document.entities)


@pytest.mark.parametrize(("text", "width"), [(TEXT, "phone"), (f"{ATTACK} \x0b\x01", "desktop")])
def test_picture(browser, url, tmp_path, text, width):
    document = taught_extractor().extract(text)
    with visiting(browser, url, width=width) as page:
        write(page, text)
        # Whichever view is open.
        page.click("#tab-triples")
        path = downloaded(page, "svg", tmp_path)
        assert path.name == "extracted.svg"
        assert page.locator(".studio").count() == 0
    root = ET.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    assert root.get("width") == "940"
    told = [element.text for element in root.iter(f"{SVG}text")]
    # XML has no place for control characters.
    words = [word.replace("\x01", "\ufffd") for sentence in document.sentences for word in sentence.words]
    assert [one for one in told if one in words][: len(words)] == words
    for label in {e.label for e in document.entities} | {r.label for r in document.relations}:
        assert any(label in one for one in told)
    # Arcs, and an arrow head or a dot at each of their ends.
    assert sum(1 for _ in root.iter(f"{SVG}path")) >= 2 * len(document.relations)
    allowed = {f"{SVG}{tag}" for tag in ("svg", "title", "rect", "path", "line", "circle", "text")}
    assert {element.tag for element in root.iter()} <= allowed
    # All of it lies within the picture.
    left, top, wide, high = map(float, root.get("viewBox").split())
    for element in root.iter(f"{SVG}text"):
        assert left <= float(element.get("x"))
        assert float(element.get("x")) + float(element.get("textLength")) <= left + wide
        assert top <= float(element.get("y")) <= top + high
