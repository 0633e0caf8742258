"""What is refused, with which status, in which words: one JSON form for all of it."""

import json

import pytest
from tests.serving.live import TEXT, live, received

from cascade_srn.serving import Limits, ServeSettings

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
    """The message of a refusal, once its form is checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()
    assert found.keys() == {"error"}
    assert found["error"].keys() == {"code", "message"}
    assert found["error"]["code"] == code
    return found["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "give either text or texts; /docs shows the form of a request"),
        ({"text": "a", "texts": ["a"]}, "give either text or texts"),
        ({"texts": []}, "texts: received a list of 0 items; expected 1 or more"),
        ({"text": 5}, "text: received 5; expected a string; /docs shows the form of a request"),
        ({"texts": ["a", None]}, "texts.1: received null; expected a string"),
        ([], "received a list of 0 items; expected an object"),
        ("text", "received a string; expected an object"),
        (
            {"text": "a", "threshold": 1},
            "there is no field 'threshold' here. Did you mean 'thresholds'? /docs shows the form of a request",
        ),
        ({"Text": "a"}, "there is no field 'Text' here. Did you mean 'text'?"),
        ({"text": "a", "x" * 99: 1}, f"there is no field {'x' * 40!r} here. Known: align, entities, text"),
        ({"text": "a", "thresholds": {"entitty": 0.3}}, "thresholds: there is no field 'entitty' here. Did you mean"),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "Lable": "Task"}]},
            "entities.0: there is no field 'Lable' here. Did you mean 'label'?",
        ),
        ({"text": "a", "align": "expnad"}, "align: received 'expnad'; expected 'exact' or 'expand'"),
        ({"text": "a", "entities": [{"start": 0, "end": 0.5, "label": "Task"}]}, "received 0.5; expected a whole"),
        ({"text": "a", "entities": 5}, "entities: received 5; expected a list"),
        ({"text": "a", "thresholds": 1.5}, "thresholds: received 1.5; expected at most 1"),
        ({"text": "a", "thresholds": "x"}, "thresholds: received a string; expected an object or a number"),
        ({"text": "a", "thresholds": {"entity": -1}}, "thresholds.entity: received -1; expected at least 0"),
        ({"text": "a", "thresholds": {"entity": True}}, "thresholds.entity: received true; expected a number"),
        ({"text": "a", "thresholds": 0.01}, "thresholds: 0.01 is below 0.05, the lowest threshold that this"),
        ({"text": "a", "thresholds": {"relation_types": {"used-for": 0}}}, "thresholds.relation_types: 0 is below"),
        (
            {"text": "a", "thresholds": {"related": 0.01}},
            "thresholds.related: 0.01 is below 0.05, the lowest",
        ),
        ({"text": "a", "thresholds": {"related": 2}}, "thresholds.related: received 2; expected at most 1"),
        (
            {"text": "a", "thresholds": {"entity_types": {"Tsk": 0.5}}},
            "thresholds.entity_types: there is no 'Tsk'. Did you mean 'Task'?",
        ),
        ({"text": "a", "entities": [{"start": 0}]}, "entities.0.end: it is missing"),
        ({"texts": ["a", "b"], "entities": [[]]}, "entities: 1 lists were sent for 2 texts; send one for each text"),
        (
            {"texts": ["a", "b"], "entities": [{"start": 0, "end": 1, "label": "Task"}] * 2},
            "entities: 2 lists were sent for 2 texts; send one for each text",
        ),
        (
            {"texts": ["a", "tagger"], "entities": [None, [{"start": 1, "end": 6, "label": "Task"}]]},
            "text 1: the span [1, 6) 'agger' of document '' does not start and end on word boundaries; nearest words: "
            '\'tagger\' [0, 6); mend the offsets, or take whole words by "align": "expand"',
        ),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "label": "Tsk"}]},
            "text 0: sentence 0 has an entity of type 'Tsk', which the schema does not hold. Did you mean 'Task'?",
        ),
        (
            {"text": "a", "entities": [{"start": 0, "end": 1, "label": "Task"}] * 2},
            "text 0: the entity 'Task' at words [0, 1) is given twice",
        ),
    ],
)
def test_bodies_that_say_something_wrong(service, body, message):
    assert message in refusal(service.post("/extract", body), 422, "unprocessable")


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
def test_what_is_not_json(service, content):
    answer = service.client.post("/extract", content=content, headers=JSON)
    if content.endswith(b"NaN}"):
        assert "thresholds: received nan; expected a finite number" in refusal(answer, 422, "unprocessable")
    else:
        message = refusal(answer, 400, "invalid_json")
        assert message.startswith("the body is not JSON (")
        assert message.endswith("); send one JSON object in UTF-8")


def test_numbers_too_large_to_hold(service):
    content = b'{"text": "a", "entities": [{"start": 0, "end": ' + b"9" * 10_000 + b', "label": "Task"}]}'
    assert service.client.post("/extract", content=content, headers=JSON).status_code in (400, 422)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_content_type(service, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = service.client.post("/extract", content=b'{"text": "a"}', headers=headers)
    message = refusal(answer, 415, "unsupported_media_type")
    assert message == f"the body is said to be {kind or ''!r}; send JSON with the header Content-Type: application/json"


def test_content_types_with_parameters(service):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert service.client.post("/extract", content=b'{"text": "a"}', headers=headers).status_code == 200


def test_paths_and_methods(service):
    assert "nothing at this path" in refusal(service.client.get("/extracts"), 404, "not_found")
    assert "nothing at this path" in refusal(service.client.get("/extract/"), 404, "not_found")
    answer = service.client.get("/extract")
    assert "the method GET is not allowed at this path; use POST" in refusal(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    refusal(service.client.request("PUT", "/extract"), 405, "method_not_allowed")
    refusal(service.client.request("BREW", "/extract"), 400, "bad_request")


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


def test_too_many_texts(strict):
    message = refusal(strict.post("/extract", {"texts": ["a"] * 4}), 422, "unprocessable")
    assert message == "4 texts were sent, and 3 are taken in one request at most; send several requests"
    assert strict.post("/extract", {"texts": ["a"] * 3}).status_code == 200


def test_too_long_a_text(strict):
    message = refusal(strict.post("/extract", {"texts": ["a", "b" * 101]}), 422, "unprocessable")
    assert message == "text 1: it has 101 characters, and 100 are taken at most; send it in parts"
    assert strict.post("/extract", {"text": "b" * 100}).status_code == 200
    for path in ("/draw", "/convert"):
        long = {"document": {"text": "b" * 101, "sentences": []}}
        assert "it has 101 characters" in refusal(strict.post(path, long), 422, "unprocessable")


def test_too_long_a_sentence(strict):
    message = refusal(strict.post("/extract", {"texts": ["a", "a " * 21]}), 422, "unprocessable")
    assert message == (
        "text 1: it has a sentence of 21 words, and 20 are taken at most; end sentences by full stops or blank lines"
    )
    assert strict.post("/extract", {"text": ("It " + "a " * 18 + ". ") * 2}).status_code == 200


def test_too_many_annotations(strict):
    entities = [{"start": i, "end": i + 1, "label": "Task"} for i in (0, 2, 4, 6, 8)]
    message = refusal(strict.post("/extract", {"text": "a b c d e", "entities": entities}), 422, "unprocessable")
    assert message == "text 0: the entities given are 5, and 4 are taken at most; send fewer"
    document = DOCUMENT | {"relations": DOCUMENT["relations"] * 3}
    message = refusal(strict.post("/convert", {"document": document}), 422, "unprocessable")
    assert message == "the entities and relations of the document are 5, and 4 are taken at most; send fewer"


def test_too_many_entities_given_with_a_sentence(strict):
    entities = [{"start": i, "end": i + 1, "label": "Task"} for i in (0, 2, 4)]
    body = {"texts": ["a", "a b c"], "entities": [None, entities]}
    message = refusal(strict.post("/extract", body), 422, "unprocessable")
    assert message == ("text 1: 3 entities are given with one of its sentences, and 2 are taken at most; send fewer")
    parted = {"text": "a b\n\nc", "entities": [*entities[:2], {"start": 5, "end": 6, "label": "Task"}]}
    assert strict.post("/extract", parted).status_code == 200


def test_too_many_sentences(strict):
    """One that is empty has no characters by which it could be counted."""
    for path in ("/draw", "/convert"):
        document = {"text": "", "sentences": [[]] * 101}
        message = refusal(strict.post(path, {"document": document}), 422, "unprocessable")
        assert message == (
            "the document has 101 sentences, and 100, one for each character that is taken, are taken at most; leave "
            "empty ones out"
        )
        assert strict.post(path, {"document": document | {"sentences": [[]] * 100}}).status_code == 200


def test_too_many_arcs_over_a_sentence(strict):
    """Relations that are given twice are drawn once."""
    relation = {"head": 0, "tail": 0, "label": "compare"}
    document = DOCUMENT | {"entities": DOCUMENT["entities"][:1]}
    body = {"document": document | {"relations": [relation, relation | {"label": "other"}]}}
    message = refusal(strict.post("/draw", body), 422, "unprocessable")
    assert message == (
        "the drawing would have 2 relations over one sentence, and 1 are drawn at most; draw fewer of them"
    )
    assert strict.post("/draw", {"document": document | {"relations": [relation] * 2}}).status_code == 200


def test_too_much_to_draw(strict):
    """Two entities of a word each, and an arc over three words."""
    message = refusal(strict.post("/draw", {"document": DOCUMENT}), 422, "unprocessable")
    assert message == (
        "the drawing would have 5 words under its bars and arcs, and 4 are drawn at most; draw the text in parts, or "
        "less of what was found"
    )
    assert strict.post("/draw", {"document": DOCUMENT | {"relations": []}}).status_code == 200


def test_too_many_characters_to_draw(extractor):
    """A word may be as long as a text: entities of 19 characters, and an arc over as many."""
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
            assert message == (
                "the drawing would have 57 characters under its bars and arcs, and 56 are drawn at most; draw the text "
                "in parts, or less of what was found"
            )
            fewer = {"document": document | {"relations": []}, "format": format}
            assert service.post("/draw", fewer).status_code == 200


@pytest.mark.parametrize("format", ["html", "svg"])
def test_one_endless_word_is_drawn_or_refused(service, format):
    """It is one word, however long it is and however many entities cover it."""
    word = "x" * 99_000

    def drawn(n_entities):
        entities = [{"id": n, "text": word, "label": f"L{n}", "start": 0, "end": 99_000} for n in range(n_entities)]
        document = {"text": word, "sentences": [[[0, 99_000]]], "entities": entities}
        return service.post("/draw", {"document": document, "format": format})

    for n_entities in (1, 3):
        answer = drawn(n_entities)
        assert answer.status_code == 200
        assert len(answer.content) < 20 * len(word)
    assert refusal(drawn(4), 422, "unprocessable").startswith(
        "the drawing would have 396,000 characters under its bars and arcs, and 300,000 are drawn at most; "
    )


def test_a_body_of_just_the_most_that_is_taken(strict):
    """With its length, and in chunks without."""
    body = b'{"text": "We parse."}'.ljust(2000)
    for content in (body, iter((body[:1000], body[1000:]))):
        assert strict.client.post("/extract", content=content, headers=JSON).status_code == 200


def test_too_large_a_body_is_refused_by_its_length(strict):
    answer = strict.client.post("/extract", content=b" " * 3000, headers=JSON)
    message = refusal(answer, 413, "body_too_large")
    assert message == "the body has 3,000 bytes, and 2,000 are taken at most; send fewer or shorter texts"


def test_too_large_a_body_is_refused_while_it_comes(strict):
    """In chunks, without a length: the answer comes before the body has ended."""
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
    assert body["error"]["message"].startswith("the body has more than 2,000 bytes")


def test_a_body_in_chunks_is_taken(service):
    answer = service.client.post("/extract", content=iter([b'{"text"', b': "a tagger"}']), headers=JSON)
    assert answer.json()["documents"][0]["text"] == "a tagger"


def test_a_body_that_does_not_come(extractor):
    settings = ServeSettings(request_seconds=0.05)
    with live(extractor, settings) as service, service.connect() as connection:
        connection.sendall(
            b"POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.05 s; send it again" in answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "tagger and parsers"}, "offsets"),
        ({"entities": [{**DOCUMENT["entities"][0], "end": 6, "text": "tagger"}], "relations": []}, "word boundaries"),
        ({"relations": [{"head": 0, "tail": 2, "label": "compare"}]}, "2"),
        ({"sentences": [[[0, 7, 9]]]}, "document.sentences.0.0: received a list of 3 items; expected 2 or fewer"),
        ({"sentences": [[[0, 700]]], "entities": [], "relations": []}, "sentences[0][0] is [0, 700]"),
        (
            {"entities": [{**DOCUMENT["entities"][0], "score": 2}]},
            "document.entities.0.score: received 2; expected",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/draw", "/convert"])
def test_documents_that_contradict_themselves(service, path, change, message):
    answer = service.post(path, {"document": DOCUMENT | change})
    assert message in refusal(answer, 422, "unprocessable")


@pytest.mark.parametrize("path", ["/draw", "/convert"])
def test_entities_of_a_document_that_end_within_a_word(service, path):
    """They come with their words: no request can have them aligned."""
    inside = DOCUMENT | {"entities": [{**DOCUMENT["entities"][0], "end": 6, "text": "tagger"}], "relations": []}
    message = refusal(service.post(path, {"document": inside}), 422, "unprocessable")
    problem, _, advice = message.partition(" does not start and end on word boundaries; ")
    assert problem.endswith("the span [0, 6) 'tagger' of document ''")
    assert advice == "nearest words: 'taggers' [0, 7); mend the offsets"


def test_drawing_is_told_what_to_draw(service):
    for body in ({}, {"text": TEXT, "document": DOCUMENT}):
        assert "give either text or document" in refusal(service.post("/draw", body), 422, "unprocessable")
    both = {"document": DOCUMENT, "thresholds": 0.5}
    assert "go with a text, not with a document" in refusal(service.post("/draw", both), 422, "unprocessable")
    other = refusal(service.post("/draw", {"text": TEXT, "format": "png"}), 422, "unprocessable")
    assert other.startswith("format: received 'png'; expected 'html' or 'svg'")


def test_what_brat_cannot_hold(service):
    spaced = {"document": DOCUMENT | {"entities": [{**DOCUMENT["entities"][0], "label": "a b"}], "relations": []}}
    message = refusal(service.post("/convert", spaced), 422, "unprocessable")
    assert "has a space in it, which brat cannot hold" in message
