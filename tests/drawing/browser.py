"""A browser for tests: the Chromium of the system with playwright. Tests are skipped without them."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

WIDTHS = {"desktop": 1280, "phone": 390}


def start_browser():
    """Yield a browser. Use it as a module fixture, since only one browser can be open at a time."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (it is in the dev extra)"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed (on Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, *, width="desktop", theme="light", javascript=True, fragment=""):
    """Open a page from a file. Fail on console messages and network requests."""
    context = browser.new_context(
        viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme, java_script_enabled=javascript
    )
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(f"{path.as_uri()}{fragment}")
    yield page
    assert problems == []
    context.close()


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
