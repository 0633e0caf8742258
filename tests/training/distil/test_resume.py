"""Killed at any moment, labelling and training go on to the very labels and weights they would have reached."""

import json
import shutil
import signal

import pytest
import torch
import yaml
from safetensors.torch import load_file
from tests.training.distil.teachers import write_lessons
from tests.training.runs import in_process

from cascade_srn.errors import DataError
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run import Run

pytestmark = pytest.mark.slow

# How many operations on files a process lives for: the first ones while labelling, the others while training.
LIVES = (10, 35, 60, 60, 100, 160, 110, 140)
# The recipe has dropout, averages and mistakes in it already.
CHANGES = ("training.epochs=2", "distillation.teacher_share=0.6", "distillation.teacher_weight=0.7")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resuming")
    recipe, teacher, text = write_lessons(folder)
    changes = [part for change in CHANGES for part in ("--set", change)]
    options = ["--shard-sentences", 5, "--batch-words", 40, "--device", "cpu"]
    return folder, ["distil", teacher, "--text", text, "--recipe", recipe, *changes, *options]


@pytest.fixture(scope="module")
def uninterrupted(command):
    folder, arguments = command
    assert in_process([*arguments, "--output", folder / "run-whole"]) == 0
    return folder / "run-whole"


def _labels(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "labels").glob("shard-*"))}


def _tensors(folder):
    state = json.loads((folder / "last" / "state.json").read_text(encoding="utf-8"))
    return {**load_file(folder / "best" / "model.safetensors"), **load_file(folder / "last" / state["tensors"])}


def _log(folder):
    untimed = ("seconds", "words_per_second")
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in untimed} for line in lines]


def test_killed_at_several_moments(command, uninterrupted):
    folder, arguments = command
    killed = [*arguments, "--output", folder / "run-killed", "--resume"]
    n_kills = n_labelling = 0
    for life in LIVES:
        n_kills += in_process(killed, kill_at=life) == -signal.SIGKILL
        record = folder / "run-killed" / "labels" / "labels.json"
        n_labelling += not (record.is_file() and json.loads(record.read_text(encoding="utf-8"))["finished"])
    # The last ones may come after little that is left to do.
    assert n_kills >= len(LIVES) - 2
    assert 3 <= n_labelling <= len(LIVES) - 3
    assert in_process(killed) == 0
    assert _labels(folder / "run-killed") == _labels(uninterrupted)
    ours, theirs = _tensors(folder / "run-killed"), _tensors(uninterrupted)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name
    assert _log(folder / "run-killed") == _log(uninterrupted)
    assert not [path.name for path in (folder / "run-killed").rglob(".*")]


def test_there_was_much_to_resume(uninterrupted):
    assert len(_labels(uninterrupted)) == 8
    assert _log(uninterrupted)[-1]["step"] >= 12


def test_labels_that_changed_are_not_gone_on_with(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(uninterrupted, folder)
    (folder / "summary.json").unlink()
    changes = [f"data.labels={folder / 'labels'}", f"output={folder}"]
    values = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    values["data"]["labels"] = str(folder / "labels")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    recipe = load_recipe(folder / "recipe.yaml", changes)
    assert Run(recipe, resume=True, device="cpu").resumed_at is not None
    record = folder / "labels" / "labels.json"
    record.write_text(record.read_text(encoding="utf-8").replace('"seconds": ', '"seconds": 1'), encoding="utf-8")
    with pytest.raises(DataError, match="labels'"):
        Run(recipe, resume=True, device="cpu")
