import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.small_models import small_model
from tests.twelve_sentences import DOCUMENTS, SCHEMA, WORDS

from cascade_srn.config import PRESETS, TEXT_FORMS, ModelSettings
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import ModelError
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return create_encoder(WORDS, tmp_path_factory.mktemp("encoder"), width=32, n_layers=1, n_heads=2, vocabulary=200)


def _model(encoder, **settings):
    values = {"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16, **settings}
    return Model.create(ModelSettings.from_dict(values), SCHEMA)


def _predicted(model):
    # With thresholds this low an untrained model finds plenty to compare.
    thresholds = replace(model.settings.thresholds, entity=0.002, subject=0.002, object=0.002)
    model.cascade.eval()
    return model.predictor(thresholds=thresholds).predict(examples_of(DOCUMENTS[:4]))


def _exactly(sentences):
    """Return spans with their scores, which comparisons ignore."""
    return [
        ([(e, e.score) for e in s.entities], [(t, t.score, t.head.score, t.tail.score) for t in s.triples])
        for s in sentences
    ]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_saved_model_predicts_bit_for_bit_the_same(encoder, preset, tmp_path):
    model = _model(encoder, fusion=preset)
    before = _predicted(model)
    assert any(sentence.entities for sentence in before)
    assert any(sentence.triples for sentence in before)
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model", schema=SCHEMA, preset=preset)
    assert _exactly(_predicted(loaded)) == _exactly(before)
    assert loaded.schema == model.schema
    assert loaded.settings.fusion == model.settings.fusion


@pytest.mark.parametrize(("sequence_encoder", "matcher"), [("bisrn", "linear"), ("bilstm", "mlp")])
def test_other_shapes_survive_saving(encoder, sequence_encoder, matcher, tmp_path):
    model = _model(encoder, sequence_encoder=sequence_encoder, matcher=matcher)
    model.save(tmp_path / "model")
    assert _exactly(_predicted(Model.load(tmp_path / "model"))) == _exactly(_predicted(model))


@pytest.mark.parametrize("text_form", TEXT_FORMS)
def test_the_text_form_is_stored_and_used(encoder, text_form, tmp_path):
    model = _model(encoder, text_form=text_form)
    model.save(tmp_path / "model")
    model = Model.load(tmp_path / "model")
    assert model.settings.text_form == text_form
    form = {"natural": '"', "escaped": "``", "verbatim": "“"}[text_form]
    verbatim = _model(encoder, text_form="verbatim").collator.pieces
    assert model.collator.pieces.row(["“"]).pieces.tolist() == verbatim.row([form]).pieces.tolist()


def test_a_model_folder_has_its_files_and_no_path(encoder, tmp_path):
    _model(encoder, fusion="early").save(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    for name in ("config.json", "README.md", "tokenizer_config.json"):
        assert str(tmp_path) not in (tmp_path / "model" / name).read_text()
        assert encoder not in (tmp_path / "model" / name).read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_create_depends_on_the_seed_only_and_keeps_the_random_state(encoder):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, two = _model(encoder, fusion="early"), _model(encoder, fusion="early")
    assert torch.equal(torch.rand(3), expected)
    for (name, a), (_, b) in zip(one.cascade.state_dict().items(), two.cascade.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_saving_over_a_model_replaces_it(encoder, tmp_path):
    _model(encoder, fusion="early").save(tmp_path / "model")
    _model(encoder, fusion="swift").save(tmp_path / "model")
    assert Model.load(tmp_path / "model").settings.fusion.preset == "swift"


class TestRefusals:
    @pytest.fixture
    def folder(self, encoder, tmp_path):
        _model(encoder).save(tmp_path / "model")
        return tmp_path / "model"

    def _edit(self, folder, edit):
        config = json.loads((folder / "config.json").read_text())
        edit(config)
        (folder / "config.json").write_text(json.dumps(config))

    def test_no_folder(self, tmp_path):
        with pytest.raises(ModelError, match=r"nowhere.*config\.json"):
            Model.load(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        ("edit", "message"),
        [
            (lambda config: config.update(format_version=99), r"\b99\b.*\b1\b"),
            (lambda config: config["model"].update(hiden_width=3), "'hiden_width'.* 'hidden_width'"),
            (lambda config: config["model"].update(text_form="latin"), "text_form"),
            (lambda config: config["model"].update(text_form=None), "text_form"),
            (lambda config: config.pop("schema"), "'schema'"),
            (lambda config: config["encoder"].update(model_type="nonesuch"), "'nonesuch'"),
        ],
    )
    def test_configurations(self, folder, edit, message):
        self._edit(folder, edit)
        with pytest.raises(ModelError, match=message):
            Model.load(folder)

    def test_other_schema(self, folder):
        other = Schema(("Organization", "Person", "Thing"), SCHEMA.relation_types, frozenset())
        with pytest.raises(ModelError) as caught:
            Model.load(folder, schema=other)
        for part in ("['Thing'] are missing", "['Place'] are new", "symmetric relations are ['married-to'], not []"):
            assert part in str(caught.value)

    def test_labels_in_another_order(self, folder):
        other = replace(SCHEMA, entity_types=SCHEMA.entity_types[::-1])
        with pytest.raises(ModelError, match="another order"):
            Model.load(folder, schema=other)

    def test_other_preset(self, folder):
        with pytest.raises(ModelError, match=r"'swift' .*tags.*span.*'early'"):
            Model.load(folder, preset="early")

    def test_weights_of_another_preset(self, encoder, folder, tmp_path):
        _model(encoder, fusion="late").save(tmp_path / "late")
        (tmp_path / "late" / "model.safetensors").replace(folder / "model.safetensors")
        with pytest.raises(ModelError, match=r"subject_fusion\..* is missing"):
            Model.load(folder)

    def test_a_weight_too_many(self, folder):
        weights = load_file(folder / "model.safetensors")
        save_file({**weights, "extra": torch.zeros(1)}, folder / "model.safetensors")
        with pytest.raises(ModelError, match="extra is unknown"):
            Model.load(folder)


def test_a_run_folder_is_refused_with_its_best_model(tmp_path):
    small_model("swift").save(tmp_path / "run" / "best")
    with pytest.raises(ModelError, match=r"run'.*best'"):
        Model.load(tmp_path / "run")


def test_a_file_instead_of_a_folder(tmp_path):
    small_model("swift").save(tmp_path)
    with pytest.raises(ModelError, match=r"config.json' is a file"):
        Model.load(tmp_path / "config.json")


def test_a_fresh_encoder_needs_a_recipe():
    settings = ModelSettings.from_dict({"encoder": {"name": "fresh"}})
    with pytest.raises(ModelError, match=r"'fresh'.*create_encoder"):
        Model.create(settings, SCHEMA)
