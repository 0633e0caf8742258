import pytest
from tests.drawing.browser import start_browser


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()
