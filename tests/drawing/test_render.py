import subprocess
import sys

import pytest
from tests.drawing.markup import assert_no_network, read_markup
from tests.drawing.sentences import (
    ALL,
    DOCUMENT,
    HOSTILE,
    LONG_ENTITY,
    NESTED,
    PARALLEL,
    PLAIN,
    RIGHT_TO_LEFT,
    SCHEMA,
    sentence,
)

from cascade_srn.drawing import Mark, draw_document, draw_page, draw_sentence
from cascade_srn.errors import ConfigError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span


def draw(sentence, **settings):
    return read_markup(draw_sentence(sentence, **{"schema": SCHEMA} | settings))


@pytest.mark.parametrize("sentence", ALL)
def test_all_words_and_labels_are_there(sentence):
    root = draw(sentence)
    assert [word.text for word in root.all("span", "word")] == list(sentence.words)
    labels = [bar.text for bar in root.all("b", "bar") if bar.text]
    assert sorted(labels) == sorted(entity.label for entity in sentence.entities)
    on_arcs = {label.text.strip("←→ ") for curve in root.all("div", "curve") for label in curve.all("b")}
    assert on_arcs == {triple.label for triple in sentence.triples}


def test_screen_readers_get_text_instead_of_the_drawing():
    root = draw(PLAIN, name="gold <1>")
    (figure,) = root.all("figure")
    assert figure.attributes["aria-label"] == "gold <1>"
    (hidden,) = root.all("div", "visually-hidden")
    assert [line.text for line in hidden.all("li")] == [
        "CRF: Method, score 0.93",
        "tagging: Task",
        "CRF — USED-FOR → tagging, score 0.88",
    ]
    assert hidden.all("p")[0].text == "We train a CRF for tagging ."
    (lines,) = root.all("div", "lines")
    assert lines.attributes["aria-hidden"] == "true"


def test_scores_are_shown_on_hover():
    root = draw(PLAIN)
    assert [bar.attributes["title"] for bar in root.all("b", "bar")] == ["CRF: Method, score 0.93", "tagging: Task"]
    (label,) = [label for curve in root.all("div", "curve") for label in curve.all("b")]
    assert label.attributes["title"] == "CRF — USED-FOR → tagging, score 0.88"


def test_listing_as_details():
    root = draw(PLAIN, listing="details")
    (details,) = root.all("details")
    assert details.all("summary")[0].text == "2 entities, 1 relation"
    assert len(details.all("li")) == 3
    assert not root.all("div", "visually-hidden")
    with pytest.raises(ConfigError, match="listing is 'detail'.*'details'"):
        draw_sentence(PLAIN, listing="detail")


def test_input_is_escaped():
    html = draw_page([Document.from_sentences([HOSTILE], id="<script>id</script>")], title="<script>title</script>")
    root = read_markup(html)
    assert not root.all("script")
    assert not root.all("i")
    assert "noscript" not in {element.tag for element in root.all()}
    assert [e.text for e in root.all("title")] == ["<script>title</script>"]
    assert [e.text for e in root.all("h2")] == ["<script>id</script>"]
    assert root.all("b", "bar")[0].text == "<b>L</b>"
    assert root.all("b", "bar")[1].attributes["title"] == '"quoted" </noscript><b>: "\'>Task'


def test_arrows():
    root = draw(PARALLEL)
    found = {
        (label.text, "to-left" in curve.classes, "to-right" in curve.classes)
        for curve in root.all("div", "curve")
        for label in curve.all("b")
    }
    assert found == {
        ("USED-FOR →", False, True),
        ("← USED-FOR", True, False),
        ("PART-OF →", False, True),
        ("COMPARE", False, False),
    }


def test_right_to_left_text_is_laid_out_from_the_right():
    root = draw(RIGHT_TO_LEFT)
    assert [e.attributes["dir"] for e in root.all() if "dir" in e.attributes] == ["rtl", "rtl"]
    arcs = [label.text for curve in root.all("div", "curve") for label in curve.all("b")]
    # In right-to-left text, later words are further left.
    assert arcs == ["USED-FOR ←", "COMPARE", "PART-OF ←"]


def test_colours_follow_the_schema():
    assert [bar.classes[1] for bar in draw(PLAIN).all("b", "bar")] == ["c0", "c1"]
    turned = Schema(SCHEMA.entity_types[::-1], SCHEMA.relation_types)
    assert [bar.classes[1] for bar in draw(PLAIN, schema=turned).all("b", "bar")] == ["c2", "c1"]
    assert [bar.classes[1] for bar in draw(PLAIN, schema=None).all("b", "bar")] == ["c0", "c1"]


def test_marks():
    root = draw(PLAIN, marks={PLAIN.entities[1]: Mark("odd", "tag", "a note"), PLAIN.triples[0]: Mark("even", "RNF")})
    plain, marked = root.all("b", "bar")
    assert plain.text == "Method"
    assert marked.text == "Task · tag"
    assert "odd" in marked.classes
    assert marked.attributes["title"] == "tagging: Task (a note)"
    assert all("even" in curve.classes for curve in root.all("div", "curve"))
    assert [label.text for curve in root.all("div", "curve") for label in curve.all("b")] == ["USED-FOR · RNF →"]


def test_split_entity_has_one_label():
    bars = [bar for bar in draw(LONG_ENTITY).all("b", "bar") if "Method" in bar.attributes["title"]]
    assert [bar.text for bar in bars] == ["Method"] + [""] * (len(bars) - 1)
    assert len(bars) > 2


def test_document_with_style_and_legend():
    root = read_markup(draw_document(DOCUMENT, schema=SCHEMA))
    assert len(root.all("style")) == 1
    assert len(root.all("figure", "sentence")) == len(ALL)
    (legend,) = root.all("div", "legend")
    # Labels of the schema in its order, then all others.
    assert [entry.text for entry in legend.all("li")] == [
        *("Method", "Task", "Material", "\"'>Task", "<b>L</b>"),
        *("USED-FOR", "PART-OF", "COMPARE", "<i>rel"),
    ]
    assert not read_markup(draw_document(DOCUMENT, style=False)).all("style")


def test_document_keeps_the_spaces_of_its_text():
    text = "Lund, (of all places) 3.5 %."
    words = [(0, 4), (4, 5), (22, 25), (26, 27), (27, 28)]
    one = Sentence(tuple(text[a:b] for a, b in words), tuple(words), (Span(0, 1, "Place"),))
    root = read_markup(draw_document(Document(text, (one,))))
    assert root.all("p", "visually-hidden")[0].text == text
    cells = root.all("span", "word")
    assert ["gap" in cell.classes for cell in cells] == [False, True, True, False, False]
    assert [cell.all("i")[0].text for cell in cells if cell.all("i")] == ["(of all places)"]


def test_page_is_self_contained():
    html = draw_page([DOCUMENT, Document.from_sentences([NESTED])], schema=SCHEMA)
    assert html.startswith("<!DOCTYPE html>")
    assert_no_network(html)
    root = read_markup(html)
    assert len(root.all("div", "legend")) == 1
    assert len(root.all("section", "document")) == 2
    assert len(root.all("style")) == 1


def test_long_texts_are_shortened():
    words = "begin " + "long " * 40 + "end of it"
    one = sentence(words + " and a task", [(0, 44, "Method"), (46, 47, "Task" * 30)], [(0, "USED-FOR" * 20, 1)])
    short = "begin long long long long long long long long long long long … long long end of it"
    descriptions = [f"{short}: Method", f"task: {'Task' * 15} … {'Task' * 5}"]
    relation = f"{short} — {('USED-FOR' * 8)[:60]} … {('USED-FOR' * 3)[-20:]} → task, score 0.88"
    root = draw(one)
    assert [line.text for line in root.all("li")] == [*descriptions, relation]
    titles = [bar.attributes["title"] for bar in root.all("b", "bar")]
    assert len(titles) > 3
    assert set(titles) == set(descriptions)
    assert {b.attributes["title"] for curve in root.all("div", "curve") for b in curve.all("b")} == {relation}
    assert root.all("p")[0].text == words + " and a task"


def test_import_loads_no_torch_and_no_jinja2():
    code = (
        "import sys\nimport cascade_srn.drawing\n"
        "print([n for n in ('torch', 'transformers', 'jinja2') if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
