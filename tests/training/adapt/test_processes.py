import json

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import small_settings, write_text
from tests.training.runs import launch

from cascade_srn.training.adapt.run import Adaptation

pytestmark = pytest.mark.slow


def test_two_processes_reach_the_weights_of_one(tmp_path):
    # No dropout, which differs between processes.
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = tiny_encoder("bert", tmp_path / "encoder", **still)
    text = write_text(tmp_path)
    settings = small_settings(encoder, batch_size=8, accumulation=2, steps=2, head_steps=2)
    Adaptation([text], settings, tmp_path / "one", device="cpu").run()
    options = ["--sequence-pieces", 16, "--batch-size", 8, "--accumulation", 2, "--steps", 2, "--save-steps", 2]
    options += ["--head-steps", 2, "--log-steps", 2, "--output", tmp_path / "two"]
    done = launch(["adapt", text, "--encoder", encoder, *options])
    assert done.returncode == 0, done.stderr
    # The main process alone shows progress.
    assert done.stdout.count("step 4/4") == 2
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        # Attention does not depend on this one: its gradient is zero but for rounding, and Adam makes a step of that.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=5e-6)
    theirs, ours = (json.loads((tmp_path / name / "summary.json").read_text("utf-8")) for name in ("one", "two"))
    assert ours["environment"]["processes"] == 2
    for moment in ("before", "after"):
        assert ours["perplexity"][moment] == pytest.approx(theirs["perplexity"][moment], rel=1e-4)
    logs = [(tmp_path / name / "log.jsonl").read_text("utf-8").splitlines() for name in ("one", "two")]
    for their_line, our_line in zip(*logs, strict=True):
        assert json.loads(our_line).get("loss", 0) == pytest.approx(json.loads(their_line).get("loss", 0), rel=1e-4)
