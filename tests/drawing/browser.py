"""A real browser for tests: the chromium of the system, driven by playwright; without either they are skipped."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

WIDTHS = {"desktop": 1280, "phone": 390}


def start_browser():
    """Yields a browser; the body of a fixture, which must not outlive its module: there can only be one at a time."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (it is in the dev extra)"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium on this machine; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, *, width="desktop", theme="light", javascript=True, fragment=""):
    """A page opened from a file. What it complains of, or asks of the network, is an error."""
    context = browser.new_context(
        viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme, java_script_enabled=javascript
    )
    page = context.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(f"{path.as_uri()}{fragment}")
    yield page
    assert complaints == []
    context.close()


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
