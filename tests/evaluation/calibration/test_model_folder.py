"""Calibration of a saved model changes its thresholds and temperatures, and nothing else."""

import json
import os
from pathlib import Path

import pytest
from tests.evaluation.saved_models import DOCUMENTS, saved_model
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities
from tests.twelve_sentences import DOCUMENTS as OTHERS

from cascade_srn import Document, write_documents
from cascade_srn.config import Thresholds
from cascade_srn.errors import ModelError, SchemaError
from cascade_srn.evaluation.calibration.model_folder import NOTICE, calibrate_model_folder
from cascade_srn.model.model import Model


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    spread_probabilities(small_model("swift")).save(folder)
    return folder


@pytest.fixture
def data(model, tmp_path):
    """Documents annotated by the model itself with other thresholds."""
    found = Model.load(model).predictor(thresholds=Thresholds(0.3, 0.2, 0.25)).predict(examples(SENTENCES))
    path = tmp_path / "data.jsonl"
    copies = [
        Document.from_sentences([sentence], id=f"{copy}-{i}") for copy in range(2) for i, sentence in enumerate(found)
    ]
    write_documents([document for document in copies if document.sentences[0].words], path)
    return str(path)


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_thresholds_and_temperatures_are_written(model, data, tmp_path):
    before = _files(model)
    found = calibrate_model_folder(str(model), data, tmp_path / "other")
    assert found.changed
    assert found.after.ner.counts.f1 > found.before.ner.counts.f1
    loaded = Model.load(tmp_path / "other")
    assert loaded.settings.thresholds == found.thresholds != Model.load(model).settings.thresholds
    assert loaded.settings.temperatures == found.temperatures
    # All other files and the given model are unchanged.
    assert _files(model) == before
    after = _files(tmp_path / "other")
    assert after.keys() == before.keys() | {"precision.json.xz"}
    assert {name for name in before if before[name] != after[name]} == {"config.json", "README.md"}
    assert after["README.md"].decode() == f"{before['README.md'].decode().rstrip()}\n\n{NOTICE}\n"
    # The notice is added once.
    calibrate_model_folder(str(tmp_path / "other"), data, tmp_path / "other", by_label=True)
    assert _files(tmp_path / "other")["README.md"] == after["README.md"]
    configs = [json.loads(files["config.json"]) for files in (before, after)]
    for config in configs:
        del config["model"]["thresholds"], config["model"]["temperatures"], config["model"]["overlaps"]
    assert configs[0] == configs[1]


@pytest.mark.slow
def test_in_its_own_folder(model, data):
    found = calibrate_model_folder(str(model), data, model)
    assert Model.load(model).settings.thresholds == found.thresholds
    assert [path.name for path in model.parent.iterdir() if path.name.startswith(".")] == []


def test_few_documents_change_nothing(tmp_path):
    write_documents(DOCUMENTS[2:3], tmp_path / "one.jsonl")
    found = calibrate_model_folder(saved_model(), str(tmp_path / "one.jsonl"), tmp_path / "other")
    assert not found.changed
    assert found.thresholds == Model.load(saved_model()).settings.thresholds
    after = _files(tmp_path / "other")
    assert after.pop("precision.json.xz")
    assert after == _files(Path(saved_model()))


class TestErrors:
    def test_labels_that_the_model_does_not_know(self, model, tmp_path):
        write_documents(OTHERS, tmp_path / "others.jsonl")
        with pytest.raises(SchemaError, match=r"others\.jsonl"):
            calibrate_model_folder(str(model), str(tmp_path / "others.jsonl"), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_the_output_has_other_files(self, model, data, tmp_path):
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "thesis.tex").write_text("", encoding="utf-8")
        with pytest.raises(ModelError, match="thesis|mine"):
            calibrate_model_folder(str(model), data, tmp_path / "thesis")
        assert os.listdir(tmp_path / "thesis") == ["thesis.tex"]

    def test_another_model(self, model, data, tmp_path):
        Model.load(model).save(tmp_path / "mine")
        before = _files(tmp_path / "mine")
        with pytest.raises(ModelError, match="thesis|mine"):
            calibrate_model_folder(str(model), data, tmp_path / "mine")
        assert _files(tmp_path / "mine") == before
