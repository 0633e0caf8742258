import json
import subprocess
import sys

import pytest
from tests.small_models import NESTED, SCHEMA, SENTENCES, examples, small_model

from cascade_srn import Document, Extractor
from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError, DataError, ModelError
from cascade_srn.model.model import Model
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.examples import Example
from cascade_srn.network.targets import SoftLabels
from cascade_srn.schema import Schema
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import make_optimiser

BASELINES = ("pfn", "table-srn", "pipeline")
# An untrained model predicts many entities with these thresholds.
LOW = Thresholds(0.001, 0.001, 0.001)


def _exactly(sentences):
    return [([(e, e.score) for e in s.entities], [(t, t.score) for t in s.triples]) for s in sentences]


def _predicted(model):
    return model.predictor(thresholds=LOW).predict(examples((NESTED, *SENTENCES[-2:])))


@pytest.mark.slow
def test_baselines_are_imported_on_first_use(tmp_path):
    small_model().save(tmp_path / "cascade")
    small_model(method="pfn").save(tmp_path / "pfn")
    code = """
import sys
from cascade_srn import Extractor

def loaded():
    print(any(name.startswith("cascade_srn.lab.baselines") for name in sys.modules))

loaded()
Extractor.from_pretrained(sys.argv[1]).extract("taggers and parsers", thresholds=0.001)
loaded()
Extractor.from_pretrained(sys.argv[2])
loaded()
"""
    folders = [str(tmp_path / name) for name in ("cascade", "pfn")]
    found = subprocess.run([sys.executable, "-c", code, *folders], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False", "True"]


@pytest.mark.parametrize("method", BASELINES)
class TestEach:
    def test_a_saved_model_predicts_bit_for_bit_the_same(self, method, tmp_path):
        model = small_model(method=method)
        before = _predicted(model)
        assert any(s.entities for s in before)
        assert any(s.triples for s in before)
        model.save(tmp_path / "model")
        loaded = Model.load(tmp_path / "model", schema=SCHEMA)
        assert _exactly(_predicted(loaded)) == _exactly(before)
        assert loaded.settings.method == method

    @pytest.mark.parametrize("changes", [{"joint": False}, {"schema": Schema(SCHEMA.entity_types)}])
    def test_a_model_of_entities_alone_survives_saving(self, method, changes, tmp_path):
        model = small_model(method=method, **changes)
        assert model.network.relations is None
        model.save(tmp_path / "model")
        assert _exactly(_predicted(Model.load(tmp_path / "model"))) == _exactly(_predicted(model))

    def test_extraction(self, method, tmp_path):
        small_model(method=method).save(tmp_path / "model")
        extractor = Extractor.from_pretrained(tmp_path / "model")
        document = extractor.extract("neural speech recognition systems need data .", thresholds=0.001)
        assert isinstance(document, Document)
        assert document.entities
        related = extractor.relations(document, document.entities[:3], thresholds=0.001)
        assert len(related.entities) == 3
        assert related.relations
        assert len(list(extractor.stream(["taggers and parsers", "a tagger"], thresholds=0.001))) == 2

    def test_a_baseline_has_no_preset(self, method, tmp_path):
        small_model(method=method).save(tmp_path / "model")
        with pytest.raises(ModelError, match=f"'{method}'"):
            Model.load(tmp_path / "model", preset="swift")

    def test_require_cascade(self, method):
        with pytest.raises(ModelError, match=f"'{method}'"):
            small_model(method=method).require_cascade("distillation")
        small_model().require_cascade("distillation")

    @pytest.mark.parametrize(("option", "value"), [("candidates", "subjects"), ("negatives", 0.5)])
    def test_settings_of_cascades_are_refused(self, method, option, value):
        with pytest.raises(ConfigError, match=f"{value}.*'{method}'") as error:
            small_model(method=method).collator.training_batch(examples(), BatchSettings(**{option: value}))
        assert error.value.option == option

    def test_labels_of_a_teacher_are_refused(self, method):
        collator = small_model(method=method).collator
        with pytest.raises(DataError, match=f"'{method}'"):
            collator.training_batch([Example(NESTED, weight=0.5)])
        soft = SoftLabels.__new__(SoftLabels)
        with pytest.raises(DataError, match=f"'{method}'"):
            collator.training_batch([Example(NESTED, soft=soft)])

    def test_the_encoder_has_its_own_learning_rate(self, method):
        network = small_model(method=method).network
        for layer_decay in (1.0, 0.5):
            rates = {"learning_rate": 1.0, "encoder_learning_rate": 0.1, "layer_decay": layer_decay}
            optimiser, _ = make_optimiser(network, TrainingSettings(**rates), 10)
            rates = {id(p): group["initial_lr"] for group in optimiser.param_groups for p in group["params"]}
            assert len(rates) == len(list(network.parameters()))
            for name, parameter in network.named_parameters():
                if not name.startswith("encoder."):
                    assert rates[id(parameter)] == 1.0, name
                elif layer_decay == 1.0 or ".layer." in name:
                    assert rates[id(parameter)] == pytest.approx(0.1), name
                else:
                    assert rates[id(parameter)] == pytest.approx(0.05), name


def test_an_old_folder_without_a_method_is_a_cascade(tmp_path):
    model = small_model("early")
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    del config["model"]["method"], config["model"]["baseline"]
    path.write_text(json.dumps(config), encoding="utf-8")
    loaded = Model.load(tmp_path / "model", preset="early")
    assert loaded.settings.method == "cascade"
    assert _exactly(_predicted(loaded)) == _exactly(_predicted(model))
