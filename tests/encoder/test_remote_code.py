"""Code that comes with a model or an encoder is never run, and standard input is never read."""

import builtins
import json
import os
import shutil
import subprocess
import sys

import pytest
from tests.small_models import small_model
from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import write_text
from tests.training.runs import write_recipe

from cascade_srn.encoder.config_checks import check_sizes
from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer
from cascade_srn.errors import ModelError
from cascade_srn.model.model import Model
from cascade_srn.training.adapt.network import load_network, save_network

PAYLOAD = """
from pathlib import Path
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizer

(Path(r"{marker}")).write_text("run")


class EvilConfig(BertConfig):
    model_type = "evil"


class EvilModel(BertModel):
    config_class = EvilConfig


class EvilMasked(BertForMaskedLM):
    config_class = EvilConfig


class EvilTokenizer(BertTokenizer):
    pass
"""
CONFIG_MAP = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel", "AutoModelForMaskedLM": "evil.EvilMasked"}
TOKENIZER_MAP = {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]}


def edit(path, change):
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "the payload ran"


@pytest.fixture
def evil_model(tmp_path, marker):
    """A model folder with code that its configuration names."""
    folder = tmp_path / "evil-model"
    small_model("swift").save(folder)
    (folder / "evil.py").write_text(PAYLOAD.format(marker=marker), encoding="utf-8")
    edit(folder / "config.json", lambda values: values.update(auto_map=CONFIG_MAP, model_type="evil"))
    return folder


@pytest.fixture
def evil_encoder(tmp_path, marker):
    """An encoder that transformers cannot load without the code in its folder."""
    folder = tmp_path / "evil-encoder"
    shutil.copytree(tiny_encoder("bert", tmp_path / "bert"), folder)
    (folder / "evil.py").write_text(PAYLOAD.format(marker=marker), encoding="utf-8")
    edit(folder / "config.json", lambda values: values.update(auto_map=CONFIG_MAP, model_type="evil"))
    edit(folder / "tokenizer_config.json", lambda values: values.update(auto_map=TOKENIZER_MAP))
    return folder


def check_refused(arguments, tmp_path, marker):
    """Run a command with the answer to transformers' question on standard input, and check that it is not read."""
    answers = tmp_path / "answers"
    answers.write_text("y\n" * 1000, encoding="utf-8")
    with answers.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "cascade_srn", *map(str, arguments)],
            stdin=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")},
            check=False,
        )
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 0
    assert done.returncode == 2, done.stderr
    assert "Do you wish to run" not in done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "auto_map" in line
    assert not marker.exists()


@pytest.mark.slow
def test_extract(evil_model, tmp_path, marker):
    check_refused(["extract", "-", "--model", evil_model, "--device", "cpu"], tmp_path, marker)


@pytest.mark.slow
def test_train(evil_encoder, tmp_path, marker):
    recipe = write_recipe(tmp_path, model={"encoder": {"name": str(evil_encoder)}}, fresh=None)
    check_refused(["train", recipe, "--device", "cpu"], tmp_path, marker)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_adapt(evil_encoder, tmp_path, marker):
    arguments = ["adapt", write_text(tmp_path), "--encoder", evil_encoder, "--output", tmp_path / "out"]
    check_refused([*arguments, "--device", "cpu"], tmp_path, marker)


@pytest.mark.slow
def test_distil(evil_model, tmp_path, marker):
    recipe = write_recipe(tmp_path)
    arguments = ["distil", evil_model, "--text", write_text(tmp_path), "--recipe", recipe, "--output", tmp_path / "out"]
    check_refused([*arguments, "--device", "cpu"], tmp_path, marker)


@pytest.fixture
def no_prompt(monkeypatch):
    monkeypatch.setattr(builtins, "input", lambda *prompt: pytest.fail("standard input was read"))


@pytest.mark.usefixtures("no_prompt")
class TestNamedCode:
    @pytest.fixture
    def folder(self, tmp_path):
        small_model("swift").save(tmp_path / "model")
        return tmp_path / "model"

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("config.json", lambda values: values.update(auto_map={})),
            ("config.json", lambda values: values["encoder"].update(parts=[{"auto_map": None}])),
            ("tokenizer_config.json", lambda values: values.update(auto_map=TOKENIZER_MAP)),
        ],
    )
    def test_in_a_model(self, folder, name, change):
        edit(folder / name, change)
        with pytest.raises(ModelError, match="auto_map") as caught:
            Model.load(folder)
        assert name in caught.value.problem

    @pytest.mark.parametrize("key", ["_attn_implementation", "experts_implementation"])
    def test_kernels_of_the_hub(self, folder, key, tmp_path):
        edit(folder / "config.json", lambda values: values["encoder"].update({key: "kernels-community/evil"}))
        with pytest.raises(ModelError, match=f"{key}='kernels-community/evil'"):
            Model.load(folder)
        encoder = tiny_encoder("bert", tmp_path / "bert")
        edit(tmp_path / "bert" / "config.json", lambda values: values.update({key: "kernels-community/evil"}))
        with pytest.raises(ModelError, match=f"{key}='kernels-community/evil'"):
            load_encoder(encoder)

    @pytest.mark.parametrize("load", [load_encoder, load_tokenizer, lambda name: load_network(name, seed=0)])
    def test_in_an_encoder_that_needs_it(self, evil_encoder, marker, load):
        with pytest.raises(ModelError, match="auto_map"):
            load(str(evil_encoder))
        assert not marker.exists()

    def test_an_encoder_that_transformers_knows_is_loaded_without_it(self, tmp_path, marker, evil_encoder):
        """Published encoders may name code that newer releases of transformers do not need."""
        edit(evil_encoder / "config.json", lambda values: values.update(model_type="bert"))
        name = str(evil_encoder)
        encoder = load_encoder(name)
        assert type(encoder.model).__module__.startswith("transformers.models.bert")
        assert type(load_tokenizer(name)).__module__.startswith("transformers.")
        save_network(load_network(name, seed=0)[0], tmp_path / "adapted", encoder=name)
        assert not marker.exists()
        for file in ("config.json", "tokenizer_config.json"):
            assert "auto_map" not in (tmp_path / "adapted" / file).read_text(encoding="utf-8")

    def test_a_model_over_such_an_encoder_can_be_saved_and_loaded(self, tmp_path, marker, evil_encoder):
        from tests.small_models import SCHEMA

        from cascade_srn.config import ModelSettings

        edit(evil_encoder / "config.json", lambda values: values.update(model_type="bert"))
        values = {"encoder": {"name": str(evil_encoder)}, "hidden_width": 6, "matcher_width": 6}
        Model.create(ModelSettings.from_dict(values), SCHEMA).save(tmp_path / "saved")
        Model.load(tmp_path / "saved")
        assert not marker.exists()


def test_huge_counts_are_refused():
    changes = {"num_labels": 10**9}, {"num_hidden_layers": 10**9}, {"text": {"n_layer": 10**40}}
    for change, most in zip(changes, (10_000, 512, 512), strict=True):
        with pytest.raises(ModelError, match=rf"\b{most}\b"):
            check_sizes(change, "the configuration", n_tensors=20)
    # Encoders that share layers may have more of them than tensors.
    check_sizes({"num_hidden_layers": 24, "num_labels": 3, "layer_norm_eps": 1e-12}, "the configuration", n_tensors=20)
