"""A run that is killed at any moment and resumed reaches the weights of an uninterrupted run."""

import json
import random
import signal

import pytest
import torch
from safetensors.torch import load_file
from tests.training.runs import in_process, write_recipe

pytestmark = pytest.mark.slow

N_KILLS = 10


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("resuming"))


@pytest.fixture(scope="module")
def uninterrupted(recipe):
    folder = recipe.parent / "run-whole"
    assert in_process(["train", recipe, f"output={folder}", "--device", "cpu"]) == 0
    return folder


def _tensors(folder):
    state = json.loads((folder / "last" / "state.json").read_text(encoding="utf-8"))
    return {
        "best": load_file(folder / "best" / "model.safetensors"),
        "last": load_file(folder / "last" / state["tensors"]),
    }


def _log(folder):
    untimed = ("seconds", "words_per_second")
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in untimed} for line in lines]


def _summary(folder):
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {key: summary[key] for key in ("dev", "steps", "epochs", "best_step", "data")}


def _same(folder, expected):
    ours, theirs = _tensors(folder), _tensors(expected)
    for part, tensors in theirs.items():
        assert ours[part].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(ours[part][name], tensor), name
    assert _log(folder) == _log(expected)
    assert _summary(folder) == _summary(expected)


def test_killed_ten_times_at_random_moments(recipe, uninterrupted):
    folder = recipe.parent / "run-killed"
    moments = random.Random(20)
    n_kills = 0
    for _ in range(N_KILLS):
        code = in_process(
            ["train", recipe, f"output={folder}", "--resume", "--device", "cpu"], kill_at=moments.randint(1, 45)
        )
        n_kills += code == -signal.SIGKILL
    # The last kills may come too late, when little is left to do.
    assert n_kills >= N_KILLS - 1
    assert in_process(["train", recipe, f"output={folder}", "--resume", "--device", "cpu"]) == 0
    _same(folder, uninterrupted)
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_there_were_several_best_weights_and_evaluations(uninterrupted):
    best = [line["best"] for line in _log(uninterrupted) if "best" in line]
    assert len(best) == 10
    assert 3 <= sum(best) < len(best)
