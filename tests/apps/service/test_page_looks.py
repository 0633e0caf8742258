"""The page in both themes and two widths, its keyboard and screen reader support."""

import pytest
from tests.apps.service.browsing import TEXT, enter_text, open_page, trained_extractor, wait_for_result
from tests.apps.service.live import live
from tests.drawing.browser import scrolls_sideways
from tests.evaluation.report.test_in_browser import CONTRASTS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url(browser):
    with live(trained_extractor()) as running:
        yield running.url


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_page_fits_the_window_and_text_has_contrast(browser, url, width, theme):
    with open_page(browser, url, width=width, theme=theme, reduced_motion="reduce") as page:
        backgrounds = {"light": "rgb(244, 245, 247)", "dark": "rgb(13, 16, 20)"}
        assert page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor") == backgrounds[theme]
        assert not scrolls_sideways(page)
        assert page.evaluate(CONTRASTS) == []
        enter_text(page, f"{TEXT} {'unbroken' * 40}")
        for view in ("drawing", "triples", "entities", "graph"):
            page.click(f"#tab-{view}")
            assert not scrolls_sideways(page)
            assert page.evaluate(CONTRASTS) == []
        page.click("#tab-drawing")
        entity = page.locator("#view-drawing .bar.opens[title^='University']")
        entity.evaluate("(bar) => window.scrollBy(0, bar.getBoundingClientRect().bottom - innerHeight)")
        entity.click()
        assert not scrolls_sideways(page)
        # The card and the entity are both visible.
        card, bar = page.locator("#card").bounding_box(), entity.bounding_box()
        assert card["y"] + card["height"] <= 901
        assert 0 <= bar["y"] < bar["y"] + bar["height"] <= card["y"]


def test_keyboard_reaches_all_controls(browser, url):
    with open_page(browser, url) as page:
        enter_text(page, TEXT)
        reached = []
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
            outline = page.evaluate(
                """() => {
                    const around = document.activeElement.closest(".field") ?? document.activeElement;
                    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(around);
                    return (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none";
                }"""
            )
            assert outline, reached[-1]
            if reached[-1] == "view-drawing":
                break
        controls = ["open", "clear", "text", "min-score", "lower-thresholds", "overlaps", "tab-drawing"]
        controls += ["get-jsonl", "get-ann", "get-txt", "get-svg"]
        assert [one for one in reached if one in controls] == controls
        assert reached[0] == "skip"
        page.locator("#tab-drawing").focus()
        for key, view in (
            ("ArrowRight", "triples"),
            ("ArrowRight", "entities"),
            ("End", "graph"),
            ("ArrowRight", "drawing"),
            ("ArrowLeft", "graph"),
        ):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.id") == f"tab-{view}"
            assert page.locator(f"#view-{view}").is_visible()
            assert page.locator("#views > :visible").count() == 1
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.locator("#view-triples .entity").first.focus()
        page.keyboard.press("Enter")
        page.locator("#card .entity").first.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.className") == "close"
        page.keyboard.press("Enter")
        assert page.locator("#card").is_hidden()
        assert page.evaluate("document.activeElement.id") == "tab-triples"


def test_names_and_roles(browser, url):
    with open_page(browser, url) as page:
        enter_text(page, TEXT)
        assert page.get_by_role("textbox", name="Text").count() == 1
        assert page.get_by_role("slider", name="Minimum score").get_attribute("aria-valuetext")
        assert page.get_by_role("checkbox", name="Include less certain results").count() == 1
        assert page.get_by_role("tab", selected=True).inner_text() == "Drawing"
        assert page.get_by_role("tabpanel", name="Drawing").count() == 1
        assert page.get_by_role("button", name="Download as JSON lines").count() == 1
        # Screen readers skip the drawing and read its hidden text, so nothing in it may take the focus.
        assert page.locator("#view-drawing [aria-hidden] :is(a, button, [tabindex])").count() == 0
        assert page.locator("#view-drawing .visually-hidden").first.inner_text().startswith("Ada Berg leads Norlux")
        page.click("#tab-triples")
        assert page.get_by_role("table", name="6 triples").count() == 1


def test_reduced_motion(browser, url):
    with open_page(browser, url, reduced_motion="reduce") as page:
        page.locator(".example").first.click()
        wait_for_result(page)
        assert page.evaluate("document.getAnimations().length") == 0


def test_message_without_javascript(browser, url):
    with open_page(browser, url, java_script_enabled=False) as page:
        assert page.locator("noscript p").bounding_box()["y"] < 200
