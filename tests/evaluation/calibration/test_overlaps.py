import json
from dataclasses import replace

import pytest
from tests.small_models import examples, small_model, spread_probabilities

from cascade_srn import Thresholds
from cascade_srn.config import OVERLAPS
from cascade_srn.evaluation.calibration.calibrate import (
    MIN_ENTITIES,
    calibrate,
    choose_overlaps,
    choose_thresholds,
    with_overlaps,
)
from cascade_srn.inference.decode import have_overlaps
from cascade_srn.model.model import Model

LOW = Thresholds(0.3, 0.2, 0.3)
COPIES = 8


@pytest.fixture(scope="module")
def model():
    return spread_probabilities(small_model(thresholds=LOW))


def annotated_by(model, overlaps, copies=COPIES):
    """Return sentences annotated by the model itself, several times, so that there are enough entities."""
    found = model.predictor(overlaps=overlaps).predict(examples())
    return [replace(example, sentence=sentence) for example, sentence in zip(examples(), found, strict=True)] * copies


@pytest.mark.slow
@pytest.mark.parametrize("overlaps", OVERLAPS)
def test_the_best_is_chosen(model, overlaps):
    gold = annotated_by(model, overlaps)
    assert sum(len(example.sentence.entities) for example in gold) >= MIN_ENTITIES
    assert any(have_overlaps(example.sentence.entities) for example in gold) == (overlaps != "flat")
    assert choose_overlaps(model, gold) == overlaps


def test_the_simplest_of_equals_is_chosen(model):
    """Where the model finds nothing, all choices are equal."""
    gold = annotated_by(model, "all")
    silent = replace(model, settings=replace(model.settings, thresholds=Thresholds(1.0, 1.0, 1.0)))
    assert choose_overlaps(silent, gold) == "flat"


def test_flat_if_no_gold_entities_share_words(model, monkeypatch):
    gold = annotated_by(model, "flat")
    monkeypatch.setattr(Model, "predictor", None)  # nothing needs to be predicted
    assert choose_overlaps(model, gold) == "flat"


@pytest.mark.parametrize("overlaps", OVERLAPS)
def test_few_entities_change_nothing(model, overlaps):
    gold = annotated_by(model, "nested", copies=1)[:1]
    assert 0 < len(gold[0].sentence.entities) < MIN_ENTITIES
    stored = with_overlaps(model, overlaps)
    assert choose_overlaps(stored, gold) == choose_overlaps(stored, []) == overlaps
    assert calibrate(stored, gold).settings.overlaps == overlaps


@pytest.mark.slow
def test_thresholds_are_chosen_on_all_candidates(model):
    gold = annotated_by(model, "flat")
    found = calibrate(with_overlaps(model, "flat"), gold)
    assert found.overlaps == "flat"
    assert found.settings.thresholds == choose_thresholds(model, gold).settings.thresholds


def test_old_folders_have_no_choice(model, tmp_path):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    assert config["model"].pop("overlaps") == "all"
    path.write_text(json.dumps(config), encoding="utf-8")
    loaded = Model.load(tmp_path / "model")
    assert loaded.settings.overlaps is None
    assert loaded.overlaps == loaded.predictor().overlaps == "flat"
