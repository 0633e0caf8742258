"""Strange texts to a real service: its answers are checked, and failures are reported."""

import pytest
from tests.apps.service.live import live, random_extractor
from tools.fuzz import FuzzOptions, asked, is_faultless, measure

from cascade_srn.apps.web.settings import Limits, ServeSettings
from cascade_srn.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service():
    with live(random_extractor()) as running:
        yield running


def test_all_texts_come_back_right(service):
    # With a threshold that little passes: a random model would find nearly everything.
    result = measure(FuzzOptions(texts=60, service=service.url, threshold=0.95))
    assert is_faultless(result)
    assert result.summary["texts"] == 60
    assert result.rows[-1]["texts"] == 60


def test_a_refusal_is_told():
    with live(random_extractor(), ServeSettings(limits=Limits(characters=5))) as running:
        (told,) = asked(running.url, ["too long a text"])
        assert told.startswith("status 4")
        assert "5" in told


def test_a_service_that_is_not_there_is_told(service):
    with pytest.raises(ConfigError, match="http://127.0.0.1:9"):
        list(asked("http://127.0.0.1:9", ["a text"]))
