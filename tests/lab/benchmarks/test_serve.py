"""The benchmark of the service: what it counts as lost, mixed up and wrong, and one short run."""

import asyncio
import json
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from tests.apps.service.live import TEXT, live, random_extractor

from cascade_srn.lab.benchmarks.measuring import BenchmarkRun
from cascade_srn.lab.benchmarks.options import ServeOptions
from cascade_srn.lab.benchmarks.serve import LoadRequest, Tally, ask_at_once, ask_in_turn, is_faultless, measure

TEXTS = [TEXT, "a tagger helps parsing", "search engines need data .", "accuracy measures the parser"]


@pytest.fixture(scope="module")
def extractor():
    return random_extractor()


@pytest.fixture(scope="module")
def service(extractor):
    with live(extractor) as running:
        yield running


@pytest.fixture(scope="module")
def questions(extractor):
    return [LoadRequest.of({"text": text}, extractor.extract(text)) for text in TEXTS]


def place(service):
    parts = urlsplit(service.url)
    return parts.hostname, parts.port


def judged(question, change=lambda document: None, *, status=200):
    document = json.loads(json.dumps(question.expected))
    change(document)
    return question.judge(status, json.dumps({"documents": [document]}).encode())


def test_right_answers(questions):
    assert judged(questions[0]) == "right"
    assert judged(questions[0], lambda d: d["entities"][0].update(score=d["entities"][0]["score"] + 1e-6)) == "right"


def test_wrong_answers(questions):
    assert judged(questions[0], lambda d: d["entities"][0].update(label="Other")) == "wrong"
    assert judged(questions[0], lambda d: d["entities"][0].update(score=0.0)) == "wrong"
    assert judged(questions[0], lambda d: d["entities"][0].update(score=None)) == "wrong"
    assert judged(questions[0], lambda d: d["entities"].pop()) == "wrong"
    assert judged(questions[0], lambda d: d["relations"].pop()) == "wrong"
    assert judged(questions[0], lambda d: d["sentences"].pop()) == "wrong"


def test_other_answers(questions):
    assert judged(questions[0], lambda d: d.update(text="another text")) == "mixed"
    assert questions[0].judge(200, b'{"documents":[]}') == "mixed"
    assert judged(questions[0], status=503) == "refused"
    assert judged(questions[0], status=500) == "failed"


def test_many_clients_of_a_real_service(service, questions):
    tally = Tally()
    asyncio.run(ask_at_once(place(service), questions, tally, n_clients=20, seconds=0.3))
    assert tally.outcomes.keys() == {"right"}
    assert tally.outcomes["right"] == len(tally.latencies) >= 20


def test_faults_are_seen(service, questions):
    first, second, *_ = questions
    swapped = replace(first, request=second.request)
    changed = replace(second, expected={**second.expected, "sentences": []})
    broken = replace(first, request=first.request.replace(b"/extract", b"/extracts"))
    tally = Tally()
    asyncio.run(ask_in_turn(place(service), [first, swapped, changed, broken, second], tally))
    assert tally.outcomes == {"right": 2, "mixed": 1, "wrong": 1, "failed": 1}


def test_a_service_that_is_not_there(questions):
    with live(random_extractor()) as gone:
        nowhere = place(gone)
    tally = Tally()
    asyncio.run(ask_in_turn(nowhere, questions, tally))
    assert tally.outcomes == {"lost": len(questions)}


@pytest.mark.slow
def test_a_short_run():
    result = measure(ServeOptions(sentences=5, clients=(1, 4), seconds=0.2, single=3, device="cpu"), BenchmarkRun())
    assert is_faultless(result)
    one, many = result.to_dict()["rows"]
    assert (one["clients"], one["answers"], one["right"]) == (1, 3, 3)
    assert many["clients"] == 4
    assert many["right"] == many["answers"] >= 4
    assert result.settings["questions"] > 5
    assert not is_faultless(replace(result, rows=[one, {**many, "mixed": 1}]))
