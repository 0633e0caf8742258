"""Requests that are refused: status, code and data of the message."""

import gzip
import json

import pytest
from tests.apps.service.live import TEXT, live, received

from cascade_srn.apps.service.messages import DocumentForm
from cascade_srn.apps.service.requests import read_document, refuse_text
from cascade_srn.apps.web.refusals import Refusal
from cascade_srn.apps.web.settings import Limits, ServeSettings
from cascade_srn.errors import CascadeError
from cascade_srn.types import Document

JSON = {"Content-Type": "application/json"}
DOCUMENT = {
    "text": "taggers and parsers",
    "sentences": [[[0, 7], [8, 11], [12, 19]]],
    "entities": [
        {"id": 0, "text": "taggers", "label": "Thing", "start": 0, "end": 7, "score": 0.9},
        {"id": 1, "text": "parsers", "label": "Thing", "start": 12, "end": 19, "score": None},
    ],
    "relations": [{"head": 0, "tail": 1, "label": "compare", "score": 0.5}],
}


def refusal(answer, status, code):
    """Check the form of a refusal, and return its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()
    assert found.keys() == {"error"}
    assert found["error"].keys() == {"code", "message", "problem", "hint"}
    assert found["error"]["code"] == code
    return found["error"]["message"]


@pytest.mark.parametrize(
    ("body", "place", "data"),
    [
        ({}, "", ["text or texts", "/docs"]),
        ({"text": "a", "texts": ["a"]}, "", ["text or texts"]),
        ({"texts": []}, "texts: ", ["0 items", "1 or more"]),
        ({"text": 5}, "text: ", ["5", "a string"]),
        ({"texts": ["a", None]}, "texts.1: ", ["null", "a string"]),
        ([], "", ["a list of 0 items", "an object"]),
        ("text", "", ["a string", "an object"]),
        ({"text": "a", "threshold": 1}, "", ["'threshold'", "Did you mean 'thresholds'?"]),
        ({"Text": "a"}, "", ["'Text'", "Did you mean 'text'?"]),
        ({"text": "a", "x" * 99: 1}, "", [repr("x" * 40), "align, entities, overlaps, precision, skip, text"]),
        ({"text": "a", "thresholds": {"entitty": 0.3}}, "thresholds: ", ["'entitty'", "Did you mean 'entity'?"]),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "Lable": "Task"}]},
            "entities.0: ",
            ["'Lable'", "Did you mean 'label'?"],
        ),
        ({"text": "a", "align": "expnad"}, "align: ", ["'expnad'", "'exact' or 'expand'"]),
        (
            {"text": "a", "entities": [{"start": 0, "end": 0.5, "label": "Task"}]},
            "entities.0.end: ",
            ["0.5", "a whole number"],
        ),
        ({"text": "a", "entities": 5}, "entities: ", ["5", "a list"]),
        ({"text": "a", "overlaps": "some"}, "overlaps: ", ["'some'", "'flat', 'nested' or 'all'"]),
        ({"text": "a", "thresholds": 1.5}, "thresholds: ", ["1.5", "at most 1"]),
        ({"text": "a", "thresholds": "x"}, "thresholds: ", ["a string", "an object or a number"]),
        ({"text": "a", "thresholds": {"entity": -1}}, "thresholds.entity: ", ["-1", "at least 0"]),
        ({"text": "a", "thresholds": {"entity": True}}, "thresholds.entity: ", ["true", "a number"]),
        ({"text": "a", "thresholds": 0.01}, "thresholds: ", ["0.01", "0.05"]),
        ({"text": "a", "thresholds": {"relation_types": {"used-for": 0}}}, "thresholds.relation_types: ", ["0.05"]),
        ({"text": "a", "thresholds": {"related": 0.01}}, "thresholds.related: ", ["0.01", "0.05"]),
        ({"text": "a", "thresholds": {"related": 2}}, "thresholds.related: ", ["2", "at most 1"]),
        (
            {"text": "a", "thresholds": {"entity_types": {"Tsk": 0.5}}},
            "thresholds.entity_types: ",
            ["'Tsk'", "Did you mean 'Task'?"],
        ),
        ({"text": "a", "entities": [{"start": 0}]}, "entities.0.end: ", ["missing"]),
        ({"texts": ["a", "b"], "entities": [[]]}, "entities: ", ["1 lists", "2 texts"]),
        (
            {"texts": ["a", "b"], "entities": [{"start": 0, "end": 1, "label": "Task"}] * 2},
            "entities: ",
            ["2 lists", "2 texts"],
        ),
        (
            {"texts": ["a", "tagger"], "entities": [None, [{"start": 1, "end": 6, "label": "Task"}]]},
            "text 1: ",
            ["[1, 6)", "'agger'", "'tagger' [0, 6)"],
        ),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "label": "Tsk"}]},
            "text 0: ",
            ["sentence 0", "'Tsk'", "Did you mean 'Task'?"],
        ),
        ({"text": "a", "entities": [{"start": 0, "end": 1, "label": "Task"}] * 2}, "text 0: ", ["'Task'", "[0, 1)"]),
    ],
)
def test_invalid_bodies(service, body, place, data):
    message = refusal(service.post("/extract", body), 422, "unprocessable")
    assert message.startswith(place)
    assert [part for part in data if part not in message] == []


def test_hints_about_python_parameters_are_replaced(monkeypatch):
    """The library's hint names a Python parameter; a request has a field of the same name, a document has none."""
    error = CascadeError("the span [1, 6) is misaligned", "Pass 'expand'", option="align")
    refused = refuse_text(1, error)
    assert refused.problem == "text 1: the span [1, 6) is misaligned"
    assert '"align": "expand"' in refused.hint

    def fail(_):
        raise error

    monkeypatch.setattr(Document, "from_dict", fail)
    with pytest.raises(Refusal, match=r"\[1, 6\)") as caught:
        read_document(DocumentForm(text="a", sentences=[]), Limits())
    assert "expand" not in caught.value.message()
    other = refuse_text(0, CascadeError("the text is bad", "Use another one"))
    assert other.message() == "text 0: the text is bad. Use another one."


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"text": "a"} {}',
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": "\\ud800"}',
        b'{"text": "a", "thresholds": NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"text=a",
    ],
)
def test_bodies_that_are_not_json(service, content):
    answer = service.client.post("/extract", content=content, headers=JSON)
    if content.endswith(b"NaN}"):
        assert refusal(answer, 422, "unprocessable").startswith("thresholds: received nan")
    else:
        refusal(answer, 400, "invalid_json")


def test_numbers_too_large_to_hold(service):
    content = b'{"text": "a", "entities": [{"start": 0, "end": ' + b"9" * 10_000 + b', "label": "Task"}]}'
    assert service.client.post("/extract", content=content, headers=JSON).status_code in (400, 422)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_content_type(service, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = service.client.post("/extract", content=b'{"text": "a"}', headers=headers)
    assert repr(kind or "") in refusal(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "gzip, identity"])
def test_compressed_bodies(service, encoding):
    headers = {**JSON, "Content-Encoding": encoding}
    answer = service.client.post("/extract", content=gzip.compress(b'{"text": "a"}'), headers=headers)
    assert repr(encoding.lower()) in refusal(answer, 415, "unsupported_media_type")
    headers = {**JSON, "Content-Encoding": "identity"}
    assert service.client.post("/extract", content=b'{"text": "a"}', headers=headers).status_code == 200


def test_content_types_with_parameters(service):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert service.client.post("/extract", content=b'{"text": "a"}', headers=headers).status_code == 200


def test_paths_and_methods(service):
    refusal(service.client.get("/extracts"), 404, "not_found")
    refusal(service.client.get("/extract/"), 404, "not_found")
    answer = service.client.get("/extract")
    message = refusal(answer, 405, "method_not_allowed")
    assert "GET" in message
    assert "POST" in message
    assert answer.headers["allow"] == "POST"
    refusal(service.client.request("PUT", "/extract"), 405, "method_not_allowed")
    refusal(service.client.request("BREW", "/extract"), 405, "method_not_allowed")
    page = "/service/page/page.css"
    for path, allowed in (("/extract", "POST"), ("/schema", "GET"), ("/", "GET, HEAD"), (page, "GET, HEAD")):
        answer = service.client.options(path)
        refusal(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


@pytest.fixture(scope="module")
def strict(extractor):
    limits = Limits(
        body_bytes=2000,
        texts=3,
        characters=100,
        sentence_words=20,
        sentence_entities=2,
        annotations=4,
        drawn=4,
        sentence_arcs=1,
        threshold=0.05,
    )
    with live(extractor, ServeSettings(limits=limits)) as running:
        yield running


def entities_at(*starts):
    return [{"start": start, "end": start + 1, "label": "Task"} for start in starts]


@pytest.mark.parametrize(
    ("refused", "data", "accepted"),
    [
        ({"texts": ["a"] * 4}, ["4 texts", "limit is 3"], {"texts": ["a"] * 3}),
        ({"texts": ["a", "b" * 101]}, ["text 1 has 101 characters", "limit is 100"], {"text": "b" * 100}),
        (
            {"texts": ["a", "a " * 21]},
            ["text 1 ", "21 words", "limit is 20"],
            {"text": ("It " + "a " * 18 + ". ") * 2},
        ),
        (
            {"text": "a b c d e", "entities": entities_at(0, 2, 4, 6, 8)},
            ["text 0 has 5 ", "limit is 4"],
            {"text": "a b\n\nc d", "entities": entities_at(0, 2, 5, 7)},
        ),
        (
            {"texts": ["a", "a b c"], "entities": [None, entities_at(0, 2, 4)]},
            ["text 1 ", "3 given entities", "limit is 2"],
            {"text": "a b\n\nc", "entities": entities_at(0, 2, 5)},
        ),
    ],
)
def test_too_much_text_or_too_many_entities(strict, refused, data, accepted):
    message = refusal(strict.post("/extract", refused), 422, "unprocessable")
    assert [part for part in data if part not in message] == []
    assert strict.post("/extract", accepted).status_code == 200


@pytest.mark.parametrize("path", ["/draw", "/convert"])
@pytest.mark.parametrize(
    ("document", "data"),
    [
        ({"text": "b" * 101, "sentences": []}, ["101 characters", "limit is 100"]),
        (DOCUMENT | {"relations": DOCUMENT["relations"] * 3}, ["5 entities and relations", "limit is 4"]),
        # Empty sentences are not bounded by the length of the text.
        ({"text": "", "sentences": [[]] * 101}, ["101 sentences", "limit is 100"]),
    ],
)
def test_too_large_documents(strict, path, document, data):
    message = refusal(strict.post(path, {"document": document}), 422, "unprocessable")
    assert [part for part in data if part not in message] == []
    assert strict.post(path, {"document": {"text": "", "sentences": [[]] * 100}}).status_code == 200


def test_too_many_arcs_over_a_sentence(strict):
    """Duplicate relations count once."""
    relation = {"head": 0, "tail": 0, "label": "compare"}
    document = DOCUMENT | {"entities": DOCUMENT["entities"][:1]}
    body = {"document": document | {"relations": [relation, relation | {"label": "other"}]}}
    message = refusal(strict.post("/draw", body), 422, "unprocessable")
    assert "2 relations" in message
    assert "limit is 1" in message
    assert strict.post("/draw", {"document": document | {"relations": [relation] * 2}}).status_code == 200


def test_too_much_to_draw(strict):
    """Two entities of a word each, and an arc over three words."""
    message = refusal(strict.post("/draw", {"document": DOCUMENT}), 422, "unprocessable")
    assert "5 words" in message
    assert "limit is 4" in message
    assert strict.post("/draw", {"document": DOCUMENT | {"relations": []}}).status_code == 200


def test_too_many_characters_to_draw(extractor):
    """Two entities of 19 characters, and a relation over the same 19."""
    limits = Limits(drawn_characters=56)
    document = {
        "text": "taggers_and_parsers",
        "sentences": [[[0, 19]]],
        "entities": [
            {"id": n, "text": "taggers_and_parsers", "label": label, "start": 0, "end": 19}
            for n, label in enumerate(("Thing", "Tool"))
        ],
        "relations": [{"head": 0, "tail": 1, "label": "compare"}],
    }
    with live(extractor, ServeSettings(limits=limits)) as service:
        for format in ("html", "svg"):
            message = refusal(service.post("/draw", {"document": document, "format": format}), 422, "unprocessable")
            assert "57 characters" in message
            assert "limit is 56" in message
            fewer = {"document": document | {"relations": []}, "format": format}
            assert service.post("/draw", fewer).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("format", ["html", "svg"])
def test_a_very_long_word_is_drawn_or_refused(service, format):
    """Characters are limited as well as words."""
    word = "x" * 99_000

    def drawn(n_entities):
        entities = [{"id": n, "text": word, "label": f"L{n}", "start": 0, "end": 99_000} for n in range(n_entities)]
        document = {"text": word, "sentences": [[[0, 99_000]]], "entities": entities}
        return service.post("/draw", {"document": document, "format": format})

    for n_entities in (1, 3):
        answer = drawn(n_entities)
        assert answer.status_code == 200
        assert len(answer.content) < 20 * len(word)
    message = refusal(drawn(4), 422, "unprocessable")
    assert "396,000 characters" in message
    assert "limit is 300,000" in message


def test_a_body_at_the_limit(strict):
    """With a declared length, and in chunks without."""
    body = b'{"text": "We parse."}'.ljust(2000)
    for content in (body, iter((body[:1000], body[1000:]))):
        assert strict.client.post("/extract", content=content, headers=JSON).status_code == 200


def test_too_large_a_body_is_refused_by_its_length(strict):
    answer = strict.client.post("/extract", content=b" " * 3000, headers=JSON)
    message = refusal(answer, 413, "body_too_large")
    assert "3,000 bytes" in message
    assert "limit is 2,000" in message


def test_too_large_a_body_is_refused_while_it_comes(strict):
    """Sent in chunks without a length, it is refused before it ends."""
    with strict.connect() as connection:
        head = (
            b"POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head + b"7d0\r\n" + b" " * 2000 + b"\r\n")
        connection.sendall(b"1\r\n \r\n")
        answer = b""
        while received := connection.recv(65536):  # until the service closes the connection
            answer += received
    assert answer.startswith(b"HTTP/1.1 413 ")
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["error"]["code"] == "body_too_large"
    assert "2,000" in body["error"]["message"]


def test_a_body_in_chunks_is_taken(service):
    answer = service.client.post("/extract", content=iter([b'{"text"', b': "a tagger"}']), headers=JSON)
    assert answer.json()["documents"][0]["text"] == "a tagger"


@pytest.mark.slow
def test_a_body_that_does_not_come(extractor):
    settings = ServeSettings(request_seconds=0.05)
    with live(extractor, settings) as service, service.connect() as connection:
        connection.sendall(
            b"POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in answer
    assert b"0.05 s" in answer


@pytest.mark.parametrize(
    ("change", "data"),
    [
        ({"text": "tagger and parsers"}, "[12, 19]"),
        ({"entities": [{**DOCUMENT["entities"][0], "end": 6, "text": "tagger"}], "relations": []}, "'taggers' [0, 7)"),
        ({"relations": [{"head": 0, "tail": 2, "label": "compare"}]}, "2"),
        ({"sentences": [[[0, 7, 9]]]}, "document.sentences.0.0: received a list of 3 items"),
        ({"sentences": [[[0, 700]]], "entities": [], "relations": []}, "[0, 700]"),
        (
            {"entities": [{**DOCUMENT["entities"][0], "score": 2}]},
            "document.entities.0.score: received 2",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/draw", "/convert"])
def test_inconsistent_documents(service, path, change, data):
    answer = service.post(path, {"document": DOCUMENT | change})
    assert data in refusal(answer, 422, "unprocessable")


def test_invalid_drawing_requests(service):
    for body in ({}, {"text": TEXT, "document": DOCUMENT}):
        assert "text or document" in refusal(service.post("/draw", body), 422, "unprocessable")
    for field, value in (("thresholds", 0.5), ("overlaps", "all")):
        both = {"document": DOCUMENT, field: value}
        assert field in refusal(service.post("/draw", both), 422, "unprocessable")
    other = refusal(service.post("/draw", {"text": TEXT, "format": "png"}), 422, "unprocessable")
    assert other.startswith("format: received 'png'")
    assert "'html' or 'svg'" in other


def test_documents_that_brat_cannot_represent(service):
    spaced = {"document": DOCUMENT | {"entities": [{**DOCUMENT["entities"][0], "label": "a b"}], "relations": []}}
    assert "'a b'" in refusal(service.post("/convert", spaced), 422, "unprocessable")
