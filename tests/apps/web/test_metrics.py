"""Metrics in the Prometheus text format, and the access log, which contains no texts."""

import logging
import re

import pytest
from tests.apps.service.live import TEXT, live
from tests.apps.web.live_app import until

from cascade_srn.apps.web.metrics import Metrics, WorkerMetrics, merge_metrics

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? (\+Inf|-?[0-9][0-9.e+-]*)')


def test_every_application_has_its_own_metrics():
    first, second = Metrics(), Metrics()
    first.requests.labels("/health", 200).inc()
    assert b"cascade_srn_requests_total{" in first.render()
    assert b"cascade_srn_requests_total{" not in second.render()


def test_gauges_are_read_on_request():
    metrics, values = Metrics(), [1]
    metrics.add_gauge("g", "Of something.", lambda: values[0])
    values[0] = 5
    assert metrics.render().endswith(b"# HELP g Of something.\n# TYPE g gauge\ng 5.0\n")


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
    assert not [name for name in kinds if name.endswith("_created")]


def test_values(extractor):
    with live(extractor) as service:
        service.post("/extract", {"texts": [TEXT, "a tagger"]})
        service.post("/extract", {})
        service.client.get("/somewhere")
        value = service.metrics()
    assert value['cascade_srn_requests_total{route="/extract",status="200"}'] == 1
    assert value['cascade_srn_requests_total{route="/extract",status="422"}'] == 1
    assert value['cascade_srn_requests_total{route="unknown",status="404"}'] == 1
    assert value['cascade_srn_request_seconds_count{route="/extract"}'] == 2
    assert value["cascade_srn_texts_total"] == 2
    assert value["cascade_srn_words_total"] == sum(map(len, extractor.extract(TEXT).sentences)) + 2
    assert value["cascade_srn_batch_texts_sum"] == 2
    assert value["cascade_srn_model_seconds_total"] > 0
    assert value["cascade_srn_requests_in_flight"] == 1  # the request for the metrics


def test_metrics_have_a_label_for_each_worker(tmp_path):
    first, second = (WorkerMetrics(number, tmp_path) for number in range(2))
    for metrics, number in ((first, 3), (second, 5)):
        metrics.counter("cascade_srn_texts_total", "Texts.").inc(number)
    second.requests.labels("/extract", 200).inc()
    second.write()
    text = first.render().decode()
    assert 'cascade_srn_texts_total{worker="0"} 3.0\ncascade_srn_texts_total{worker="1"} 5.0\n' in text
    assert text.count("# HELP cascade_srn_texts_total ") == 1
    assert 'cascade_srn_requests_total{route="/extract",status="200",worker="1"} 1.0\n' in text
    (tmp_path / "1.prom").unlink()
    assert 'worker="1"' not in first.render().decode()


def test_metrics_that_only_one_worker_has_are_kept():
    one, two = "# HELP a x\n# TYPE a gauge\na 1\n", "# HELP b x\n# TYPE b gauge\nb 2\n# HELP a x\n# TYPE a gauge\na 3\n"
    assert merge_metrics([one, two]) == "# HELP a x\n# TYPE a gauge\na 1\na 3\n# HELP b x\n# TYPE b gauge\nb 2\n"


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
        until(lambda: any(record.name == "cascade_srn.apps.web.access" for record in caplog.records))
    ours = [record for record in caplog.records if record.name.startswith(("cascade_srn", "uvicorn", "fastapi"))]
    lines = [record.getMessage() for record in ours]
    assert [line for line in lines if re.search(rf" {status} [0-9.]+ ms, [0-9]+ bytes in, [0-9]+ out$", line)]
    assert not [line for line in lines if SECRET.lower() in line.lower()]


def test_unexpected_errors_are_answered_with_500_and_logged_by_place(extractor, caplog, monkeypatch):
    def broken(document):
        raise RuntimeError(f"about {document.text}")

    with live(extractor) as service, caplog.at_level(logging.DEBUG):
        monkeypatch.setattr("cascade_srn.apps.service.app.convert_to_brat", broken)
        document = {"text": SECRET, "sentences": [[[0, len(SECRET)]]]}
        answer = service.post("/convert", {"document": document})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "RuntimeError at test_metrics.py:" in caplog.text
    assert SECRET not in caplog.text
