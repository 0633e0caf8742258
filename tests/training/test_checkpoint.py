import errno
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.small_models import SCHEMA, examples, small_model

from cascade_srn.errors import ModelError
from cascade_srn.runs.process import seed_everything
from cascade_srn.training.checkpoint import load_state, save_state
from cascade_srn.training.loop import Loop
from cascade_srn.training.settings import TrainingSettings

EXAMPLES = [example for example in examples() if len(example.sentence)]
SETTINGS = TrainingSettings(epochs=4, batch_size=4, log_steps=1, ema=0.9, learning_rate=0.01, corruption=0.3)


def _loop(settings=SETTINGS):
    return Loop(small_model(dropout=0.3, schema=SCHEMA), EXAMPLES, EXAMPLES, settings)


def _after(loop, n_events):
    progress = iter(loop)
    for _ in range(n_events):
        next(progress)
    return loop, progress


def _disturb():
    """Change the random states between a kill and a resumption."""
    random.seed(99)
    torch.manual_seed(99)
    np.random.seed(99)


@pytest.mark.parametrize("n_events", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 8))])
def test_a_resumed_loop_repeats_the_uninterrupted_one(n_events, tmp_path):
    whole = _loop()
    expected = [p.to_dict() for p in whole]
    loop, _ = _after(_loop(), n_events)
    save_state(loop, tmp_path, log_bytes=17)
    _disturb()
    again = _loop()
    assert load_state(again, tmp_path)["log_bytes"] == 17
    assert again.loop_state.step == n_events
    reports = [p.to_dict() for p in again]
    for ours, theirs in zip(reports, expected[n_events:], strict=True):
        for key in ("seconds", "words_per_second"):
            ours.pop(key), theirs.pop(key)
        assert ours == theirs
    for name, value in whole.model.cascade.state_dict().items():
        assert torch.equal(again.model.cascade.state_dict()[name], value), name
    for name, value in whole.averaged.state().items():
        assert torch.equal(again.averaged.state()[name], value), name


def test_a_new_process_starts_from_its_seed(tmp_path):
    loop, _ = _after(_loop(), 1)
    save_state(loop, tmp_path)
    again = _loop()
    # As if there had been fewer processes before.
    again.accelerator = SimpleNamespace(process_index=1, num_processes=2)
    _disturb()
    load_state(again, tmp_path)
    drawn = random.random(), np.random.rand(), torch.rand(()).item()
    seed_everything(SETTINGS.seed + 1)
    assert drawn == (random.random(), np.random.rand(), torch.rand(()).item())


def test_only_the_last_state_stays(tmp_path):
    loop, progress = _after(_loop(), 1)
    for step in (1, 2, 3):
        save_state(loop, tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"state-{step}.safetensors", "state.json"]
        next(progress)


def test_a_temporary_folder_of_another_host_is_removed_with_old_states(tmp_path):
    left = tmp_path / f".cascade-srn.state-1.safetensors.00000000-1-{'0' * 16}.tmp"
    left.mkdir()
    (left / "state-1.safetensors").write_bytes(b"half")
    save_state(_after(_loop(), 1)[0], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state-1.safetensors", "state.json"]


def test_the_state_before_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    loop, progress = _after(_loop(), 1)
    save_state(loop, tmp_path, log_bytes=17)
    next(progress)

    def refuse(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("cascade_srn.training.checkpoint.replacing", refuse)
        with pytest.raises(OSError, match="No space left"):
            save_state(loop, tmp_path, log_bytes=18)
    again = _loop()
    assert load_state(again, tmp_path)["log_bytes"] == 17
    assert again.loop_state.step == 1


def test_no_state(tmp_path):
    assert load_state(_loop(), tmp_path) is None
    assert load_state(_loop(), tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "state-1.safetensors").unlink(), "FileNotFoundError"),
        (lambda folder: (folder / "state-1.safetensors").write_bytes(b"no"), "checksum"),
        (lambda folder: (folder / "state.json").write_text("{", encoding="utf-8"), "JSONDecodeError"),
        (lambda folder: (folder / "state.json").write_text('{"format_version": 9}', encoding="utf-8"), "version 9"),
    ],
)
def test_states_that_cannot_be_read(tmp_path, damage, reason):
    save_state(_after(_loop(), 1)[0], tmp_path)
    damage(tmp_path)
    with pytest.raises(ModelError, match=reason):
        load_state(_loop(), tmp_path)


def test_a_state_of_another_model(tmp_path):
    save_state(_after(_loop(), 1)[0], tmp_path)
    with pytest.raises(ModelError, match="RuntimeError"):
        load_state(Loop(small_model(hidden_width=7), EXAMPLES, [], SETTINGS), tmp_path)
