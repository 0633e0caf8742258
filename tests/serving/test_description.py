"""The OpenAPI description: true of the service, as thousands of made-up requests find, and readable offline."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

load_all_checks()
# Not asked: that whatever fits the form is done (an entity must also fall on words), and what is about other designs.
LEFT_OUT = {"positive_data_acceptance"}


@pytest.fixture(scope="module")
def api(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


@pytest.fixture(scope="module")
def checks():
    return [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]


READING = ("/schema", "/health", "/ready", "/metrics")
ASKING = ("/extract", "/draw", "/convert")
# With a body as described, and with one that is not.
KINDS = [(path, "GET", GenerationMode.POSITIVE) for path in READING]
KINDS += [(path, "POST", mode) for path in ASKING for mode in GenerationMode]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), KINDS)
def test_the_service_is_as_described(api, checks, path, method, mode):
    operation = api[path][method]

    @settings(max_examples=40, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def conforms(case):
        case.call_and_validate(checks=checks)

    conforms()


def test_every_operation_is_described(service):
    described = service.client.get("/openapi.json").json()
    assert list(described["paths"]) == [*ASKING, *READING]
    for path in ASKING:
        operation = described["paths"][path]["post"]
        (content,) = operation["requestBody"]["content"].values()
        assert content["schema"]["$ref"].rpartition("/")[2] in described["components"]["schemas"]
        assert {"400", "401", "413", "422", "503", "504"} <= set(operation["responses"])


def test_the_page_of_operations_needs_nothing_from_elsewhere(service):
    answer = service.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for path in service.client.get("/openapi.json").json()["paths"]:
        assert re.search(rf"<code>(GET|POST) {path}</code>", answer.text)
    assert not re.search(r"https?://|<script|src=", answer.text)
    for target in re.findall(r'href="#(\w+)"', answer.text):
        assert f'id="{target}"' in answer.text
