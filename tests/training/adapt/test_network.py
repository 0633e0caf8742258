"""A head on every family: tied, new where it is missing, and the encoder untouched below it."""

import json

import pytest
import torch
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder
from transformers import AutoModel, AutoModelForMaskedLM

from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer, quiet_transformers
from cascade_srn.errors import ModelError
from cascade_srn.training.adapt.network import load_network, save_network


@pytest.fixture(scope="module", params=FAMILY_PARAMETERS)
def encoder(request, tmp_path_factory):
    return tiny_encoder(request.param, tmp_path_factory.mktemp(request.param))


def test_the_encoder_is_the_checkpoints_and_the_decoder_is_tied(encoder):
    model, new_head = load_network(encoder, seed=0)
    expected = load_encoder(encoder).model.state_dict()
    own = model.base_model.state_dict()
    assert set(own) == {name for name in expected if not name.startswith("pooler")}
    assert all(torch.equal(own[name], expected[name]) for name in own)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert new_head


def test_the_seed_decides_the_new_head(encoder):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (load_network(encoder, seed=seed)[0].state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_what_is_saved_is_an_encoder_folder_with_its_head(encoder, tmp_path):
    model, new_head = load_network(encoder, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    save_network(model, tmp_path, encoder=encoder)
    expected = model.base_model.state_dict()
    with quiet_transformers():
        loaded = [load_encoder(str(tmp_path)).model.state_dict(), AutoModel.from_pretrained(tmp_path).state_dict()]
    for own in loaded:
        assert all(torch.equal(own[name], tensor) for name, tensor in expected.items())
    text = "We train a tagger (twice)."
    assert load_tokenizer(str(tmp_path))(text)["input_ids"] == load_tokenizer(encoder)(text)["input_ids"]
    again, new_head = load_network(str(tmp_path), seed=3)
    assert not new_head
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.state_dict().items())


def test_an_untied_decoder_is_tied_where_the_checkpoint_has_none(tmp_path):
    name = tiny_encoder("bert", tmp_path, tie_word_embeddings=False)
    model, _ = load_network(name, seed=0)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_an_untied_decoder_of_the_checkpoint_stays(tmp_path):
    name = tiny_encoder("bert", tmp_path / "plain", tie_word_embeddings=False)
    with quiet_transformers():
        model = AutoModelForMaskedLM.from_pretrained(name)
        model.get_output_embeddings().weight.data.fill_(0.5)
        model.save_pretrained(tmp_path / "headed")
        load_tokenizer(name).save_pretrained(tmp_path / "headed")
    model, new_head = load_network(str(tmp_path / "headed"), seed=0)
    assert bool((model.get_output_embeddings().weight == 0.5).all())
    assert not new_head


def test_a_family_without_hidden_words(tmp_path):
    name = tiny_encoder("bert", tmp_path)
    config = {"model_type": "gpt2", "vocab_size": 100, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32}
    with quiet_transformers():
        from transformers import AutoConfig

        AutoModel.from_config(AutoConfig.for_model(**config)).save_pretrained(name)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "gpt2"
    with pytest.raises(ModelError, match="masked-language-model"):
        load_network(name, seed=0)
