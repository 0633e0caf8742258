"""Killed at any moment, an adaptation goes on to the very weights it would have reached."""

import json
import random
import signal

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import small_settings, write_text
from tests.training.runs import in_process

from cascade_srn.training.adapt.run import Adaptation

N_KILLS = 8


def _log(folder):
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    untimed = ("seconds", "pieces_per_second")
    return [{key: value for key, value in json.loads(line).items() if key not in untimed} for line in lines]


def _perplexity(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["perplexity"]


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    options = {
        "--encoder": tiny_encoder("bert", tmp_path / "encoder"),
        "--sequence-pieces": 16, "--batch-size": 20, "--epochs": 2, "--accumulation": 2,
        "--learning-rate": 0.01, "--head-steps": 6, "--save-steps": 4, "--evaluate-steps": 5, "--log-steps": 3,
        "--device": "cpu",
    }  # fmt: skip
    command = ["adapt", write_text(tmp_path), *(part for option in options.items() for part in option)]
    whole, killed = tmp_path / "run-whole", tmp_path / "run-killed"
    assert in_process([*command, "--output", whole]) == 0
    log = _log(whole)
    assert log[-1]["step"] > 30
    assert len(_perplexity(whole)["during"]) >= 5

    resumed = [*command, "--output", killed, "--resume"]
    moments = random.Random(5)
    n_kills = sum(in_process(resumed, kill_at=moments.randint(20, 110)) == -signal.SIGKILL for _ in range(N_KILLS))
    # The last ones come after little that is left to do, and may come too late to matter.
    assert n_kills >= N_KILLS - 2
    assert in_process(resumed) == 0
    ours, theirs = (load_file(each / "model.safetensors") for each in (killed, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert _log(killed) == log
    assert _perplexity(killed) == _perplexity(whole)
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}


class Killed(Exception):
    """Stands for the end of the process."""


def _until(step):
    def stop(report):
        if report.step == step:
            raise Killed

    return stop


@pytest.mark.slow
def test_it_goes_on_from_the_last_complete_checkpoint(tmp_path):
    settings = small_settings(tiny_encoder("bert", tmp_path / "encoder"), save_steps=2, log_steps=1)
    arguments = [write_text(tmp_path)], settings, tmp_path / "out"
    with pytest.raises(Killed):
        Adaptation(*arguments, device="cpu").run(_until(5))
    (half := tmp_path / "out" / "last" / "checkpoint-6").mkdir()
    (half / "trainer_state.json").touch()
    resumed, reports = Adaptation(*arguments, device="cpu", resume=True), []
    assert resumed.checkpoint.endswith("checkpoint-4")
    resumed.run(reports.append)
    assert [report.step for report in reports] == [5, 6, 6]
    assert [line["step"] for line in _log(tmp_path / "out")] == [0, 1, 2, 3, 4, 5, 6, 6]


@pytest.mark.slow
def test_without_a_checkpoint_it_starts_over(tmp_path):
    settings = small_settings(tiny_encoder("bert", tmp_path / "encoder"))
    arguments = [write_text(tmp_path)], settings, tmp_path / "out"
    with pytest.raises(Killed):
        Adaptation(*arguments, device="cpu").run(_until(4))
    resumed, reports = Adaptation(*arguments, device="cpu", resume=True), []
    assert resumed.checkpoint is None
    resumed.run(reports.append)
    assert [line["step"] for line in _log(tmp_path / "out")] == [0, 2, 4, 6, 6]
