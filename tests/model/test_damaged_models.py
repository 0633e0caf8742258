import copy
import json
import resource
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.small_models import small_model
from tests.tiny_encoders import tiny_encoder

from cascade_srn.cli import main
from cascade_srn.encoder.pretrained import load_encoder
from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.model.model import Model
from cascade_srn.storage.bundled import find_model

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def _flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but one byte": lambda data: data[:-1],
    "one byte more": lambda data: data + b"\x07",
    "zeros": lambda data: bytes(len(data)),
    "garbage": lambda data: bytes(range(256)) * 20,
    "null": lambda data: b"null",
    "list": lambda data: b"[]",
    "mapping": lambda data: b"{}",
    "deep": lambda data: b"[" * 100_000,
    "first byte": lambda data: _flipped(data, 0),
    "ninth byte": lambda data: _flipped(data, 8),
    "middle byte": lambda data: _flipped(data, len(data) // 2),
    "late byte": lambda data: _flipped(data, len(data) * 9 // 10),
    "last byte": lambda data: _flipped(data, len(data) - 1),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged") / "model"
    small_model("swift").save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


# The other damages are tested in the slow tier.
QUICK = ("half", "garbage", "late byte")
DAMAGED = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in DAMAGES]


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file(folder, name, damage, capsys):
    path = folder / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(SystemExit) as stopped:
        main(["extract", "--text", "A tagger.", "--model", str(folder), "--device", "cpu"])
    shown = capsys.readouterr()
    # Only config.json has no checksum, so a changed number in it may be valid.
    assert stopped.value.code == 2 or (name == "config.json" and "byte" in damage)
    if stopped.value.code == 2:
        (line,) = shown.err.splitlines()
        assert line.startswith("Error: ")
        assert len(line) < 1500


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        Model.load(folder)


def _leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _leaves(inner, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("value", [None, [], {}, -1, 0, 10**30, 1e308, float("nan"), "x", True], ids=repr)
def test_a_configuration_with_another_value_anywhere(folder, value):
    """The model is loaded or refused, and takes no more memory than its weights need."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_refused = 0
    for path in list(_leaves(config)):
        changed = copy.deepcopy(config)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        (folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")
        try:
            Model.load(folder)
        except CascadeError:
            n_refused += 1
    assert n_refused > 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def _edited(folder, section, **changes):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config[section].update(changes)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("encoder", {"hidden_size": 10**6}),
        ("encoder", {"vocab_size": 10**9}),
        ("encoder", {"max_position_embeddings": 10**12}),
        ("encoder", {"intermediate_size": 10**9}),
        ("encoder", {"num_hidden_layers": 10**9}),
        ("encoder", {"num_labels": 10**9}),
        ("model", {"hidden_width": 10**9}),
        ("model", {"matcher_width": 10**18}),
        ("model", {"hidden_width": 10**30}),
    ],
)
def test_sizes_that_the_weights_do_not_have_allocate_nothing(folder, section, changes):
    _edited(folder, section, **changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError):
        Model.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_the_first_tensor_that_differs_is_named(folder):
    _edited(folder, "encoder", hidden_size=64)
    with pytest.raises(ModelError, match=r"embeddings.word_embeddings.weight is \(\d+, 32\), not \(\d+, 64\)"):
        Model.load(folder)


class TestWeights:
    def _changed(self, folder, change):
        """Change a weight, and remove the checksums as in folders of older releases."""
        weights = load_file(folder / "model.safetensors")
        name = next(key for key, value in weights.items() if value.numel() > 1)
        weights[name] = change(weights[name])
        save_file(weights, folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config.pop("sha256", None)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return name

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    def test_not_finite(self, folder, number):
        name = self._changed(folder, lambda weight: weight.index_fill(0, torch.tensor([0]), number))
        with pytest.raises(ModelError, match=name):
            Model.load(folder)

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.bool])
    def test_no_floats(self, folder, dtype):
        name = self._changed(folder, lambda weight: weight.to(dtype))
        with pytest.raises(ModelError, match=name):
            Model.load(folder)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_other_floats_are_read(self, folder, dtype):
        self._changed(folder, lambda weight: weight.to(dtype))
        assert Model.load(folder)


def test_the_bundled_model_records_its_checksums():
    config = json.loads((find_model() / "config.json").read_text(encoding="utf-8"))
    assert {"model.safetensors", "tokenizer.json"} <= config["sha256"].keys()


class TestEncoders:
    @pytest.fixture
    def encoder(self, tmp_path):
        tiny_encoder("bert", tmp_path / "bert")
        return tmp_path / "bert"

    def _changed(self, encoder, change):
        weights = load_file(encoder / "model.safetensors")
        name = next(key for key in weights if key.endswith("word_embeddings.weight"))
        weights[name] = change(weights[name])
        save_file(weights, encoder / "model.safetensors", metadata={"format": "pt"})

    def test_not_finite(self, encoder):
        self._changed(encoder, lambda weight: weight * float("nan"))
        with pytest.raises(ModelError, match=r"word_embeddings\.weight"):
            load_encoder(str(encoder))

    def test_no_floats(self, encoder):
        self._changed(encoder, lambda weight: (weight * 100).to(torch.int8))
        with pytest.raises(ModelError, match=r"word_embeddings\.weight.*\bI8\b"):
            load_encoder(str(encoder))

    @pytest.mark.parametrize("damage", DAMAGED)
    @pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
    def test_a_damaged_file(self, encoder, name, damage):
        path = encoder / name
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
        try:
            load_encoder(str(encoder))
        except CascadeError:
            return
        assert "byte" in damage

    @pytest.mark.parametrize("value", [0, -1, None, [], 10**30])
    @pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"])
    def test_impossible_sizes(self, encoder, key, value):
        config = json.loads((encoder / "config.json").read_text(encoding="utf-8"))
        (encoder / "config.json").write_text(json.dumps({**config, key: value}), encoding="utf-8")
        with pytest.raises(ModelError):
            load_encoder(str(encoder))
