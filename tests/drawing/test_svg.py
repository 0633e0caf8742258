"""SVG pictures: well-formed for any input, self-contained, and consistent with HTML."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER
from tests.drawing.sentences import DOCUMENT, HOSTILE, PLAIN, SCHEMA

from cascade_srn.drawing import draw_svg
from cascade_srn.errors import ConfigError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

# Characters that XML does not allow become replacement characters.
INVALID_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
NAME = "{http://www.w3.org/2000/svg}"


def draw(document, **options):
    return ElementTree.fromstring(draw_svg(document, **{"schema": SCHEMA} | options))


def texts(root, css):
    return ["".join(element.itertext()) for element in root.iter(f"{NAME}text") if element.get("class") == css]


def test_words_are_one_text():
    (line,) = texts(draw(Document.from_text("We don't (yet) train a CRF, do we?")), "w")
    assert line == "We don't (yet) train a CRF, do we?"


def test_long_documents_are_split_into_lines():
    document = Document.from_text("some words of a long sentence " * 20)
    root = draw(document, width=400)
    assert " ".join(texts(root, "w")).split() == document.text.split()
    assert len(texts(root, "w")) > 5
    assert root.get("width") == "400"
    assert {float(span.get("x")) < 400 for span in root.iter(f"{NAME}tspan")} == {True}
    assert float(root.get("height")) > float(draw(document, width=1200).get("height"))


def test_entities_and_relations_are_labelled():
    root = draw(Document.from_sentences([PLAIN], id="one"))
    assert texts(root, "k") == ["Method", "Task"]
    assert texts(root, "r") == ["USED-FOR →"]
    assert texts(root, "g") == ["Method", "Task", "USED-FOR"]
    assert texts(root, "h") == ["one"]


def test_scores_are_in_titles_and_everything_in_the_description():
    root = draw(Document.from_sentences([PLAIN], id="one"))
    titles = [title.text for title in root.iter(f"{NAME}title")]
    assert titles[0] == "one"
    assert "CRF: Method, score 0.93" in titles
    assert "CRF — USED-FOR → tagging, score 0.88" in titles
    assert root.get("role") == "img"
    assert root.find(f"{NAME}desc").text.splitlines() == [
        "We train a CRF for tagging .",
        "CRF: Method, score 0.93",
        "tagging: Task",
        "CRF — USED-FOR → tagging, score 0.88",
    ]


def test_colours_follow_the_schema():
    root = draw(Document.from_sentences([PLAIN]), schema=Schema(("Task", "Method"), ("USED-FOR",)))
    groups = {
        g.find(f"{NAME}text").text: g.get("class") for g in root.iter(f"{NAME}g") if g.find(f"{NAME}text") is not None
    }
    assert groups["Method"] == "c1"
    assert groups["Task"] == "c0"


def test_input_is_escaped_and_nothing_is_external():
    svg = draw_svg(Document.from_sentences([HOSTILE], id='<script>"&]]>'), schema=SCHEMA)
    root = ElementTree.fromstring(svg)
    allowed = {"svg", "g", "title", "desc", "style", "rect", "path", "circle", "text", "tspan"}
    assert {element.tag.removeprefix(NAME) for element in root.iter()} <= allowed
    for element in root.iter():
        assert not [name for name in element.keys() if name.startswith("on") or "href" in name]  # noqa: SIM118
    assert not re.search(r"url\(|@import|@font-face|http(?!://www\.w3\.org/2000/svg\")", svg)
    assert texts(root, "h") == ['<script>"&]]>']
    (line,) = texts(root, "w")
    assert line == '<script>alert(1)</script> & "quoted" </noscript><b>'


@given(st.text(ANY_CHARACTER), st.text(ANY_CHARACTER, min_size=1).filter(str.strip), st.text(ANY_CHARACTER))
def test_svg_is_well_formed_for_any_text(text, label, id):
    document = Document.from_text(text, id=id)
    sentences = []
    for one in document.sentences:
        span = Span(0, len(one), label)
        sentences.append(one.annotated([span], [Triple(span, label, span)]))
    root = draw(Document(text, tuple(sentences), id), width=300)
    shown = "".join("".join(texts(root, "w")).split())
    # Markup between two words is shown, too.
    inside = " ".join(text[one.start : one.end] for one in sentences)
    assert shown == "".join(inside.split()).translate(INVALID_XML)


def test_right_to_left_text_starts_on_the_right():
    words = Sentence.from_words(["המודל", "החדש", "פותח"], [Span(0, 1, "Task"), Span(2, 3, "Task")])
    root = draw(Document.from_sentences([words]), width=500)
    places = [float(span.get("x")) for span in root.iter(f"{NAME}tspan")]
    assert places == sorted(places, reverse=True)
    assert places[0] == 460
    (line,) = [text for text in root.iter(f"{NAME}text") if text.get("class") == "w"]
    assert line.get("direction") == "rtl"


def test_text_between_words():
    text = "Lund, (of all places) it is"
    one = Sentence(("Lund", "it", "is"), ((0, 4), (22, 24), (25, 27)))
    root = draw(Document(text, (one,)))
    assert texts(root, "w") == ["Lund, (of all places) it is"]
    assert [span.text for span in root.iter(f"{NAME}tspan") if span.get("class") == "q"] == [", (of all places)"]


def test_empty_document():
    root = draw(Document(""))
    assert texts(root, "w") == []
    assert float(root.get("height")) > 0
    draw(DOCUMENT, width=160)


def test_too_narrow():
    with pytest.raises(ConfigError, match="width is 100.*160"):
        draw_svg(DOCUMENT, width=100)


def test_svg_needs_no_jinja2():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from cascade_srn import Document\nfrom cascade_srn.drawing import draw_svg\n"
        "print(draw_svg(Document.from_text('We train.'))[:4], [n for n in ('torch', 'numpy') if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "<svg []"
