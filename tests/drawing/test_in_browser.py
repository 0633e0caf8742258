"""Drawings as a browser sets them: nothing lies over anything else, at any width, in any direction."""

from itertools import pairwise

import pytest
from tests.drawing.browser import opened, scrolls_sideways
from tests.drawing.sentences import DOCUMENT, PLAIN, SCHEMA, sentence

from cascade_srn.drawing import draw_page, draw_svg
from cascade_srn.types import Document

pytestmark = pytest.mark.browser

DENSE = sentence(
    "one two three four five six seven eight nine ten eleven twelve " * 3,
    [(n, n + 1, "Task") for n in range(0, 36, 4)],
    [(a, "USED-FOR", b) for a in range(9) for b in range(9) if (a * 7 + b) % 4 == 0 and a != b],
)

# All that can be read in a figure, with its box; empty bars are parts of one whose label is elsewhere.
READABLE = """(figure) => Array.from(figure.querySelectorAll(".word, .bar, .curve > b"))
    .filter((element) => element.textContent)
    .map((element) => ({text: element.textContent, ...element.getBoundingClientRect().toJSON()}))"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("drawing") / "page.html"
    path.write_text(draw_page([DOCUMENT, Document.from_sentences([DENSE])], schema=SCHEMA), encoding="utf-8")
    return path


def overlapping(boxes):
    """Pairs of texts whose boxes share more than a hair's breadth."""
    found = []
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            across = min(one["right"], other["right"]) - max(one["left"], other["left"])
            down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
            if across > 1 and down > 1:
                found.append((one["text"], other["text"]))
    return found


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_no_text_lies_over_another(browser, page_file, width):
    with opened(browser, page_file, width=width) as page:
        assert not scrolls_sideways(page)
        figures = page.locator("figure.sentence").all()
        assert len(figures) == len(DOCUMENT.sentences) + 1
        for figure in figures:
            assert overlapping(figure.evaluate(READABLE)) == []


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_an_arc_begins_and_ends_over_its_entities_and_keeps_its_height_in_between(browser, page_file, width):
    with opened(browser, page_file, width=width) as page:
        # For each arc of the dense sentence: the word under each end, and how far above its words each piece is.
        arcs = page.locator("figure.sentence").last.evaluate(
            """(figure) => {
                const arcs = {};
                for (const curve of figure.querySelectorAll(".curve")) {
                    const name = Array.from(curve.classList).find((one) => /^a[0-9]+$/.test(one));
                    const box = curve.getBoundingClientRect();
                    const words = Array.from(curve.parentElement.querySelectorAll(".word"));
                    const under = (x) => words.filter((word) => {
                        const place = word.getBoundingClientRect();
                        return place.left < x && x < place.right;
                    }).map((word) => word.textContent);
                    const arc = arcs[name] ??= {left: [], right: [], heights: []};
                    if (curve.classList.contains("left")) arc.left.push(...under(box.left));
                    if (curve.classList.contains("right")) arc.right.push(...under(box.right));
                    arc.heights.push(Math.round(words[0].getBoundingClientRect().bottom - box.top));
                }
                return arcs;
            }"""
        )
    assert len(arcs) == len(DENSE.triples)
    for number, triple in enumerate(DENSE.triples):
        ends = sorted([triple.head.start, triple.tail.start])
        arc = arcs[f"a{number}"]
        assert [arc["left"], arc["right"]] == [[DENSE.words[end]] for end in ends]
        assert max(arc["heights"]) - min(arc["heights"]) <= 1


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_the_words_of_a_line_stand_on_one_base(browser, page_file, width):
    with opened(browser, page_file, width=width) as page:
        boxes = page.locator("figure.sentence").last.evaluate(READABLE)
    words = [box for box in boxes if box["text"] in DENSE.words]
    assert [box["text"] for box in words] == list(DENSE.words)
    lines = [[words[0]]]
    for before, after in pairwise(words):
        if after["left"] < before["left"]:
            lines.append([])
        lines[-1].append(after)
    assert len(lines) > 1
    for line in lines:
        assert max(word["bottom"] for word in line) - min(word["bottom"] for word in line) <= 1


def test_ends_of_arcs_on_one_word_are_apart(browser, page_file):
    with opened(browser, page_file) as page:
        chunks = page.locator("figure.sentence").last.evaluate(
            """(figure) => Array.from(figure.querySelectorAll(".chunk"), (chunk) => [
                ...Array.from(chunk.querySelectorAll(".curve.left"), (curve) => curve.getBoundingClientRect().left),
                ...Array.from(chunk.querySelectorAll(".curve.right"), (curve) => curve.getBoundingClientRect().right),
            ].sort((a, b) => a - b))"""
        )
    distances = [after - before for ends in chunks for before, after in pairwise(ends)]
    assert len(distances) > 10
    assert min(distances) > 8


def test_right_to_left_sentences_run_from_the_right(browser, page_file):
    with opened(browser, page_file) as page:
        words = page.locator("figure.sentence .lines[dir=rtl] .word").evaluate_all(
            "(words) => words.map((word) => word.getBoundingClientRect().left)"
        )
        assert words == sorted(words, reverse=True)


def test_pointing_at_a_label_lets_the_other_arcs_fade(browser, page_file):
    with opened(browser, page_file) as page:
        figure = page.locator("figure.sentence").last
        opacity = "(curves) => Array.from(new Set(curves.map((curve) => getComputedStyle(curve).opacity)))"
        assert figure.locator(".curve").evaluate_all(opacity) == ["1"]
        figure.locator(".a3 > b").first.hover()
        assert figure.locator(".a3").evaluate_all(opacity) == ["1"]
        assert figure.locator(".curve:not(.a3)").evaluate_all(opacity) == ["0.25"]


def test_themes(browser, tmp_path):
    path = tmp_path / "plain.html"
    path.write_text(draw_page([Document.from_sentences([PLAIN])]), encoding="utf-8")
    colours = {}
    for theme in ("light", "dark"):
        with opened(browser, path, theme=theme, javascript=False) as page:
            colours[theme] = page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor")
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}


def test_only_screen_readers_find_the_text_twice(browser, page_file):
    with opened(browser, page_file) as page:
        box = page.locator(".heard").first.bounding_box()
        assert box["width"] <= 1
        assert box["height"] <= 1
        page.locator("summary").first.press("Enter")
        assert page.locator("details li").first.is_visible()


@pytest.mark.parametrize(("width", "pixels"), [("desktop", 1200), ("phone", 380)])
def test_no_text_of_a_picture_lies_over_another(browser, tmp_path, width, pixels):
    """The viewer's font is another one than widths were estimated for, and is made to fit."""
    path = tmp_path / "picture.html"
    svg = draw_svg(Document.from_sentences([*DOCUMENT.sentences, DENSE]), schema=SCHEMA, width=pixels)
    path.write_text(f"<!DOCTYPE html><title>picture</title>{svg}", encoding="utf-8")
    with opened(browser, path, width=width) as page:
        boxes = page.locator("svg").evaluate(
            """(svg) => Array.from(svg.querySelectorAll("tspan, .k, .r, .g"))
                .map((text) => ({text: text.textContent, ...text.getBoundingClientRect().toJSON()}))"""
        )
        edge = page.locator("svg .paper").first.bounding_box()
    assert len(boxes) > 100
    assert overlapping(boxes) == []
    assert all(edge["x"] <= box["left"] and box["right"] <= edge["x"] + edge["width"] for box in boxes)
