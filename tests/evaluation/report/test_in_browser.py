"""The report in a browser: filters, linked numbers, both widths, with and without JavaScript."""

import pytest
from tests.drawing.browser import opened, scrolls_sideways

from cascade_srn.evaluation.report.filters import FilterKeys

pytestmark = pytest.mark.browser

BOTH_WIDTHS = pytest.mark.parametrize("width", ["desktop", "phone"])
PAGE = 40


@pytest.fixture(scope="module")
def keys(analysis):
    filter_keys = FilterKeys.from_analysis(analysis)
    return [set(filter_keys.find(record)) for record in analysis["sentences"]]


SHOWN = """() => Array.from(document.querySelectorAll("article"))
    .filter((article) => article.checkVisibility()).map((article) => Number(article.id.slice(1)) - 1)"""


def assert_shown(page, expected):
    """Wait until these sentences are visible, counted from 0."""
    for _ in range(100):
        if page.evaluate(SHOWN) == expected:
            break
        page.wait_for_timeout(20)
    assert page.evaluate(SHOWN) == expected


def matching(keys, *wanted):
    return [number for number, found in enumerate(keys) if found.issuperset(wanted)]


@BOTH_WIDTHS
def test_a_number_leads_to_its_sentences_and_back(browser, report_file, keys, analysis, width):
    with opened(browser, report_file, width=width) as page:
        place = next(n for n, kind in enumerate(analysis["relation_errors"]["kinds"]) if kind["kind"] == "RNF")
        number = page.locator(f'table.errors a[href="#show=kr{place}"]')
        assert number.inner_text() == str(analysis["relation_errors"]["kinds"][place]["n"])
        number.click()
        expected = matching(keys, f"kr{place}")
        assert 0 < len(expected) < PAGE
        assert_shown(page, expected)
        assert page.locator("#count").inner_text() == f"{len(expected)} of {len(keys)} sentences match"
        assert "RNF: relation not found" in page.locator("#selection").inner_text()
        # The error is drawn with its tag.
        marked = page.locator("article:visible h4:text-is('Gold') + figure .curve > b", has_text="RNF")
        assert marked.count() >= len(expected)
        assert page.locator("#filter").evaluate("(form) => form.getBoundingClientRect().top < innerHeight")
        page.go_back()
        assert_shown(page, list(range(PAGE)))
        assert page.locator("#selection").is_hidden()


@BOTH_WIDTHS
def test_filters(browser, report_file, keys, analysis, width):
    texts = [" ".join(record["words"]).lower() for record in analysis["sentences"]]
    with opened(browser, report_file, width=width) as page:
        page.fill("#text", "  Born In ")
        found = [number for number, text in enumerate(texts) if "born in" in text]
        assert found
        assert_shown(page, found)
        page.select_option("#kind", "error")
        assert_shown(page, [number for number in found if "error" in keys[number]])
        page.fill("#text", "no such words")
        assert_shown(page, [])
        assert page.locator("#count").inner_text() == f"0 of {len(texts)} sentences match"
        page.click("#clear")
        assert_shown(page, list(range(PAGE)))
        page.fill("#text", "news-274")
        assert_shown(page, [n for n, r in enumerate(analysis["sentences"]) if r["document_id"] == "news-274"])


def test_label_and_kind_match_the_same_error(browser, report_file, keys):
    with opened(browser, report_file) as page:
        page.select_option("#label", label="works-for")
        label = page.locator("#label").input_value()
        assert_shown(page, matching(keys, label)[:PAGE])
        page.select_option("#kind", label="ENF entity not found")
        kind = page.locator("#kind").input_value()
        both = matching(keys, f"{kind}.{label}")
        assert_shown(page, both)
        assert len(both) < len(matching(keys, kind, label))
        page.select_option("#kind", "error")
        assert_shown(page, [n for n, found in enumerate(keys) if found & {f"{label}.wrong", f"{label}.missed"}])
        # A relation error and an entity type match within a sentence.
        page.select_option("#label", "e1")
        page.select_option("#kind", kind)
        assert_shown(page, matching(keys, kind, "e1"))


def test_a_linked_number_resets_the_form(browser, report_file, keys):
    with opened(browser, report_file) as page:
        page.fill("#text", "no such words")
        page.locator('main a[href="#show=e0.gold"]').click()
        assert page.locator("#text").input_value() == ""
        assert_shown(page, matching(keys, "e0.gold")[:PAGE])
        page.click("#clear")
        assert page.locator("#selection").is_hidden()
        assert_shown(page, list(range(PAGE)))


def test_more_sentences_on_request(browser, report_file, keys):
    with opened(browser, report_file) as page:
        assert page.locator("#count").inner_text() == f"{len(keys)} sentences, first {PAGE} shown"
        assert page.locator("article .lines").count() == 2 * PAGE
        button = page.locator("#more button")
        assert button.inner_text() == f"Show {len(keys) - PAGE} more of {len(keys) - PAGE}"
        button.press("Enter")
        assert_shown(page, list(range(len(keys))))
        assert page.locator("article .lines").count() == 2 * len(keys)
        assert page.evaluate("document.activeElement.id") == f"s{PAGE + 1}"
        assert button.is_hidden()


def test_a_link_to_a_number_can_be_opened_directly(browser, report_file, keys):
    with opened(browser, report_file, fragment="#show=e2.missed") as page:
        assert_shown(page, matching(keys, "e2.missed"))
    with opened(browser, report_file, fragment="#show=%3Cscript%3E") as page:
        assert_shown(page, list(range(PAGE)))


@BOTH_WIDTHS
def test_without_javascript_everything_is_shown(browser, report_file, keys, width):
    with opened(browser, report_file, width=width, javascript=False) as page:
        assert page.locator("article .lines").count() == 2 * len(keys)
        assert page.locator("#filter").is_hidden()
        assert page.locator("article").last.is_visible()
        assert "need JavaScript" in page.locator("#scores").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@BOTH_WIDTHS
def test_nothing_overflows_and_text_has_contrast(browser, report_file, width, theme):
    with opened(browser, report_file, width=width, theme=theme) as page:
        assert not scrolls_sideways(page)
        page.locator("#errors summary").first.click()
        assert not scrolls_sideways(page)
        weak = page.evaluate(CONTRASTS)
        assert weak == []


# Returns texts with less contrast than the accessibility guidelines require.
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
