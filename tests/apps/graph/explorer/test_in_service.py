"""The explorer as a part of the service: one host, key, policy and description, and links between both pages."""

from contextlib import contextmanager

import duckdb
import pytest
from tests.apps.graph.explorer.made_graph import node_id
from tests.apps.graph.explorer.test_http import PATHS
from tests.apps.service.browsing import open_page
from tests.apps.service.live import live, random_extractor
from tests.drawing.browser import scrolls_sideways, start_browser

from cascade_srn.apps.graph.explorer.app import explorer_part
from cascade_srn.apps.web.assets import page_assets
from cascade_srn.apps.web.middleware import HEADERS
from cascade_srn.apps.web.settings import ServeSettings

NER = node_id("named entity recognition")


@contextmanager
def served(folder, **settings):
    with live(
        random_extractor(), ServeSettings(port=0, **settings), parts={"/graph": explorer_part(folder)}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def both(made_graph):
    """A service with a graph."""
    with served(made_graph) as running:
        yield running


def test_questions_to_the_graph_are_answered_beside_those_to_the_model(both, explored):
    assert both.post("/extract", {"text": "A tagger."}).status_code == 200
    for path, parameters in (("overview", {}), ("search", {"q": "ner"}), ("node", {"node": NER})):
        answer = both.client.get(f"/graph/api/{path}", params=parameters)
        assert answer.json() == explored.get(f"/api/{path}", params=parameters).json()
    wrong = both.client.get("/graph/api/neighbourhood", params={"node": NER, "min_scores": 1})
    assert wrong.status_code == 422
    assert both.client.get("/graph/api/node", params={"node": "nobody"}).status_code == 404


def test_files_and_policy(both):
    paths = {"/", "/stylesheet.css", *page_assets("graph/explorer/page")} - {"/index.html"}
    for path in paths:
        answer = both.client.get(f"/graph{path}")
        assert answer.status_code == 200
        assert {header: answer.headers[header] for header in HEADERS} == HEADERS
    redirect = both.client.get("/graph", follow_redirects=False)
    assert redirect.is_redirect
    assert both.client.get("/graph", follow_redirects=True).url.path == "/graph/"
    assert both.client.get("/graph/api/overview", headers={"Host": "evil.example"}).status_code == 421


def test_one_description(both):
    paths = both.client.get("/openapi.json").json()["paths"]
    assert {"/extract", "/graph/api/overview", "/graph/api/evidence.csv"} <= set(paths)
    assert "/graph/api/ranking" in both.client.get("/docs").text


def test_one_key(made_graph):
    with served(made_graph, api_key="secret") as running:
        for path in ("/schema", *(f"/graph/api/{name}" for name in PATHS)):
            assert running.client.get(path).status_code == 401
            assert running.client.get(path, headers={"X-API-Key": "secret"}).status_code in (200, 422)
        assert running.client.get("/graph/").status_code == 200


def test_links_only_appear_with_both_pages(both, explored):
    with live(random_extractor()) as alone:
        assert '<nav class="pages" hidden' in alone.client.get("/").text
        assert alone.client.get("/graph/").status_code == 404
    assert '<nav class="pages" hidden' in explored.get("/").text
    for path in ("/", "/graph/"):
        assert '<nav class="pages" aria-label' in both.client.get(path).text


def test_graph_is_closed_with_the_service(made_graph):
    part = explorer_part(made_graph)
    explorer = part.close.__self__
    with live(random_extractor(), parts={"/graph": part}):
        assert explorer.search("ner")
    with pytest.raises(duckdb.ConnectionException):
        explorer.search("ner")


@pytest.mark.browser
@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_pages_lead_to_each_other(both, width):
    for browser in start_browser():
        with open_page(browser, both.url, width=width) as page:
            links = page.get_by_role("navigation", name="Pages").get_by_role("link")
            assert links.all_inner_texts() == ["Text", "Graph"]
            assert links.nth(0).get_attribute("aria-current") == "page"
            assert not scrolls_sideways(page)
            links.nth(1).click()
            page.locator("#best button").first.wait_for()
            assert page.url == f"{both.url}/graph/"
            assert links.nth(1).get_attribute("aria-current") == "page"
            assert not scrolls_sideways(page)
            page.locator("#best button").first.click()
            page.locator("#card h3").wait_for()
            assert page.get_by_role("link", name="API").get_attribute("href") == "../docs"
            links.nth(0).click()
            page.locator("#text").wait_for()
            assert page.url == f"{both.url}/"
