"""Errors on the page: where they are shown, retries, and the API key."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.service.browsing import (
    TEXT,
    enter_text,
    open_page,
    read_drawing,
    sent_bodies,
    trained_extractor,
    wait_for_result,
)
from tests.apps.service.live import Held, live
from tests.apps.web.live_app import PATIENCE, until

from cascade_srn.apps.web.settings import Limits, ServeSettings

pytestmark = pytest.mark.browser

SHORT = "In Bergen it rained."
FAILED = "Failed to load resource"


def test_text_above_the_limit_is_not_sent(browser):
    settings = ServeSettings(limits=Limits(characters=30))
    with live(trained_extractor(), settings) as running, open_page(browser, running.url) as page:
        enter_text(page, SHORT)
        page.fill("#text", "😀" * 31)
        error = page.locator("#text-error")
        error.wait_for()
        assert "1 character " in error.inner_text()
        assert "30" in error.inner_text()
        assert error.get_attribute("role") == "alert"
        assert page.locator("#text").get_attribute("aria-invalid") == "true"
        assert page.locator("#count").inner_text() == "31 characters of 30"
        assert page.locator("#status").inner_text().endswith(": 1 entity, 0 relations")
        assert [body["text"] for body in sent_bodies(page, "/extract")] == [SHORT]
        enter_text(page, SHORT)
        assert error.is_hidden()
        assert page.locator("#text").get_attribute("aria-invalid") == "false"


def test_refused_text(browser):
    settings = ServeSettings(limits=Limits(body_bytes=60))
    with live(trained_extractor(), settings) as running, open_page(browser, running.url, expected=[FAILED]) as page:
        page.fill("#text", TEXT)
        error = page.locator("#text-error")
        error.wait_for()
        assert "60" in error.inner_text()
        assert page.locator("#empty").is_visible()


def test_unreachable_server(browser):
    with live(trained_extractor()) as running:
        context = open_page(browser, running.url, expected=[FAILED])
        page = context.__enter__()
        enter_text(page, SHORT)
    page.fill("#text", TEXT)
    notice = page.locator("#notice")
    notice.get_by_role("button", name="Try again").wait_for()
    assert notice.get_attribute("role") == "alert"
    assert page.locator("#result").get_attribute("aria-busy") == "false"
    # The previous result stays and is marked.
    assert read_drawing(page)[0] == ["Bergen: Place"]
    assert page.locator("#status").inner_text().endswith(": 1 entity, 0 relations")
    context.__exit__(None, None, None)


def test_retry_button(browser):
    with live(trained_extractor()) as running, open_page(browser, running.url, expected=[FAILED]) as page:
        enter_text(page, SHORT)
        page.route("**/extract", lambda route: route.abort())
        page.fill("#text", TEXT)
        again = page.get_by_role("button", name="Try again")
        again.wait_for()
        page.unroute("**/extract")
        again.click()
        wait_for_result(page)
        assert page.locator("#notice").is_hidden()
        assert len(read_drawing(page)[0]) > 5


def test_busy_server_is_retried(browser):
    model = Held()
    with live(model.extractor, ServeSettings(queue_texts=1)) as running, ThreadPoolExecutor(2) as others:
        try:
            with open_page(browser, running.url, expected=[FAILED]) as page:
                model.hold()
                asked = [others.submit(running.post, "/extract", {"text": "parsing"})]
                until(lambda: model.n_waiting == 1)
                asked.append(others.submit(running.post, "/extract", {"text": "parsing"}))
                until(lambda: running.engine.queue.n_texts == 1)
                page.fill("#text", "data")
                page.locator("#notice").get_by_text("1 second").wait_for()
                assert page.locator("#notice").get_attribute("role") == "status"
                model.let_go()
                wait_for_result(page)
                assert page.locator("#notice").is_hidden()
                assert [answer.result(PATIENCE).status_code for answer in asked] == [200, 200]
        finally:
            model.let_go()


def test_loading_model_is_retried(browser):
    loaded = threading.Event()

    def load():
        assert loaded.wait(PATIENCE)
        return trained_extractor()

    with live(load, ready=False) as running:
        try:
            with open_page(browser, running.url, expected=[FAILED]) as page:
                page.locator("#notice").get_by_text("2 seconds").wait_for()
                loaded.set()
                page.locator("#model").wait_for()
                assert page.locator("#notice").is_hidden()
        finally:
            loaded.set()


def test_api_key_is_kept_in_memory_only(browser):
    with live(trained_extractor(), ServeSettings(api_key="open-sesame"), ready=False) as running:
        until(lambda: running.client.get("/ready").status_code == 200)
        with open_page(browser, running.url, expected=[FAILED]) as page:
            notice = page.locator("#notice.asking > p")
            notice.wait_for()
            first = notice.inner_text()
            page.get_by_label("API key").fill("wrong")
            page.keyboard.press("Enter")
            # The notice changes when the key is wrong.
            page.wait_for_function("(text) => document.querySelector('#notice > p').textContent !== text", arg=first)
            page.get_by_label("API key").fill("open-sesame")
            page.locator("#notice button").click()
            page.locator("#model").wait_for()
            enter_text(page, SHORT)
            assert read_drawing(page)[0] == ["Bergen: Place"]
            kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
            assert kept == [0, 0, "", f"{running.url}/"]


def test_key_form_does_not_take_the_focus_while_typing(browser):
    settings = ServeSettings(api_key="open-sesame")
    with live(trained_extractor(), settings) as running, open_page(browser, running.url, expected=[FAILED]) as page:
        page.get_by_label("API key").wait_for()
        with page.expect_response("**/schema"):
            page.locator("#text").press_sequentially(SHORT)
        page.get_by_label("API key").wait_for()
        assert page.locator("#text").input_value() == SHORT
        assert page.evaluate("document.activeElement.id") == "text"
