"""The explorer in Chromium: search, expansion, evidence, filters, rankings, links, downloads, keyboard and looks."""

import csv
import io
import time
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from tests.apps.graph.explorer.live_graph import live_graph
from tests.apps.graph.explorer.made_graph import LINK, MARKUP, node_id
from tests.apps.service.browsing import open_page
from tests.apps.web.live_app import until
from tests.drawing.browser import scrolls_sideways, start_browser
from tests.evaluation.report.test_in_browser import CONTRASTS

from cascade_srn.apps.web.settings import ServeSettings

pytestmark = pytest.mark.browser

NER, CRF = node_id("named entity recognition"), node_id("conditional random field")
CY = "document.getElementById('canvas')._cyreg.cy"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture(scope="module")
def url(explored):
    return str(explored.base_url).rstrip("/")


@pytest.fixture
def opened(browser, url):
    """Return a context manager that opens the explorer at a fragment."""

    def start(fragment="", **options):
        return open_page(browser, f"{url}/{fragment}", url=url, reduced_motion="reduce", **options)

    return start


def settle(page):
    """Wait until the page shows its state."""
    page.locator("#result[aria-busy=false]").wait_for()


def wait(page, condition):
    """Wait until a JavaScript expression is true. The policy of the page does not allow playwright's own function."""
    until(lambda: page.evaluate(condition))


def shown_nodes(page):
    return set(page.evaluate(f"{CY}.nodes().map((node) => node.data('node'))"))


def shown_edges(page):
    return page.evaluate(f"{CY}.edges().map((edge) => edge.data('label'))")


def click_element(page, element):
    """Click a node or edge of the canvas."""
    wait(page, f"{CY}.getElementById({element!r}).nonempty() && !{CY}.animated()")
    place = page.evaluate(
        f"""(() => {{
            const one = {CY}.getElementById({element!r});
            const at = one.isNode() ? one.renderedPosition() : one.renderedMidpoint();
            const box = document.getElementById('canvas').getBoundingClientRect();
            return [box.x + at.x, box.y + at.y];
        }})()"""
    )
    page.mouse.click(*place)


def search(page, text):
    page.fill("#search", text)
    page.locator("#completions [role=option]").first.wait_for()


def test_paths_between_two_entities(opened):
    fragment = f"#node={quote(NER)}&view=path&start=NER&end={quote(CRF)}"
    with opened(fragment, expected=["404"]) as page:
        page.locator("#paths .steps li").first.wait_for()
        assert page.input_value("#path-start") == "NER"
        page.locator("#paths .steps .evidence-button").first.click()
        page.locator("#card .evidence li").first.wait_for()
        page.fill("#path-end", "nothing like this")
        page.click("#path-form button")
        page.locator("#paths .nothing", has_text="no node has the name").wait_for()
        page.go_back()
        page.locator("#paths .steps li").first.wait_for()
        page.locator("#paths >> text=Show as graph").first.click()
        settle(page)
        assert {NER, CRF} <= shown_nodes(page)


def test_overview_of_the_whole_graph(opened):
    with opened("#view=overview") as page:
        page.locator("#communities tbody tr").first.wait_for()
        drawn = "document.getElementById('overview-canvas')._cyreg.cy"
        wait(page, f"{drawn}.nodes().length > 5 && {drawn}.edges().length > 5")
        # The table is below the drawing.
        boxes = [page.locator(name).bounding_box() for name in ("#view-overview .stage", "#communities")]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 1
        page.locator("#communities >> text=Show").first.click()
        settle(page)
        assert shown_nodes(page)


def test_search_completes_and_starts_a_view(opened):
    with opened() as page:
        page.locator("#best button").first.wait_for()
        search(page, "named ent")
        options = page.locator("#completions [role=option]")
        assert options.first.locator(".name").inner_text() == "named entity recognition"
        search(page, "ner")
        until(lambda: "NER" in options.first.locator(".name").inner_text())
        options.first.click()
        page.locator("#card h3").wait_for()
        settle(page)
        assert page.locator("#card h3").inner_text() == "named entity recognition"
        assert page.locator("#card .links").inner_text() == f"In the vocabulary: {LINK['identifier']} (exact: NER)"
        assert NER in shown_nodes(page)
        assert page.locator("#search").input_value() == ""
        assert page.locator("#completions").is_hidden()
        search(page, "beam")
        page.keyboard.press("Escape")
        assert page.locator("#completions").is_hidden()


def test_enter_waits_for_the_completion_of_the_text(opened):
    def delay(route):
        # Longer than the page waits for further typing.
        time.sleep(0.5)
        route.continue_()

    with opened() as page:
        search(page, "named ent")
        page.route("**/search?*", delay)
        page.locator("#search").fill("beam sea")
        page.keyboard.press("Enter")
        page.locator("#card h3").wait_for()
        assert page.locator("#card h3").inner_text() == "beam search"


def test_search_without_a_result(opened):
    with opened() as page:
        page.fill("#search", "zzzz")
        page.locator(".nothing-found").wait_for()
        page.keyboard.press("Enter")
        assert page.locator("#stage").is_hidden()


def test_click_expands_a_node(opened):
    with opened(f"#node={NER}&limit=8") as page:
        settle(page)
        before = shown_nodes(page)
        neighbour = min(before - {NER})
        click_element(page, f"n:{neighbour}")
        wait(page, f"{CY}.nodes().length > {len(before)}")
        settle(page)
        assert before < shown_nodes(page)
        assert page.evaluate(f"{CY}.nodes('.expanded').map((node) => node.data('node')).sort()") == sorted(
            [NER, neighbour]
        )
        # Collapsing it leads back.
        page.get_by_role("button", name="Collapse").click()
        wait(page, f"{CY}.nodes().length === {len(before)}")
        assert shown_nodes(page) == before


def test_click_on_an_edge_shows_its_evidence(opened):
    with opened(f"#node={NER}&limit=25&relation=USED-FOR") as page:
        settle(page)
        edge = page.evaluate(f"{CY}.edges('[width > 1.5]')[0].id()")
        click_element(page, edge)
        page.locator("#card .evidence li").first.wait_for()
        settle(page)
        n_edges = page.evaluate(f"{CY}.edges('.selected').length")
        assert n_edges == 1
        assert page.locator("#card .evidence figure").count() >= 2
        drawing = page.locator("#card .evidence figure").first
        assert drawing.locator(".bar.opens").count() == 2
        assert "USED-FOR" in drawing.locator(".curve b").first.inner_text()
        assert "made-" in page.locator("#card .source").first.inner_text()
        page.keyboard.press("Escape")
        page.locator("#card").wait_for(state="hidden")


def test_more_evidence(opened, explored):
    edges = explored.get("/api/neighbourhood", params={"node": CRF, "limit": 100}).json()["edges"]
    found = max(edges, key=lambda edge: edge["n"])
    assert found["n"] > 10
    with opened(f"#node={CRF}&edge={found['edge']}") as page:
        page.locator(".evidence li").first.wait_for()
        assert page.locator(".evidence > li").count() == 10
        page.get_by_role("button", name="Show more").click()
        wait(page, f"document.querySelectorAll('.evidence > li').length === {found['n']}")
        assert page.get_by_role("button", name="Show more").count() == 0


def test_filters(opened):
    with opened(f"#node={NER}&limit=50") as page:
        settle(page)
        n_all = len(shown_nodes(page))
        page.locator("#types .toggle", has_text="Method").click()
        wait(page, f"{CY}.nodes().length < {n_all}")
        labels = set(page.evaluate(f"{CY}.nodes().map((node) => node.data('label'))"))
        assert labels == {"Method", "Task"}
        page.locator("#relations .toggle", has_text="PART-OF").click()
        wait(page, f"{CY}.nodes().length === 1")
        assert page.locator("#n-filters").inner_text() == "2"
        page.locator("#relations .toggle", has_text="PART-OF").click()
        wait(page, f"{CY}.nodes().length > 1")
        n_methods = len(shown_nodes(page))
        page.fill("#min-count", "2")
        page.keyboard.press("Enter")
        wait(page, f"{CY}.nodes().length < {n_methods}")
        page.click("#reset")
        wait(page, f"{CY}.nodes().length === {n_all}")
        page.fill("#last-year", "2016")
        page.keyboard.press("Enter")
        wait(page, f"{CY}.nodes().length < {n_all}")
        page.click("#reset")
        wait(page, f"{CY}.nodes().length === {n_all}")
        page.locator("#min-score").fill("0.9")
        wait(page, f"{CY}.nodes().length < {n_all}")


def test_links_lead_to_the_same_view(opened):
    with opened(f"#node={NER}&limit=8") as page:
        settle(page)
        click_element(page, f"n:{min(shown_nodes(page) - {NER})}")
        wait(page, "location.hash.split('node=').length === 3")
        settle(page)
        before = shown_nodes(page)
        page.locator("#types .toggle", has_text="Method").click()
        wait(page, "location.hash.includes('type=Method')")
        settle(page)
        link, nodes, edges = page.url, shown_nodes(page), sorted(shown_edges(page))
        assert nodes != before
        title = page.locator("#card h3").inner_text()
        page.go_back()
        # The address changes before the page hears of it.
        until(lambda: shown_nodes(page) == before)
        assert "type=Method" not in page.url
        assert page.locator("#types [aria-pressed=true]").count() == 0
    with opened(link[link.index("#") :]) as page:
        settle(page)
        assert (shown_nodes(page), sorted(shown_edges(page))) == (nodes, edges)
        assert page.locator("#card h3").inner_text() == title
        assert page.locator("#types [aria-pressed=true]").inner_text().startswith("Method")


@pytest.mark.parametrize("fragment", ["#node=nobody", f"#node={NER}&type=Nothing", f"#node={NER}&edge=99999"])
def test_links_of_another_graph(opened, fragment):
    with opened(fragment, expected=("404", "422")) as page:
        page.locator("#notice.error").wait_for()
        page.get_by_role("button", name="Start again").click()
        page.locator("#best button").first.wait_for()
        assert page.locator("#notice").is_hidden()


@pytest.mark.parametrize("fragment", ["#limit=-3&min_score=x&edge=1.5&view=nothing", "#%", "#&&==", "#min_count=0"])
def test_links_that_cannot_be_read(opened, fragment):
    with opened(fragment) as page:
        page.locator("#best button").first.wait_for()
        settle(page)
        assert page.locator("#notice").is_hidden()


def test_html_in_a_label_is_text(opened):
    with opened() as page:
        page.evaluate("() => { window.boom = () => { document.title = 'boom'; }; }")
        search(page, "<img")
        assert page.locator("#completions .name").first.inner_text() == MARKUP
        page.keyboard.press("Enter")
        page.locator("#card h3").wait_for()
        settle(page)
        assert page.locator("#card h3").inner_text() == MARKUP
        page.locator("#card .evidence-button").first.click()
        page.locator(".evidence figure").first.wait_for()
        assert "<img" in page.locator(".evidence").inner_text()
        page.click("#tab-table")
        assert MARKUP in page.locator("#view-table").inner_text()
        page.click("#tab-ranking")
        page.locator("#ranking tbody tr").first.wait_for()
        with page.expect_download() as download:
            page.click("#tab-graph")
            page.click("#get-svg")
        texts = "".join(ElementTree.parse(download.value.path()).getroot().itertext())
        assert "<img src=x" in texts
        assert page.locator("img[src=x]").count() == 0
        assert page.title() != "boom"


def test_downloads(opened):
    with opened(f"#node={NER}&limit=8") as page:
        settle(page)
        nodes, edges = shown_nodes(page), shown_edges(page)
        saved = {}
        for kind in ("png", "svg", "csv"):
            with page.expect_download() as download:
                page.click(f"#get-{kind}")
            saved[kind] = download.value.path().read_bytes()
        assert saved["png"].startswith(b"\x89PNG")
        assert len(saved["png"]) > 5000
        root = ElementTree.fromstring(saved["svg"])
        space = "{http://www.w3.org/2000/svg}"
        assert len(root.findall(f"{space}g/{space}rect")) == len(nodes)
        labels = [text.text for text in root.findall(f"{space}g/{space}text") if text.get("transform")]
        drawn = page.evaluate(f"{CY}.edges().not('.inner').map((edge) => edge.data('label'))")
        assert sorted(labels) == sorted(drawn)
        assert len(root.findall(f"{space}g/{space}path[@fill='none']")) == len(edges)
        rows = list(csv.DictReader(io.StringIO(saved["csv"].decode())))
        assert {row[end] for row in rows for end in ("head", "tail")} == nodes
        assert len(rows) == len(edges)


def test_rankings(opened):
    with opened(f"#node={NER}&view=ranking") as page:
        page.locator("#ranking tbody tr").first.wait_for()
        page.select_option("#ranking-type", "Method")
        wait(page, "location.hash.includes('rank=Method')")
        page.select_option("#ranking-by", "in USED-FOR")
        page.locator("#ranking .evidence-button").first.wait_for()
        settle(page)
        first = page.locator("#ranking tbody tr").first
        name = first.locator("bdi").inner_text()
        with page.expect_download() as download:
            page.click("#get-csv")
        rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8"))))
        assert rows[0]["name"] == name
        first.locator(".evidence-button").click()
        page.locator(".evidence figure").first.wait_for()
        first.locator(".entity").click()
        wait(page, f"{CY}.nodes('.expanded').length === 2")
        settle(page)
        assert page.locator("#tab-graph").get_attribute("aria-selected") == "true"
        assert page.locator("#card h3").inner_text() == name


def test_keyboard_only(opened):
    with opened() as page:
        page.locator("#best button").first.wait_for()
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        page.keyboard.insert_text("relation ex")
        page.locator("#completions [role=option]").first.wait_for()
        page.keyboard.press("ArrowDown")
        assert page.locator("#search").get_attribute("aria-activedescendant") == "completion-0"
        page.keyboard.press("Enter")
        page.locator("#card h3").wait_for()
        settle(page)
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "canvas":
                break
        assert page.evaluate("document.activeElement.id") == "canvas"
        assert page.locator("#focused").inner_text().startswith("relation extraction, Task")
        n_before = len(shown_nodes(page))
        for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
            if not page.locator("#focused").inner_text().startswith("relation extraction"):
                break
        page.keyboard.press("Enter")
        wait(page, f"{CY}.nodes('.expanded').length === 2")
        settle(page)
        assert len(shown_nodes(page)) >= n_before
        zoom = page.evaluate(f"{CY}.zoom()")
        page.keyboard.press("+")
        assert page.evaluate(f"{CY}.zoom()") > zoom
        page.keyboard.press("0")
        page.locator("#card .evidence-button").first.focus()
        page.keyboard.press("Enter")
        page.locator(".evidence figure").first.wait_for()
        settle(page)
        page.keyboard.press("Escape")
        page.locator("#card").wait_for(state="hidden")
        assert page.evaluate("document.activeElement.id") == "tab-graph"
        page.keyboard.press("ArrowRight")
        page.locator("#view-table tbody tr").first.wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_page_fits_the_window_and_text_has_contrast(opened, explored, width, theme):
    edge = explored.get("/api/ranking", params={"node": NER, "relation": "USED-FOR"}).json()["rows"][0]["edge"]
    with opened(width=width, theme=theme) as page:
        page.locator("#best button").first.wait_for()
        page.evaluate("document.getElementById('filters').open = true")
        assert page.evaluate(CONTRASTS) == []
        for fragment in (
            f"#node={NER}&select={NER}",
            f"#node={NER}&edge={edge}",
            f"#node={NER}&view=table&type=Method",
            f"#node={NER}&view=ranking&by={quote('in USED-FOR')}",
        ):
            page.evaluate(f"location.hash = {fragment!r}")
            page.wait_for_timeout(100)
            settle(page)
            assert not scrolls_sideways(page)
            assert page.evaluate(CONTRASTS) == []


def test_theme_changes_with_the_system(opened):
    with opened(f"#node={NER}&limit=8") as page:
        settle(page)
        light = page.evaluate(f"{CY}.nodes()[0].style('background-color')")
        page.emulate_media(color_scheme="dark")
        wait(page, f"{CY}.nodes()[0].style('background-color') !== {light!r}")


def test_the_key_is_asked_for(browser, made_graph):
    with live_graph(made_graph, ServeSettings(port=0, api_key="secret")) as client:
        address = str(client.base_url).rstrip("/")
        with open_page(browser, address, expected=("401",)) as page:
            page.fill("#key", "secret")
            page.keyboard.press("Enter")
            page.locator("#best button").first.wait_for()
