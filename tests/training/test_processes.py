import pytest
import torch
from safetensors.torch import load_file
from tests.training.runs import launch, write_recipe

from cascade_srn.training.run_folder import RunFolder

pytestmark = pytest.mark.slow

# Small rates, because Adam turns the rounding error of a zero gradient into a step.
RATES = {"learning_rate": 1e-3, "encoder_learning_rate": 1e-4}


def test_two_processes_reach_the_weights_of_one(tmp_path):
    # Nothing random: each process drops out something else. Batches of 5, 5 and 2 give unequal halves, some batches
    # have no relation, and accumulation leaves one of the processes without a sentence in the end.
    recipe = write_recipe(
        tmp_path,
        model={"dropout": 0.0, "fusion": "early"},
        fresh={"dropout": 0.0},
        training={"corruption": 0.0, "epochs": 3, "accumulation": 2, **RATES},
    )
    for n_processes in (1, 2):
        done = launch(["train", recipe, f"output={tmp_path}/run-{n_processes}"], n_processes=n_processes)
        assert done.returncode == 0, done.stderr
        # The main process alone shows progress: an epoch's last step occurs once.
        assert done.stdout.count("epoch 3/3  step 9/9") == 1
    folders = [RunFolder(tmp_path / f"run-{n}") for n in (1, 2)]
    assert folders[1].read_json("environment.json")["processes"] == 2
    for file in ("best/model.safetensors", "last/state-8.safetensors"):
        one, two = (load_file(folder.path / file) for folder in folders)
        for name, tensor in one.items():
            if not name.startswith("random."):
                torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(folders[1].read_log(), folders[0].read_log(), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert ours.get("dev") == theirs.get("dev")
