"""The OpenAPI description: it matches the service, and its page needs no network."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

load_all_checks()
# A body that matches the schema can still be refused: an entity must also fall on words.
LEFT_OUT = {"positive_data_acceptance"}


@pytest.fixture(scope="module")
def api(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


@pytest.fixture(scope="module")
def checks():
    return [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]


GET_PATHS = ("/schema", "/health", "/ready", "/metrics")
POST_PATHS = ("/extract", "/draw", "/convert")
# POST operations are tested with valid and invalid bodies.
CASES = [(path, "GET", GenerationMode.POSITIVE) for path in GET_PATHS]
CASES += [(path, "POST", mode) for path in POST_PATHS for mode in GenerationMode]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_the_service_is_as_described(api, checks, path, method, mode):
    operation = api[path][method]

    @settings(max_examples=40, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def conforms(case):
        case.call_and_validate(checks=checks)

    conforms()


def test_every_operation_is_described(service):
    described = service.client.get("/openapi.json").json()
    assert set(described["paths"]) == {*POST_PATHS, *GET_PATHS}
    for path in POST_PATHS:
        operation = described["paths"][path]["post"]
        (content,) = operation["requestBody"]["content"].values()
        assert content["schema"]["$ref"].rpartition("/")[2] in described["components"]["schemas"]
        assert {"400", "401", "413", "422", "503", "504"} <= set(operation["responses"])


def test_the_page_of_operations_loads_nothing_from_other_hosts(service):
    answer = service.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for path in service.client.get("/openapi.json").json()["paths"]:
        assert re.search(rf"<code>(GET|POST) {path}</code>", answer.text)
    assert not re.search(r"https?://|<script|src=", answer.text)
    for target in re.findall(r'href="#(\w+)"', answer.text):
        assert f'id="{target}"' in answer.text
