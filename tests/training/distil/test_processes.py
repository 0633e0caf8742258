import pytest
import torch
from safetensors.torch import load_file
from tests.training.distil.teachers import write_lessons
from tests.training.runs import launch

from cascade_srn.training.run_folder import RunFolder

pytestmark = pytest.mark.slow

# Small ones: where a gradient is zero but for rounding, Adam makes a step of the rounding.
RATES = {"learning_rate": 1e-3, "encoder_learning_rate": 1e-4}


def test_two_processes_reach_the_labels_and_weights_of_one(tmp_path):
    recipe, teacher, text = write_lessons(
        tmp_path,
        model={"dropout": 0.0},
        fresh={"width": 32, "n_layers": 1, "n_heads": 2, "vocabulary": 200, "dropout": 0.0},
        training={"corruption": 0.0, "epochs": 1, "evaluate_steps": None, "batch_size": 7, **RATES},
    )
    options = ["--text", text, "--recipe", recipe, "--shard-sentences", 5, "--set", "distillation.teacher_weight=0.5"]
    for n_processes in (1, 2):
        output = tmp_path / f"run-{n_processes}"
        done = launch(["distil", teacher, *options, "--output", output], n_processes=n_processes)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("F1 of teacher and student") == 1
    folders = [RunFolder(tmp_path / f"run-{n}") for n in (1, 2)]
    assert folders[1].read_json("environment.json")["processes"] == 2
    shards = [{p.name: p.read_bytes() for p in (f.path / "labels").glob("shard-*")} for f in folders]
    assert shards[0] == shards[1]
    assert len(shards[0]) == 8
    one, two = (load_file(folder.path / "best" / "model.safetensors") for folder in folders)
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-5)
