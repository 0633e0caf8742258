"""One service for all tests that do not change it."""

import pytest
from tests.apps.service.live import Held, live, random_extractor


@pytest.fixture(scope="session")
def extractor():
    return random_extractor()


@pytest.fixture(scope="session")
def service(extractor):
    with live(extractor) as running:
        yield running


@pytest.fixture
def held():
    """A model that can be held; it is released at the end of the test."""
    model = Held()
    yield model
    model.let_go()
