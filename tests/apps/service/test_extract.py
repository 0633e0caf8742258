"""POST /extract gives the results of the extractor, for one client and for many at once."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.apps.service.live import TEXT, live, random_extractor

from cascade_srn import Entity, Extractor
from cascade_srn.apps.service.messages import ThresholdsForm
from cascade_srn.apps.service.requests import request_thresholds
from cascade_srn.apps.web.refusals import Refusal
from cascade_srn.apps.web.settings import Limits, ServeSettings
from cascade_srn.config import Thresholds

WORDS = ["a", "tagger", "helps", "parsing", "translation", "search", "engines", "neural", "speech", "accuracy", "data"]


def check(answered, expected):
    """Compare documents, with a tolerance for scores, which depend on the batch."""
    expected = expected.to_dict()
    for kind in ("entities", "relations"):
        assert len(answered[kind]) == len(expected[kind])
        for ours, theirs in zip(answered[kind], expected[kind], strict=True):
            assert ours.keys() == theirs.keys()
            assert ours["score"] == pytest.approx(theirs["score"], abs=1e-4)
            assert {**ours, "score": 0} == {**theirs, "score": 0}
    assert {**answered, "entities": 0, "relations": 0} == {**expected, "entities": 0, "relations": 0}


def test_one_text(service, extractor):
    answer = service.post("/extract", {"text": TEXT})
    assert answer.status_code == 200
    (document,) = answer.json()["documents"]
    assert document["entities"]
    assert document["relations"]
    check(document, extractor.extract(TEXT))


def test_several_texts_in_order(service, extractor):
    texts = [TEXT, "", "search engines", " \n", "data"]
    documents = service.post("/extract", {"texts": texts}).json()["documents"]
    assert [document["text"] for document in documents] == texts
    for pair in zip(documents, map(extractor.extract, texts), strict=True):
        check(*pair)


def test_any_characters(service, extractor):
    text = "na\u00efve \U0001f600 parsers\u200d \u0645\u0631\u062d\u0628\u0627\x00 \r\n\tdata\u00a0<b>&amp;"
    (document,) = service.post("/extract", {"text": text}).json()["documents"]
    check(document, extractor.extract(text))


@pytest.mark.parametrize(
    "thresholds",
    [
        0.7,
        {"entity": 0.8},
        {"object": 0.3, "subject": 0.4},
        {"entity_types": {"Thing": 0.9}},
        {"related": 0.2},
        {"entity": 0.8, "related": 0.3},
        {"relation": 0.9},
    ],
)
def test_thresholds(service, extractor, thresholds):
    (document,) = service.post("/extract", {"text": TEXT, "thresholds": thresholds}).json()["documents"]
    check(document, extractor.extract(TEXT, thresholds=thresholds))
    usual = extractor.extract(TEXT)
    assert (len(document["entities"]), len(document["relations"])) != (len(usual.entities), len(usual.relations))


def test_overlaps(service, extractor):
    expected = {o: extractor.extract(TEXT, thresholds=0.2, overlaps=o) for o in ("flat", "nested", "all")}
    assert len({len(one.entities) for one in expected.values()}) == 3
    drawings = {}
    for overlaps in (*expected, None):
        body = {"text": TEXT, "thresholds": 0.2, "overlaps": overlaps}
        (document,) = service.post("/extract", body).json()["documents"]
        check(document, expected[overlaps or "all"])  # the model stores "all"
        drawings[overlaps] = service.post("/draw", body).text
    assert drawings[None] == drawings["all"]
    assert len(set(drawings.values())) == 3


def test_overlaps_of_the_service(extractor):
    flat = Extractor(extractor.model, overlaps="flat")
    with live(flat) as service:
        assert service.client.get("/schema").json()["overlaps"] == "flat"
        (document,) = service.post("/extract", {"text": TEXT}).json()["documents"]
    check(document, flat.extract(TEXT))
    assert len(document["entities"]) < len(extractor.extract(TEXT).entities)


def test_thresholds_of_the_model_are_accepted():
    """Thresholds of the model are accepted even if they are below the limit. Lower ones are refused."""
    own = {"related": 0.02, "entity_types": {"Thing": 0.03}, "relation_types": {"compare": 0.04}}
    extractor = random_extractor(thresholds=Thresholds(**own))
    resolved = request_thresholds(ThresholdsForm(entity=0.3, **own), extractor, Limits())
    assert (resolved.related, resolved.entity_types, resolved.relation_types) == tuple(own.values())
    for name, lower in (("related", 0.01), ("entity_types", {"Thing": 0.02}), ("entity_types", {"Task": 0.03})):
        with pytest.raises(Refusal, match=f"thresholds.{name}: "):
            request_thresholds(ThresholdsForm(**{name: lower}), extractor, Limits())


ENTITIES = [{"start": 2, "end": 8, "label": "Thing"}, {"start": 15, "end": 22, "label": "Task"}]


@pytest.mark.parametrize("entities", [ENTITIES, [ENTITIES]])
def test_given_entities(service, extractor, entities):
    (document,) = service.post("/extract", {"text": TEXT, "entities": entities, "thresholds": 0.1}).json()["documents"]
    given = [Entity(entity["start"], entity["end"], entity["label"]) for entity in ENTITIES]
    check(document, extractor.relations(TEXT, given, thresholds=0.1))
    assert [entity["label"] for entity in document["entities"]] == ["Thing", "Task"]
    assert document["relations"]


def test_given_entities_by_text(service, extractor):
    body = {"texts": [TEXT, TEXT, TEXT], "entities": [None, ENTITIES, []]}
    found, given, none = service.post("/extract", body).json()["documents"]
    check(found, extractor.extract(TEXT))
    assert [entity["text"] for entity in given["entities"]] == ["tagger", "parsing"]
    assert none["entities"] == []


def test_given_entities_can_be_widened_to_words(service):
    inside = [{"start": 3, "end": 5, "label": "Thing"}, {"start": 2, "end": 6, "label": "Thing"}]
    answer = service.post("/extract", {"text": TEXT, "entities": inside, "align": "expand"})
    (document,) = answer.json()["documents"]
    assert [entity["text"] for entity in document["entities"]] == ["tagger"]


def test_skipped_parts(service):
    body = {"text": "Ada Berg.\n```\nlead()\n```\nNorlux", "skip": ["code"]}
    (document,) = service.post("/extract", body).json()["documents"]
    assert document["sentences"] == [[[0, 3], [4, 8], [8, 9]], [[25, 31]]]
    assert service.post("/extract", body | {"skip": ["tabels"]}).status_code == 422


def test_a_model_with_context(extractor):
    reading = random_extractor(encoder={"context_words": 5})
    text = " ".join([TEXT] * 20)
    with live(reading, ServeSettings(batch_words=64)) as service:
        (document,) = service.post("/extract", {"text": text}).json()["documents"]
    check(document, reading.extract(text))
    # The context changes the result, so the test would notice if it were lost.
    assert len(document["entities"]) != 20 * len(reading.extract(TEXT).entities)


def _request(number):
    """Make a request that depends only on the number."""
    draw = random.Random(number)
    texts = [" ".join([*draw.choices(WORDS, k=draw.randint(0, 12)), f"{number}."]) for _ in range(draw.randint(1, 3))]
    body = {"texts": texts}
    if number % 3 == 1:
        levels = [
            0.6,
            {"entity": 0.7},
            {"subject": 0.45, "object": 0.6},
            {"related": 0.2},
            {"related": 0.35},
            {"relation": 0.9},
        ]
        body["thresholds"] = draw.choice(levels)
    if number % 4 == 2:
        body["entities"] = [[{"start": 0, "end": len(text.split()[0].rstrip(".")), "label": "Task"}] for text in texts]
    return body


def _expected(extractor, body):
    given = body.get("entities", [None] * len(body["texts"]))
    for text, entities in zip(body["texts"], given, strict=True):
        if entities is None:
            yield extractor.extract(text, thresholds=body.get("thresholds"))
        else:
            known = [Entity(e["start"], e["end"], e["label"]) for e in entities]
            yield extractor.relations(text, known, thresholds=body.get("thresholds"))


@pytest.mark.slow
def test_many_at_once_get_their_own_answers(extractor):
    requests = [_request(number) for number in range(120)]
    with live(extractor, ServeSettings(batch_words=256)) as service:
        with ThreadPoolExecutor(24) as threads:
            answers = list(threads.map(lambda body: service.post("/extract", body), requests))
        metrics = service.metrics()
    for body, answer in zip(requests, answers, strict=True):
        assert answer.status_code == 200, answer.text
        documents = answer.json()["documents"]
        for pair in zip(documents, _expected(extractor, body), strict=True):
            check(*pair)
    assert metrics["cascade_srn_texts_total"] == sum(len(body["texts"]) for body in requests)
    # At least some requests were batched; otherwise this test shows nothing.
    assert metrics["cascade_srn_batch_texts_sum"] > metrics["cascade_srn_batch_texts_count"]
