"""A damaged run folder is refused with a clear error, or resumes correctly."""

import shutil

import pytest
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


def test_a_damaged_best_model_is_not_scored(recipe):
    path = RunFolder(recipe.output).best / "model.safetensors"
    path.write_bytes(_flipped(path.read_bytes(), path.stat().st_size - 5))
    with pytest.raises(ModelError, match="SHA-256"):
        Run(recipe, resume=True, device="cpu")._load_best()


@pytest.mark.parametrize("text", ["", "[]", "null", "{"])
def test_a_damaged_summary(recipe, text):
    folder = RunFolder(recipe.output)
    (folder.path / "summary.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="summary.json"):
        folder.read_summary()
