"""The report in a browser: filtering, following numbers, both widths, with and without JavaScript."""

import pytest
from tests.drawing.browser import opened, scrolls_sideways
from tests.evaluation.report.example import NEWS

from cascade_srn import read_documents
from cascade_srn.data.formats.schema_file import read_schema
from cascade_srn.evaluation.analysis import analyse
from cascade_srn.evaluation.report import write_report
from cascade_srn.evaluation.report.facts import FactFinder

pytestmark = pytest.mark.browser

BOTH_WIDTHS = pytest.mark.parametrize("width", ["desktop", "phone"])
PAGE = 40


@pytest.fixture(scope="module")
def facts(analysis):
    finder = FactFinder.of(analysis)
    return [set(finder.facts(record)) for record in analysis["sentences"]]


SHOWN = """() => Array.from(document.querySelectorAll("article"))
    .filter((article) => article.checkVisibility()).map((article) => Number(article.id.slice(1)) - 1)"""


def assert_shown(page, expected):
    """That these sentences, counted from 0, are those that can be seen; a browser follows a link when it gets to it."""
    for _ in range(100):
        if page.evaluate(SHOWN) == expected:
            break
        page.wait_for_timeout(20)
    assert page.evaluate(SHOWN) == expected


def behind(facts, *tokens):
    return [number for number, found in enumerate(facts) if found.issuperset(tokens)]


@BOTH_WIDTHS
def test_a_number_leads_to_its_sentences_and_back(browser, report_file, facts, analysis, width):
    with opened(browser, report_file, width=width) as page:
        place = next(n for n, kind in enumerate(analysis["relation_errors"]["kinds"]) if kind["kind"] == "RNF")
        number = page.locator(f'table.errors a[href="#show=kr{place}"]')
        assert number.inner_text() == str(analysis["relation_errors"]["kinds"][place]["n"])
        number.click()
        expected = behind(facts, f"kr{place}")
        assert 0 < len(expected) < PAGE
        assert_shown(page, expected)
        assert page.locator("#count").inner_text() == f"{len(expected)} of {len(facts)} sentences match"
        assert "RNF: relation not found" in page.locator("#behind").inner_text()
        # What is looked for is drawn, and marked as such.
        marked = page.locator("article:visible h4:text-is('Gold') + figure .curve > b", has_text="RNF")
        assert marked.count() >= len(expected)
        assert page.locator("#filter").evaluate("(form) => form.getBoundingClientRect().top < innerHeight")
        page.go_back()
        assert_shown(page, list(range(PAGE)))
        assert page.locator("#behind").is_hidden()


@BOTH_WIDTHS
def test_cells_labels_and_groups_lead_to_sentences_too(browser, report_file, facts, width):
    with opened(browser, report_file, width=width) as page:
        for token in (
            "ce.0.0",
            "cr.1.6",
            "e0.gold",
            "r2.correct",
            "t.out_of_triple.gold",
            "g.sentence_length.ner.0.gold",
        ):
            page.locator(f'main a[href="#show={token}"]').first.click()
            assert_shown(page, behind(facts, token)[:PAGE])


@BOTH_WIDTHS
def test_filters(browser, report_file, facts, analysis, width):
    texts = [" ".join(record["words"]).lower() for record in analysis["sentences"]]
    with opened(browser, report_file, width=width) as page:
        page.fill("#text", "  Born In ")
        found = [number for number, text in enumerate(texts) if "born in" in text]
        assert found
        assert_shown(page, found)
        page.select_option("#kind", "error")
        assert_shown(page, [number for number in found if "error" in facts[number]])
        page.fill("#text", "no such words")
        assert_shown(page, [])
        assert page.locator("#count").inner_text() == f"0 of {len(texts)} sentences match"
        page.click("#clear")
        assert_shown(page, list(range(PAGE)))
        page.fill("#text", "news-274")
        assert_shown(page, [n for n, r in enumerate(analysis["sentences"]) if r["document_id"] == "news-274"])


def test_a_label_and_a_kind_are_looked_for_in_one_error(browser, report_file, facts):
    with opened(browser, report_file) as page:
        page.select_option("#label", label="works-for")
        label = page.locator("#label").input_value()
        assert_shown(page, behind(facts, label)[:PAGE])
        page.select_option("#kind", label="ENF entity not found")
        kind = page.locator("#kind").input_value()
        both = behind(facts, f"{kind}.{label}")
        assert_shown(page, both)
        assert len(both) < len(behind(facts, kind, label))
        page.select_option("#kind", "error")
        assert_shown(page, [n for n, found in enumerate(facts) if found & {f"{label}.wrong", f"{label}.missed"}])
        # A kind of relation errors and a type of entities can only be in one sentence.
        page.select_option("#label", "e1")
        page.select_option("#kind", kind)
        assert_shown(page, behind(facts, kind, "e1"))


def test_a_following_number_replaces_what_was_asked_before(browser, report_file, facts):
    with opened(browser, report_file) as page:
        page.fill("#text", "no such words")
        page.locator('main a[href="#show=e0.gold"]').click()
        assert page.locator("#text").input_value() == ""
        assert_shown(page, behind(facts, "e0.gold")[:PAGE])
        page.click("#clear")
        assert page.locator("#behind").is_hidden()
        assert_shown(page, list(range(PAGE)))


def test_more_sentences_are_drawn_when_asked_for(browser, report_file, facts):
    with opened(browser, report_file) as page:
        assert page.locator("#count").inner_text() == f"{len(facts)} sentences; the first {PAGE} are shown"
        assert page.locator("article .lines").count() == 2 * PAGE
        button = page.locator("#more button")
        assert button.inner_text() == f"Show {len(facts) - PAGE} more of {len(facts) - PAGE}"
        button.press("Enter")
        assert_shown(page, list(range(len(facts))))
        assert page.locator("article .lines").count() == 2 * len(facts)
        assert page.evaluate("document.activeElement.id") == f"s{PAGE + 1}"
        assert button.is_hidden()


def test_a_link_to_a_number_can_be_opened_directly(browser, report_file, facts):
    with opened(browser, report_file, fragment="#show=e2.missed") as page:
        assert_shown(page, behind(facts, "e2.missed"))
    with opened(browser, report_file, fragment="#show=%3Cscript%3E") as page:
        assert_shown(page, list(range(PAGE)))


@BOTH_WIDTHS
def test_all_is_there_without_javascript(browser, report_file, facts, width):
    with opened(browser, report_file, width=width, javascript=False) as page:
        assert page.locator("article .lines").count() == 2 * len(facts)
        assert page.locator("#filter").is_hidden()
        assert page.locator("article").last.is_visible()
        assert "That takes JavaScript" in page.locator("#scores").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@BOTH_WIDTHS
def test_nothing_runs_out_of_the_page_and_text_stands_out(browser, report_file, width, theme):
    with opened(browser, report_file, width=width, theme=theme) as page:
        assert not scrolls_sideways(page)
        page.locator("#errors summary").first.click()
        assert not scrolls_sideways(page)
        weak = page.evaluate(CONTRASTS)
        assert weak == []


def test_thousands_of_sentences(browser, tmp_path):
    documents = list(read_documents(NEWS / "train.jsonl")) * 5
    schema = read_schema(NEWS / "schema.json")
    analysis = analyse(documents, documents, schema=schema)
    n_sentences = len(analysis.sentences)
    assert n_sentences > 1000
    with opened(browser, write_report(analysis, tmp_path)) as page:
        assert page.locator("#count").inner_text() == f"{n_sentences} sentences; the first {PAGE} are shown"
        # What is not shown is not drawn.
        assert page.locator("article .lines").count() == 2 * PAGE
        page.select_option("#kind", "error")
        assert_shown(page, [])


# Texts that do not reach the contrast of the guidelines against what is behind them.
CONTRASTS = """() => {
    const parts = (colour) => {
        const [r, g, b, alpha] = colour.startsWith("color(srgb")
            ? colour.match(/[0-9.e-]+/g).map(Number).map((value, at) => at < 3 ? 255 * value : value)
            : colour.match(/[0-9.]+/g).map(Number);
        return {rgb: [r, g, b], alpha: alpha ?? 1};
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (; element; element = element.parentElement) {
            const background = parts(getComputedStyle(element).backgroundColor);
            if (background.alpha === 1) return background.rgb;
        }
        return [255, 255, 255];
    };
    const weak = new Set();
    for (const element of document.querySelectorAll("body *")) {
        if (!Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
        if (["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName) || !element.checkVisibility()) continue;
        if (element instanceof SVGElement) continue;
        const [one, other] = [luminance(parts(getComputedStyle(element).color).rgb), luminance(behind(element))];
        if ((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) >= 4.5) continue;
        weak.add(`${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 30)}`);
    }
    return Array.from(weak);
}"""
