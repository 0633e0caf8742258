"""Killed at any moment, an adaptation goes on to the very weights it would have reached."""

import json
import random
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import small_settings, write_text
from tests.training.runs import in_process

from cascade_srn.errors import DataError, ModelError
from cascade_srn.runs.process import seed_everything
from cascade_srn.training.adapt.run import Adaptation

pytestmark = pytest.mark.slow

N_KILLS = 8


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resuming")
    encoder = tiny_encoder("bert", folder / "encoder")
    text = write_text(folder)
    options = {
        "--encoder": encoder,
        "--sequence-pieces": 16,
        "--batch-size": 20,
        "--epochs": 3,
        "--learning-rate": 0.01,
        "--head-steps": 6,
        "--save-steps": 4,
        "--evaluate-steps": 5,
        "--log-steps": 3,
        "--device": "cpu",
    }
    return folder, ["adapt", text, *(part for option in options.items() for part in option)]


@pytest.fixture(scope="module")
def uninterrupted(command):
    folder, arguments = command
    assert in_process([*arguments, "--output", folder / "run-whole"]) == 0
    return folder / "run-whole"


def _log(folder):
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    untimed = ("seconds", "pieces_per_second")
    return [{key: value for key, value in json.loads(line).items() if key not in untimed} for line in lines]


def _perplexity(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["perplexity"]


@pytest.mark.slow
def test_killed_at_random_moments(command, uninterrupted):
    folder, arguments = command
    killed = [*arguments, "--output", folder / "run-killed", "--resume"]
    moments = random.Random(5)
    n_kills = sum(in_process(killed, kill_at=moments.randint(2, 30)) == -signal.SIGKILL for _ in range(N_KILLS))
    # The last ones come after little that is left to do, and may come too late to matter.
    assert n_kills >= N_KILLS - 2
    assert in_process(killed) == 0
    ours, theirs = (load_file(each / "model.safetensors") for each in (folder / "run-killed", uninterrupted))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert _log(folder / "run-killed") == _log(uninterrupted)
    assert _perplexity(folder / "run-killed") == _perplexity(uninterrupted)
    names = {path.name for path in (folder / "run-killed").iterdir()}
    assert names == {path.name for path in uninterrupted.iterdir()}


@pytest.mark.slow
def test_there_was_much_to_resume(uninterrupted):
    log = _log(uninterrupted)
    assert log[-1]["step"] > 30
    # Three, of which the steps of the head took a part.
    assert log[-1]["epoch"] == 4
    assert len(_perplexity(uninterrupted)["during"]) >= 5


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    text, encoder = write_text(folder), tiny_encoder("bert", folder / "encoder")
    arguments = [text], small_settings(encoder, save_steps=2), folder / "out"
    for progress in Adaptation(*arguments, device="cpu"):
        if progress.step == 4:
            break
    return arguments


@pytest.fixture
def begun(stopped, tmp_path):
    """A copy of an adaptation that stopped after a state."""
    paths, settings, folder = stopped
    shutil.copytree(folder, tmp_path / "out")
    return paths, settings, tmp_path / "out"


def test_it_goes_on_where_it_stood(begun):
    resumed = Adaptation(*begun, device="cpu", resume=True)
    assert resumed.resumed_at == 4
    assert [progress.step for progress in resumed] == [6]


def test_a_process_that_was_not_there_before_begins_from_its_seed(begun):
    path = begun[2] / "last" / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    # As if none had been: the one there is now is the first of those that are new.
    del state["sha256"]
    path.write_text(json.dumps({**state, "python": []}), encoding="utf-8")
    random.seed(99)
    torch.manual_seed(99)
    Adaptation(*begun, device="cpu", resume=True)
    drawn = random.random(), torch.rand(()).item()
    seed_everything(begun[1].seed)
    assert drawn == (random.random(), torch.rand(()).item())


def test_what_was_half_written_is_cleared_away(begun):
    half = [begun[2] / ".encoder.tmp", begun[2] / ".a.tmp", begun[2] / "last" / ".state-6.safetensors.tmp"]
    half[0].mkdir()
    for path in (half[0] / "config.json", *half[1:]):
        path.write_text("half", encoding="utf-8")
    Adaptation(*begun, device="cpu", resume=True)
    assert not any(path.exists() for path in half)
    assert (begun[2] / "last" / "state.json").is_file()


def test_without_a_state_it_starts_over(begun):
    for path in (begun[2] / "last").iterdir():
        path.unlink()
    resumed = Adaptation(*begun, device="cpu", resume=True)
    assert resumed.resumed_at is None
    assert [progress.step for progress in resumed] == [0, 2, 4, 6]
    assert [line["step"] for line in _log(begun[2])] == [0, 2, 4, 6]


def test_states_that_cannot_be_read(begun):
    last = begun[2] / "last"
    state = json.loads((last / "state.json").read_text(encoding="utf-8"))
    (last / "state.json").write_text(json.dumps({**state, "format_version": 9}), encoding="utf-8")
    with pytest.raises(ModelError, match="version 9"):
        Adaptation(*begun, device="cpu", resume=True)
    (last / "state.json").write_text(json.dumps(state), encoding="utf-8")
    (last / state["tensors"]).write_bytes(b"half")
    with pytest.raises(ModelError, match="last'.*overwrite"):
        Adaptation(*begun, device="cpu", resume=True)


def _changed_state(begun, change):
    """A state of an older release, which has no checksums."""
    path = begun[2] / "last" / "state.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    for key in ("sha256", "tensors_sha256"):
        state.pop(key, None)
    change(state)
    path.write_text(json.dumps(state), encoding="utf-8")
    return path.parent / state["tensors"]


@pytest.mark.parametrize("step", [-1, 10**6, None, "4"])
def test_a_step_that_there_is_not(begun, step):
    _changed_state(begun, lambda state: state.update(step=step))
    with pytest.raises(ModelError, match="6 steps"):
        Adaptation(*begun, device="cpu", resume=True)


@pytest.mark.parametrize("kind", ["missing", "of one number", "not finite"])
def test_weights_that_are(begun, kind):
    path = _changed_state(begun, lambda state: None)
    tensors = load_file(path)
    name = next(key for key in tensors if key.startswith("weights.") and tensors[key].ndim == 1)
    value = tensors.pop(name)
    if kind != "missing":
        # A single number would be copied to all places of the weight.
        tensors[name] = value[:1].clone() if kind == "of one number" else value * float("nan")
    save_file(tensors, path)
    with pytest.raises(ModelError, match=f"the weight {name.removeprefix('weights.')} "):
        Adaptation(*begun, device="cpu", resume=True)


@pytest.mark.parametrize("part", ["state.json", "tensors"])
def test_a_flipped_byte(begun, part):
    last = begun[2] / "last"
    path = next(last.glob("*.safetensors")) if part == "tensors" else last / part
    data = bytearray(path.read_bytes())
    data[-9 if part == "tensors" else len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ModelError, match="(?s)last'.*overwrite"):
        Adaptation(*begun, device="cpu", resume=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": 3, "sha256": null}', "[" * 100_000])
def test_a_damaged_record(begun, text):
    (begun[2] / "adapt.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="adapt.json'.*overwrite"):
        Adaptation(*begun, device="cpu", resume=True)
    Adaptation(*begun, device="cpu", overwrite=True)
