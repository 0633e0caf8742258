"""Bodies against their forms: how much is said of what is wrong, and where it is found."""

import json
import threading

import pytest
from pydantic import ValidationError
from tests.serving.test_refusals import JSON, refusal

from cascade_srn.serving import bodies
from cascade_srn.serving.messages import ConvertRequest, ExtractRequest
from cascade_srn.serving.refusals import Refusal

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


def test_very_many_errors_are_counted_and_not_looked_at():
    def message(n_unknown):
        body = {"text": "a"} | {f"unknown{number}": 0 for number in range(n_unknown)}
        with pytest.raises(Refusal) as caught:
            bodies.parsed(json.dumps(body).encode(), ExtractRequest)
        return caught.value.message

    assert message(bodies.MOST_ERRORS).startswith("there is no field 'unknown0' here")
    assert message(bodies.MOST_ERRORS + 1) == (
        "the body has 101 fields that are unknown or have a wrong value; /docs shows the form of a request"
    )


@pytest.mark.parametrize("items", [b"[],", b"[[]],", b"{},", b"0,", b'"",'])
def test_too_many_values_are_refused_before_they_are_built(service, monkeypatch, items):
    monkeypatch.setattr(bodies, "parsed", lambda body, form: pytest.fail("the body was parsed"))
    most = service.engine.settings.limits.values
    content = b'{"text": "a", "entities": [' + items * (most // items.count(b",")) + b"0]}"
    content = content[: service.engine.settings.limits.body_bytes]
    answer = service.client.post("/extract", content=content, headers=JSON)
    message = refusal(answer, 422, "unprocessable")
    assert message.endswith(f" JSON values, and {most:,} are taken at most; send fewer or shorter lists")


@pytest.mark.parametrize("text", ["," * 90_000, "[{" * 45_000, '\\",' * 30_000, '"[' * 45_000])
def test_brackets_and_commas_of_a_text_are_no_values(text):
    body = json.dumps({"text": text}).encode()
    bodies.require_values(body, 10)
    with pytest.raises(Refusal):
        bodies.require_values(json.dumps({"texts": [text] * 11}).encode(), 10)


def test_strings_without_an_end_are_looked_at_once():
    """Nothing is tried again and again."""
    bodies.require_values(b'"' + b"a," * 500_000, 10)
    bodies.require_values(b'"' + b"\\," * 500_000, 10)


def test_long_bodies_are_read_beside_the_event_loop(service, monkeypatch):
    read, places = bodies.parsed, []

    def noted(body, form):
        places.append(threading.current_thread().name.rpartition("_")[0])
        return read(body, form)

    monkeypatch.setattr(bodies, "parsed", noted)
    for padding in (0, bodies.INLINE_BYTES):
        content = b'{"text": 5}' + b" " * padding
        answer = service.client.post("/extract", content=content, headers=JSON)
        assert "text: received 5; expected a string" in refusal(answer, 422, "unprocessable")
    assert places == ["", "cascade-srn-aside"]


def test_large_bodies_share_a_rate_after_a_burst():
    pace = bodies.Pace(100, 1000)
    assert pace.delay(1000, now=50.0) == 0
    assert pace.delay(50, now=50.0) == 0.5
    # What was waited for is not waited for again, and silence fills the burst.
    assert pace.delay(50, now=50.5) == 0.5
    assert pace.delay(1000, now=100.0) == 0


def test_delays_are_bounded():
    pace = bodies.Pace(10, 1, longest=2.0)
    assert max(pace.delay(1, now=5.0) for _ in range(100)) == 2.0
    # A flood that is over does not delay what comes later.
    assert pace.delay(1, now=8.0) == 0
