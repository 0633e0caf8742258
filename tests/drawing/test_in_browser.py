"""Drawings in a browser: nothing overlaps, at any width and in any direction."""

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

# All texts of a figure with their boxes, without the empty parts of split bars.
READABLE = """(figure) => Array.from(figure.querySelectorAll(".word, .bar, .curve > b"))
    .filter((element) => element.textContent)
    .map((element) => ({text: element.textContent, ...element.getBoundingClientRect().toJSON()}))"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("drawing") / "page.html"
    path.write_text(draw_page([DOCUMENT, Document.from_sentences([DENSE])], schema=SCHEMA), encoding="utf-8")
    return path


def find_overlaps(boxes):
    """Return pairs of texts whose boxes overlap by more than a pixel."""
    found = []
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            across = min(one["right"], other["right"]) - max(one["left"], other["left"])
            down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
            if across > 1 and down > 1:
                found.append((one["text"], other["text"]))
    return found


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_texts_do_not_overlap(browser, page_file, width):
    with opened(browser, page_file, width=width) as page:
        assert not scrolls_sideways(page)
        figures = page.locator("figure.sentence").all()
        assert len(figures) == len(DOCUMENT.sentences) + 1
        for figure in figures:
            assert find_overlaps(figure.evaluate(READABLE)) == []


@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_arc_ends_are_over_their_entities_at_one_height(browser, page_file, width):
    with opened(browser, page_file, width=width) as page:
        # For each arc of the dense sentence: the word under each end, and the height of each piece.
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


def test_right_to_left_sentences(browser, page_file):
    with opened(browser, page_file) as page:
        words = page.locator("figure.sentence .lines[dir=rtl] .word").evaluate_all(
            "(words) => words.map((word) => word.getBoundingClientRect().left)"
        )
        assert words == sorted(words, reverse=True)


def test_hovering_a_label_fades_other_arcs(browser, page_file):
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


def test_hidden_text_takes_no_space(browser, page_file):
    with opened(browser, page_file) as page:
        box = page.locator(".visually-hidden").first.bounding_box()
        assert box["width"] <= 1
        assert box["height"] <= 1
        page.locator("summary").first.press("Enter")
        assert page.locator("details li").first.is_visible()


@pytest.mark.parametrize(("width", "pixels"), [("desktop", 1200), ("phone", 380)])
def test_texts_of_an_svg_do_not_overlap(browser, tmp_path, width, pixels):
    """The font differs from the one of the estimated widths, and the viewer fits it."""
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
    assert find_overlaps(boxes) == []
    assert all(edge["x"] <= box["left"] and box["right"] <= edge["x"] + edge["width"] for box in boxes)
