"""Validation of bodies: limits, error messages and threads."""

import json
import threading

import pytest
from pydantic import ValidationError
from tests.apps.web.test_refusals import JSON, refusal

from cascade_srn.apps.service.messages import ConvertRequest, ExtractRequest
from cascade_srn.apps.web import bodies
from cascade_srn.apps.web.refusals import Refusal

MANY = 1000
DOCUMENT = {"text": "a", "sentences": [[[0, 1]]]}


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (ExtractRequest, {"texts": [0] * MANY}),
        (ExtractRequest, {"text": "a", "entities": [0] * MANY}),
        (ExtractRequest, {"text": "a", "entities": [{}] * MANY}),
        (ExtractRequest, {"text": "a", "entities": [[{}] * MANY]}),
        (ExtractRequest, {"text": "a", "entities": [[0]] * MANY}),
        (ConvertRequest, {"document": DOCUMENT | {"sentences": [0] * MANY}}),
        (ConvertRequest, {"document": DOCUMENT | {"sentences": [[[]] * MANY]}}),
        (ConvertRequest, {"document": DOCUMENT | {"entities": [{}] * MANY}}),
        (ConvertRequest, {"document": DOCUMENT | {"relations": [{}] * MANY}}),
    ],
)
def test_the_first_wrong_item_of_a_list_is_enough(form, body):
    with pytest.raises(ValidationError) as caught:
        form.model_validate_json(json.dumps(body))
    assert caught.value.error_count() < 10


def test_very_many_errors_are_only_counted():
    def problem(n_unknown):
        body = {"text": "a"} | {f"unknown{number}": 0 for number in range(n_unknown)}
        with pytest.raises(Refusal) as caught:
            bodies.parse_body(json.dumps(body).encode(), ExtractRequest)
        return caught.value.problem

    assert "'unknown0'" in problem(bodies.MAX_ERRORS)
    assert str(bodies.MAX_ERRORS + 1) in problem(bodies.MAX_ERRORS + 1)
    assert "unknown0" not in problem(bodies.MAX_ERRORS + 1)


@pytest.mark.parametrize("items", [b"[],", b"[[]],", b"{},", b"0,", b'"",'])
def test_too_many_values_are_refused_before_they_are_built(service, monkeypatch, items):
    monkeypatch.setattr(bodies, "parse_body", lambda body, form: pytest.fail("the body was parsed"))
    most = service.engine.settings.limits.values
    content = b'{"text": "a", "entities": [' + items * (most // items.count(b",")) + b"0]}"
    content = content[: service.engine.settings.limits.body_bytes]
    answer = service.client.post("/extract", content=content, headers=JSON)
    message = refusal(answer, 422, "unprocessable")
    assert f"{most:,}" in message


@pytest.mark.parametrize("text", ["," * 90_000, "[{" * 45_000, '\\",' * 30_000, '"[' * 45_000])
def test_brackets_and_commas_in_a_text_are_not_values(text):
    body = json.dumps({"text": text}).encode()
    bodies.check_values(body, 10)
    with pytest.raises(Refusal):
        bodies.check_values(json.dumps({"texts": [text] * 11}).encode(), 10)


@pytest.mark.parametrize("content", [b'"' + b"a," * 500_000, b'"' + b"\\," * 500_000])
def test_unterminated_strings_are_no_values(content):
    """They are scanned once. A scan that starts again at each character would not end."""
    bodies.check_values(content, 0)
    with pytest.raises(Refusal):
        bodies.check_values(content[1:], 0)


def test_long_bodies_are_parsed_in_a_thread(service, monkeypatch):
    parse, places = bodies.parse_body, []

    def recording(body, form):
        places.append(threading.current_thread().name.rpartition("_")[0])
        return parse(body, form)

    monkeypatch.setattr(bodies, "parse_body", recording)
    for padding in (0, bodies.INLINE_BYTES):
        content = b'{"text": 5}' + b" " * padding
        answer = service.client.post("/extract", content=content, headers=JSON)
        assert refusal(answer, 422, "unprocessable").startswith("text: received 5")
    assert places == ["", "cascade-srn-background"]
