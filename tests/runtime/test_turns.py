"""An exported network computes and decides what the PyTorch network does, for each fusion, over the same encoder."""

import numpy as np
import pytest
import torch
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.decode import list_spans, pair_with_spans
from cascade_srn.inference.predictor import never_stop
from cascade_srn.inference.torch_turns import TorchTurns
from cascade_srn.runtime.model import LightModel
from cascade_srn.runtime.turns import LightNetwork, LightTurns

MANY = Thresholds(0.3, 0.1, 0.1)


def light(model, **kind):
    """Return the light form of a model, with the PyTorch encoder in place of ONNX Runtime."""

    def read(passes):
        for ids, mask in passes:
            with torch.inference_mode():
                given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
                yield model.network.encoder.model(**given)[0].numpy()

    names = model.network.state_dict()
    weights = {name: value.numpy() for name, value in names.items() if not name.startswith("encoder.")}
    network = LightNetwork(read, weights, pooling=model.settings.encoder.pooling, fusion=model.settings.fusion)
    return LightModel(model.settings, model.schema, network, model.cascade_collator, **kind)


def check_same(found, expected):
    assert any(len(sentence.triples) > 2 for sentence in expected)
    for one, other in zip(found, expected, strict=True):
        assert one == other  # without scores
        for name in ("entities", "triples"):
            scores = [[item.score or 0.0 for item in getattr(each, name)] for each in (one, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)


FORMS = [
    ("swift", {}),
    ("early", {}),
    ("late", {"matcher": "linear"}),
    ("subject-marker", {"sequence_encoder": "bisrn"}),
    ("hybrid", {"encoder": {"pooling": "max", "max_pieces": 8, "overlap": 2}}),
    (("none", "span"), {"encoder": {"pooling": "first", "context_words": 2}}),
]


def settings_of(model, **values):
    return model.predictor(thresholds=MANY, batch_words=12, **values)._search_settings(never_stop)


@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1], (SENTENCES[4],) * 3], ids=["all", "one", "equal"])
@pytest.mark.parametrize(("fusion", "settings"), FORMS)
@torch.inference_mode()
def test_each_turn(fusion, settings, sentences):
    """Features, probabilities, tags and scores of both, one turn after the other."""
    temperatures = Temperatures(1.2, 0.8, 1.1, entity_offsets={"Task": -0.3})
    model = spread_probabilities(small_model(fusion, temperatures=temperatures, **settings))
    collator, chosen = model.cascade_collator, settings_of(model)
    both = TorchTurns(model.cascade, chosen), LightTurns(light(model).network, chosen)
    plain = [collator.plain(example) for example in examples(sentences)]
    n_words = max(len(row.word_items) for row in plain)
    words = [turns.features(collator.pieces.arrays(plain), entities=True) for turns in both]
    is_real = np.arange(n_words) < np.array([len(row.word_items) for row in plain])[:, None]
    np.testing.assert_allclose(words[1][is_real], words[0].features.numpy()[is_real], atol=1e-5)
    found = [turns.entities(each) for turns, each in zip(both, words, strict=True)]
    for torch_part, light_part in zip(found[0][:2], found[1][:2], strict=True):
        np.testing.assert_allclose(light_part[is_real], torch_part[is_real], atol=1e-5)
    columns = collator.entity_columns([sentence.entities for sentence in sentences])
    row, first, last, _ = columns.T
    np.testing.assert_allclose(found[1][2](*columns.T), found[0][2](*columns.T), atol=1e-5)
    marked = collator.pieces.arrays(collator.with_entities(plain, [s.entities for s in sentences]))
    words = [turns.features(marked) for turns in both]
    tags = [turns.tags(columns, (len(plain), n_words)) for turns in both]
    assert (tags[0] is None) == (tags[1] is None)
    if tags[0] is not None:
        np.testing.assert_allclose(tags[1], tags[0].numpy(), atol=1e-6)
    spans = list_spans(row, first, last, n_words)
    scores = [turns.subjects(each, tag, spans) for turns, each, tag in zip(both, words, tags, strict=True)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-5)
    if collator.fusion.subject == "markers":
        shown = collator.with_subjects(plain, [s.entities for s in sentences], spans)
        words = [turns.features(collator.pieces.arrays(shown)) for turns in both]
    ((query, span),) = pair_with_spans(spans[:, 0], spans[:, 0], len(plain), 10_000)
    scores = [turns.objects(each, tag, spans, spans) for turns, each, tag in zip(both, words, tags, strict=True)]
    np.testing.assert_allclose(scores[1](query, span)(), scores[0](query, span)(), atol=1e-5)


@pytest.mark.parametrize(("equal", "most"), [(True, 1), (True, 200), (False, 200)])
def test_windows_that_are_read_together(equal, most):
    """In int8, windows of different lengths would change each other's rounding."""
    model = small_model("swift")
    network, passes, checks = light(model).network, [], []
    rows = model.collator.pieces.arrays(
        [model.collator.plain(example) for example in examples([s for s in SENTENCES for _ in range(2)])]
    )
    expected = network.encode(rows, lambda: None)
    read = network.read_passes
    network.read_passes = lambda given: read([passes.append(mask.sum(1)) or (ids, mask) for ids, mask in given])
    network.equal_windows, network.pieces_at_once = equal, most
    np.testing.assert_allclose(network.encode(rows, lambda: checks.append(1)), expected, atol=1e-5)
    assert sum(map(len, passes)) == len(rows.piece_ids)
    assert len(checks) == len(passes) - 1
    assert all(len(sizes) == 1 or len(sizes) * max(sizes) <= most for sizes in passes)
    assert all(len(set(sizes)) == 1 for sizes in passes) or not equal
    assert any(len(sizes) > 1 for sizes in passes) == (most > 1)


def test_a_check_between_passes_may_stop_the_work():
    network = light(small_model("swift")).network
    network.pieces_at_once = 1
    rows = small_model("swift").collator.pieces.arrays([small_model("swift").collator.plain(e) for e in examples()])

    def stop():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        network.encode(rows, stop)


@pytest.mark.parametrize(("fusion", "settings"), FORMS)
def test_the_same_decisions(fusion, settings):
    temperatures = Temperatures(1.2, 0.8, 1.1, entity_offsets={"Task": -0.3})
    model = spread_probabilities(small_model(fusion, temperatures=temperatures, **settings))
    options = {"thresholds": MANY, "batch_words": 12}
    for given in (False, True):
        found, expected = (
            each.predictor(**options).predict(examples(), given_entities=given) for each in (light(model), model)
        )
        check_same(found, expected)


def test_an_extractor_over_it():
    model = spread_probabilities(small_model("swift", thresholds=MANY))
    extractors = [Extractor(light(model)), Extractor(model)]
    texts = ["A tagger helps parsing , translation and search engines .", "", "We train tagging models."]
    found, expected = ([document.sentences for document in each(texts)] for each in extractors)
    assert found == expected
    assert "device='cpu'" in repr(extractors[0])
    for label in ("Task", "used-for"):
        one, other = (each.extract(texts[0], labels=label, overlaps="flat") for each in extractors)
        assert one == other
    with pytest.raises(ConfigError) as failed:
        extractors[0].to("cuda")
    assert failed.value.option == "device"
    with pytest.raises(ConfigError) as failed:
        Extractor(light(model), precision="bf16")
    assert failed.value.option == "precision"


@pytest.mark.parametrize(
    ("is_exported", "missing", "hint"),
    [(True, [], "export"), (True, ["torch"], "export"), (False, [], "runtime="), (False, ["torch"], "[train]")],
)
def test_what_only_torch_can_do(is_exported, missing, hint, monkeypatch):
    monkeypatch.setattr("cascade_srn.runtime.model.missing_for_torch", lambda: missing)
    model = light(small_model("swift"), is_exported=is_exported)
    for refused, option in (
        (lambda: model.to("cuda:0"), "device"),
        (lambda: model.check_precision("bf16"), "precision"),
    ):
        with pytest.raises(ConfigError) as failed:
            refused()
        assert failed.value.option == option
        assert hint in failed.value.hint
    model.to("auto")
    model.check_precision("auto")


def test_entities_only():
    model = spread_probabilities(small_model("swift", joint=False))
    predicted = light(model).predictor(thresholds=MANY).predict(examples())
    assert predicted == model.predictor(thresholds=MANY).predict(examples())
    assert any(sentence.entities for sentence in predicted)


def test_no_words():
    network = light(small_model("swift")).network
    rows = small_model("swift").collator.pieces.arrays([])
    assert np.size(network.encode(rows, lambda: None)) == 0
