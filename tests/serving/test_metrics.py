"""Figures in the text format of Prometheus, and the log of requests: numbers, never a text."""

import logging
import re

import pytest
from tests.serving.live import TEXT, live, until

from cascade_srn.serving.metrics import Counter, Histogram, Metrics

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? (\+Inf|-?[0-9][0-9.e+-]*)')


def test_counters():
    counter = Counter("n_total", "Of something.")
    counter.add(route="/b")
    counter.add(2, route="/a")
    counter.add(0.5, route="/a")
    assert list(counter.samples()) == ['n_total{route="/a"} 2.5', 'n_total{route="/b"} 1']


def test_histograms_add_up():
    histogram = Histogram("seconds", "Of something.", (0.1, 1))
    for value in (0.05, 0.1, 0.2, 7):
        histogram.observe(value)
    assert list(histogram.samples()) == [
        'seconds_bucket{le="0.1"} 2',
        'seconds_bucket{le="1"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 7.35",
        "seconds_count 4",
    ]


def test_labels_are_escaped():
    counter = Counter("n_total", "Of something.")
    counter.add(route='a"b\\c\nd')
    assert list(counter.samples()) == ['n_total{route="a\\"b\\\\c\\nd"} 1']


def test_gauges_are_read_when_asked():
    metrics, values = Metrics(), [1]
    metrics.gauge("g", "Of something.", lambda: values[0])
    values[0] = 5
    assert metrics.text().endswith("# HELP g Of something.\n# TYPE g gauge\ng 5\n")


def test_the_format(service):
    service.post("/extract", {"text": TEXT})
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    kinds, seen = {}, []
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            name = re.split(r"[{ ]", line)[0]
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert kinds.get(name) in ("counter", "gauge") or kinds[family] == "histogram"
            seen.append(line.rpartition(" ")[0])
    assert len(seen) == len(set(seen))
    assert {name.endswith("_total") for name, kind in kinds.items() if kind == "counter"} == {True}


def test_what_is_counted(extractor):
    with live(extractor) as service:
        service.post("/extract", {"texts": [TEXT, "a tagger"]})
        service.post("/extract", {})
        service.client.get("/somewhere")
        value = {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in service.client.get("/metrics").text.splitlines()
            if line[0] != "#"
        }
    assert value['cascade_srn_requests_total{route="/extract",status="200"}'] == 1
    assert value['cascade_srn_requests_total{route="/extract",status="422"}'] == 1
    assert value['cascade_srn_requests_total{route="unknown",status="404"}'] == 1
    assert value['cascade_srn_request_seconds_count{route="/extract"}'] == 2
    assert value["cascade_srn_texts_total"] == 2
    assert value["cascade_srn_words_total"] == sum(map(len, extractor.extract(TEXT).sentences)) + 2
    assert value["cascade_srn_batch_texts_sum"] == 2
    assert value["cascade_srn_model_seconds_total"] > 0
    assert value["cascade_srn_requests_in_flight"] == 1  # that for the figures


SECRET = "Zanzibar"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/extract", {"text": SECRET}),
        ("POST", "/extract", {"text": SECRET, "entities": [{"start": 1, "end": 2, "label": SECRET}]}),
        ("POST", "/extract", {"text": "a", SECRET: 1}),
        ("POST", "/extract", {"text": "a", "thresholds": SECRET}),
        ("POST", f"/extract?text={SECRET}", {"text": SECRET}),
        ("POST", f"/{SECRET}", {"text": SECRET}),
        ("POST", "/draw", {"text": SECRET}),
        ("POST", "/draw", {"document": {"text": SECRET, "sentences": [[[0, 3]]]}}),
        ("POST", "/convert", {"document": {"text": SECRET, "sentences": [[[5, 3]]]}}),
        (SECRET.upper(), "/extract", {"text": SECRET}),
    ],
)
def test_no_text_in_the_log(service, caplog, method, path, body):
    with caplog.at_level(logging.DEBUG):
        status = service.client.request(method, path, json=body).status_code
        until(lambda: any(record.name == "cascade_srn.serving.access" for record in caplog.records))
    ours = [record for record in caplog.records if record.name.startswith(("cascade_srn", "uvicorn", "fastapi"))]
    lines = [record.getMessage() for record in ours]
    assert [line for line in lines if re.search(rf" {status} [0-9.]+ ms, [0-9]+ bytes in, [0-9]+ out$", line)]
    assert not [line for line in lines if SECRET.lower() in line.lower()]


def test_a_defect_of_ours_is_an_answer_and_a_place_in_the_log(extractor, caplog, monkeypatch):
    def broken(document):
        raise RuntimeError(f"about {document.text}")

    with live(extractor) as service, caplog.at_level(logging.DEBUG):
        monkeypatch.setattr("cascade_srn.serving.routes.brat", broken)
        document = {"text": SECRET, "sentences": [[[0, len(SECRET)]]]}
        answer = service.post("/convert", {"document": document})
    assert answer.status_code == 500
    assert answer.json() == {"error": {"code": "internal_error", "message": "the service failed; its log says where"}}
    assert "RuntimeError at test_metrics.py:" in caplog.text
    assert SECRET not in caplog.text
