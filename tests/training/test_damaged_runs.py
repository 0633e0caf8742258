"""A damaged run folder is refused with a clear error, or resumes correctly."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.training.runs import small_recipe

from cascade_srn.cli import main
from cascade_srn.errors import CascadeError, DataError, ModelError
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run import Run
from cascade_srn.training.run_folder import RunFolder


def _flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "garbage": lambda data: bytes(range(256)) * 20,
    "null": lambda data: b"null",
    "mapping": lambda data: b"{}",
    "deep": lambda data: b"[" * 100_000,
    "middle byte": lambda data: _flipped(data, len(data) // 2),
    "last byte": lambda data: _flipped(data, len(data) - 1),
}
# Written again when a run is resumed, and never read.
REPLACED = ("environment.json", "preflight.json")
FILES = ("recipe.yaml", "data.json", "log.jsonl", "last/state.json", "last/tensors", *REPLACED)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that was stopped after a state."""
    folder = tmp_path_factory.mktemp("damaged")
    recipe = small_recipe(folder, training={"epochs": 3})
    run = Run(recipe, device="cpu")
    for progress in run:
        if progress.step == 5:
            break
    del run
    return folder


@pytest.fixture
def recipe(begun, tmp_path):
    shutil.copytree(begun / "run", tmp_path / "run")
    return load_recipe(begun / "recipe.yaml", [f"output={tmp_path / 'run'}"])


def _file(recipe, name):
    last = RunFolder(recipe.output).path / "last"
    return next(last.glob("*.safetensors")) if name == "last/tensors" else RunFolder(recipe.output).path / name


def test_undamaged(recipe):
    assert Run(recipe, resume=True, device="cpu").resumed_at == 4


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file(recipe, name, damage):
    path = _file(recipe, name)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    if name in REPLACED:
        assert Run(recipe, resume=True, device="cpu").resumed_at == 4
    elif name.startswith("last"):
        with pytest.raises(ModelError, match="(?s)last'.*overwrite"):
            Run(recipe, resume=True, device="cpu")
    elif "byte" not in damage:
        with pytest.raises(CascadeError):
            Run(recipe, resume=True, device="cpu")


@pytest.mark.slow
def test_a_flipped_byte_anywhere_in_a_state(recipe):
    path = _file(recipe, "last/tensors")
    data = path.read_bytes()
    for at in range(0, len(data), len(data) // 9):
        path.write_bytes(_flipped(data, at))
        with pytest.raises(ModelError, match="(?s)last'.*overwrite"):
            Run(recipe, resume=True, device="cpu")
    path.write_bytes(data)
    assert Run(recipe, resume=True, device="cpu").resumed_at == 4


def test_on_the_command_line(begun, recipe, capsys):
    path = _file(recipe, "last/state.json")
    path.write_text(path.read_text(encoding="utf-8").replace('"step": 4', '"step": 3'), encoding="utf-8")
    arguments = ["train", str(begun / "recipe.yaml"), f"output={recipe.output}", "--resume", "--device", "cpu"]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "last'" in line
    assert "--overwrite" in line


@pytest.mark.slow
class TestStatesWithoutChecksums:
    """States of old releases. Their values are checked one by one."""

    def _changed(self, recipe, change):
        path = _file(recipe, "last/state.json")
        state = json.loads(path.read_text(encoding="utf-8"))
        for key in ("sha256", "tensors_sha256"):
            state.pop(key, None)
        change(state)
        path.write_text(json.dumps(state), encoding="utf-8")

    def test_they_are_read(self, recipe):
        self._changed(recipe, lambda state: None)
        assert Run(recipe, resume=True, device="cpu").resumed_at == 4

    @pytest.mark.parametrize("step", [-1, 10**6, None, "4", 4.0, True])
    def test_a_step_that_the_run_does_not_have(self, recipe, step):
        self._changed(recipe, lambda state: state["standing"].update(step=step))
        with pytest.raises(ModelError, match=r"step .* \d+ steps"):
            Run(recipe, resume=True, device="cpu")

    @pytest.mark.parametrize("value", [None, -1, "x", float("nan"), [10**9]], ids=repr)
    @pytest.mark.parametrize("key", ["epoch", "order", "seen", "sums", "best", "stale", "seconds"])
    def test_other_values_of_the_loop(self, recipe, key, value):
        self._changed(recipe, lambda state: state["standing"].update({key: value}))
        if (key, value) in [("best", -1), ("seconds", -1)]:
            return  # these values are valid
        with pytest.raises(ModelError, match="(?s)last'.*overwrite"):
            Run(recipe, resume=True, device="cpu")

    @pytest.mark.parametrize("value", [None, 10**30, {}, "x"], ids=repr)
    @pytest.mark.parametrize("key", ["standing", "n_averaged", "shuffling", "random", "tensors", "log_bytes"])
    def test_other_values(self, recipe, key, value):
        self._changed(recipe, lambda state: state.update({key: value}))
        if key == "random" and value in ({}, "x"):
            return  # a process without a saved random state starts from its seed
        with pytest.raises(CascadeError, match="overwrite"):
            Run(recipe, resume=True, device="cpu")

    def test_a_file_elsewhere(self, recipe, tmp_path):
        _file(recipe, "last/tensors").rename(tmp_path / "elsewhere.safetensors")
        self._changed(recipe, lambda state: state.update(tensors=str(tmp_path / "elsewhere.safetensors")))
        with pytest.raises(ModelError, match="elsewhere.safetensors"):
            Run(recipe, resume=True, device="cpu")

    @pytest.mark.parametrize("part", ["weights.", "average.", "optimiser."])
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (None, "missing|Missing key"),
            (lambda value: value * float("nan"), "not finite"),
            (lambda value: (value * 10).to(torch.int32), "is int32"),
        ],
        ids=["missing", "not finite", "integers"],
    )
    def test_tensors(self, recipe, part, change, reason):
        self._changed(recipe, lambda state: None)
        path = _file(recipe, "last/tensors")
        tensors = load_file(path)
        name = next(key for key in tensors if key.startswith(part) and tensors[key].ndim == 2)
        value = tensors.pop(name)
        if change is not None:
            tensors[name] = change(value)
        save_file(tensors, path)
        with pytest.raises(ModelError, match=f"(?s)last'.*({reason}).*overwrite"):
            Run(recipe, resume=True, device="cpu")


def test_a_log_that_is_shorter_than_the_state_knows(recipe):
    path = _file(recipe, "log.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:2]), encoding="utf-8")
    with pytest.raises(DataError, match=r"log.jsonl.* \(\d+ bytes"):
        Run(recipe, resume=True, device="cpu")


def test_a_damaged_best_model_is_not_scored(recipe):
    path = RunFolder(recipe.output).best / "model.safetensors"
    path.write_bytes(_flipped(path.read_bytes(), path.stat().st_size - 5))
    with pytest.raises(ModelError, match="SHA-256"):
        Run(recipe, resume=True, device="cpu")._load_best()


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"dev": 3}', '{"dev": {"symmetric": "directed"}}'])
def test_a_damaged_summary(recipe, text):
    folder = RunFolder(recipe.output)
    (folder.path / "summary.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="summary.json"):
        folder.read_summary()
