"""An exported network decides as the network of torch does, for each fusion. The encoder is that of torch here."""

import numpy as np
import pytest
import torch
from tests.small_models import examples, small_model, spread_probabilities

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.runtime.model import LightModel
from cascade_srn.runtime.turns import LightNetwork

MANY = Thresholds(0.3, 0.1, 0.1)


def light(model, **kind):
    """Return the light form of a model, with the encoder of torch in place of ONNX Runtime."""

    def read(ids, mask):
        with torch.inference_mode():
            given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            return model.network.encoder.model(**given)[0].numpy()

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
    [(True, [], "export"), (True, ["torch"], "export"), (False, [], "runtime="), (False, ["torch"], "[torch]")],
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
