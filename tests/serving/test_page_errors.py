"""What goes wrong is said where it can be put right, and what was shown before is marked as such."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.drawing.browser import start_browser
from tests.serving.browsing import TEXT, bodies, drawn, settle, taught_extractor, visiting, write
from tests.serving.live import PATIENCE, Held, live, until

from cascade_srn.serving import Limits, ServeSettings

pytestmark = pytest.mark.browser

SHORT = "In Bergen it rained."
FAILED = "Failed to load resource"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


def test_a_text_that_is_too_long_is_not_sent(browser):
    settings = ServeSettings(limits=Limits(characters=30))
    with live(taught_extractor(), settings) as running, visiting(browser, running.url) as page:
        write(page, SHORT)
        page.fill("#text", "😀" * 31)
        error = page.locator("#text-error")
        error.wait_for()
        assert error.inner_text() == "The text is 1 character too long: this server takes 30 at most. Shorten it."
        assert error.get_attribute("role") == "alert"
        assert page.locator("#text").get_attribute("aria-invalid") == "true"
        assert page.locator("#count").inner_text() == "31 characters of 30"
        assert page.locator("#status").inner_text() == "Of the text before: 1 entity, 0 relations"
        assert [body["text"] for body in bodies(page, "/extract")] == [SHORT]
        write(page, SHORT)
        assert error.is_hidden()
        assert page.locator("#text").get_attribute("aria-invalid") == "false"


def test_what_the_server_refuses_is_said_at_the_text(browser):
    settings = ServeSettings(limits=Limits(body_bytes=60))
    with live(taught_extractor(), settings) as running, visiting(browser, running.url, expected=[FAILED]) as page:
        page.fill("#text", TEXT)
        error = page.locator("#text-error")
        error.wait_for()
        assert "and 60 are taken at most; send fewer or shorter texts" in error.inner_text()
        assert page.locator("#empty").is_visible()


def test_a_server_that_is_gone(browser):
    with live(taught_extractor()) as running:
        context = visiting(browser, running.url, expected=[FAILED])
        page = context.__enter__()
        write(page, SHORT)
    page.fill("#text", TEXT)
    notice = page.locator("#notice")
    notice.get_by_role("button", name="Try again").wait_for()
    assert notice.inner_text().startswith("The server does not answer.")
    assert notice.get_attribute("role") == "alert"
    assert page.locator("#result").get_attribute("aria-busy") == "false"
    # What was shown stays, and says what it is.
    assert drawn(page)[0] == ["Bergen: Place"]
    assert page.locator("#status").inner_text().startswith("Of the text before:")
    context.__exit__(None, None, None)


def test_trying_again(browser):
    with live(taught_extractor()) as running, visiting(browser, running.url, expected=[FAILED]) as page:
        write(page, SHORT)
        page.route("**/extract", lambda route: route.abort())
        page.fill("#text", TEXT)
        again = page.get_by_role("button", name="Try again")
        again.wait_for()
        page.unroute("**/extract")
        again.click()
        settle(page)
        assert page.locator("#notice").is_hidden()
        assert len(drawn(page)[0]) > 5


def test_a_busy_server_is_asked_again(browser):
    model = Held()
    with live(model.extractor, ServeSettings(queue_texts=1)) as running, ThreadPoolExecutor(2) as others:
        try:
            with visiting(browser, running.url, expected=[FAILED]) as page:
                model.hold()
                asked = [others.submit(running.post, "/extract", {"text": "parsing"})]
                until(lambda: model.n_waiting == 1)
                asked.append(others.submit(running.post, "/extract", {"text": "parsing"}))
                until(lambda: running.engine.waiting.n_texts == 1)
                page.fill("#text", "data")
                page.get_by_text("The server is busy. Asking again in 1 second.").wait_for()
                assert page.locator("#notice").get_attribute("role") == "status"
                model.let_go()
                settle(page)
                assert page.locator("#notice").is_hidden()
                assert [answer.result(PATIENCE).status_code for answer in asked] == [200, 200]
        finally:
            model.let_go()


def test_a_model_that_is_still_being_loaded_is_waited_for(browser):
    loaded = threading.Event()

    def load():
        assert loaded.wait(PATIENCE)
        return taught_extractor()

    with live(load, ready=False) as running:
        try:
            with visiting(browser, running.url, expected=[FAILED]) as page:
                page.get_by_text("The model is still being loaded. Asking again in 2 seconds.").wait_for()
                loaded.set()
                page.locator("#model").wait_for()
                assert page.locator("#notice").is_hidden()
        finally:
            loaded.set()


def test_a_key_is_asked_for_and_kept_in_memory_alone(browser):
    with live(taught_extractor(), ServeSettings(api_key="open-sesame"), ready=False) as running:
        until(lambda: running.client.get("/ready").status_code == 200)
        with visiting(browser, running.url, expected=[FAILED]) as page:
            page.get_by_text("This server wants a key.").wait_for()
            page.get_by_label("API key").fill("wrong")
            page.keyboard.press("Enter")
            page.get_by_text("That key is not the one.").wait_for()
            page.get_by_label("API key").fill("open-sesame")
            page.get_by_role("button", name="Use it").click()
            page.locator("#model").wait_for()
            write(page, SHORT)
            assert drawn(page)[0] == ["Bergen: Place"]
            kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
            assert kept == [0, 0, "", f"{running.url}/"]


def test_the_key_does_not_take_the_focus_from_who_is_typing(browser):
    settings = ServeSettings(api_key="open-sesame")
    with live(taught_extractor(), settings) as running, visiting(browser, running.url, expected=[FAILED]) as page:
        page.get_by_label("API key").wait_for()
        with page.expect_response("**/schema"):
            page.locator("#text").press_sequentially(SHORT)
        page.get_by_label("API key").wait_for()
        assert page.locator("#text").input_value() == SHORT
        assert page.evaluate("document.activeElement.id") == "text"
