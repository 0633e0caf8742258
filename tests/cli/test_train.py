import json
import signal
import subprocess
import time

import pytest
from tests.cli.conftest import failure, restore_sigint, run, start

from cascade_srn.runs.display import Display


def test_from_a_recipe_to_a_model(real_curves, recipe, tmp_path, capsys):
    assert (
        run("train", recipe, "training.epochs=2", f"data.test={tmp_path / 'dev.jsonl'}", "--device", "cpu", "--no-onnx")
        == 0
    )
    printed = capsys.readouterr().out.splitlines()
    # Checks of the data, a line per evaluation and epoch, the table, and the folder of the model.
    assert printed[0] == "preflight:"
    assert printed[1].startswith("  train: 12 documents")
    assert any("6 x " in line for line in printed)
    assert [line.split("  ")[1] for line in printed if line.startswith("epoch")] == ["step 3/6", "step 6/6"]
    assert sum("RE strict, directed, micro" in line for line in printed) == 2
    assert printed[-1] == f"The model is in {tmp_path / 'run'}/best"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["recipe"]["training"]["epochs"] == 2
    shown = next(line for line in printed if "NER, micro" in line)
    assert f"{100 * summary['dev']['ner']['micro']['f1']:.1f}" in shown


@pytest.mark.slow
def test_a_model_without_correct_predictions_is_reported(recipe, tmp_path, capsys):
    still = "training.learning_rate=0", "training.encoder_learning_rate=0", "model.thresholds.entity=0.9"
    assert run("train", recipe, "training.epochs=1", *still, "--device", "cpu") == 0
    sentence, where = capsys.readouterr().out.splitlines()[-2:]
    assert "│" not in sentence
    assert "dev" in sentence
    assert where == f"The model is in {tmp_path / 'run'}/best"
    assert run("train", recipe, "--device", "cpu", "--overwrite") == 0
    assert sentence not in capsys.readouterr().out


@pytest.mark.slow
def test_a_finished_run(recipe, capsys):
    run("train", recipe, "--device", "cpu")
    printed = capsys.readouterr().out
    assert run("train", recipe, "--device", "cpu", "--resume") == 0
    again = capsys.readouterr().out
    assert "nothing to resume" in again
    assert printed[printed.index("┏") :] == again[again.index("┏") :]
    assert str(recipe.parent / "run") in failure(capsys, "train", recipe, "--device", "cpu")
    assert "overwrite" in failure(capsys, "train", recipe, "--device", "cpu", "--resume", "--overwrite")
    changed = failure(capsys, "train", recipe, "training.epochs=4", "--resume")
    assert "training.epochs=3" in changed
    assert "training.epochs=4" in changed
    data = recipe.parent / "train.jsonl"
    kept = data.read_bytes()
    data.write_bytes(kept + kept.splitlines(keepends=True)[0])
    assert "train.jsonl" in failure(capsys, "train", recipe, "--resume")
    data.write_bytes(kept)
    assert run("train", recipe, "--device", "cpu", "--overwrite") == 0


@pytest.mark.slow
def test_seeds(recipe, tmp_path, capsys):
    assert run("train", recipe, "--seeds", 2, "--device", "cpu") == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("Seed")] == ["Seed 0:", "Seed 1:"]
    assert "mean ± standard deviation over 2 seeds" in printed
    assert printed.splitlines()[-1] == f"The model is in {tmp_path / 'run'}/seed-N/best"
    assert (tmp_path / "run" / "seeds.json").is_file()
    # Simulates a kill of the second run after its last checkpoint.
    (tmp_path / "run" / "seed-1" / "summary.json").unlink()
    before = (tmp_path / "run" / "seed-0" / "summary.json").stat().st_mtime_ns
    assert run("train", recipe, "--seeds", 2, "--device", "cpu", "--resume") == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("Seed")] == ["Seed 1:"]
    assert "Resuming after step 8 of 9." in printed
    assert (tmp_path / "run" / "seed-0" / "summary.json").stat().st_mtime_ns == before
    assert str(tmp_path / "run") in failure(capsys, "train", recipe, "--seeds", 2)


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["training.epoch=3"], "training.epochs"), (["epochs"], "'epochs'"),
        (["data.dev=no.jsonl"], "no.jsonl"), (["training.trackers=[wandbb]"], "'wandb'"),
        (["--device", "tpu9"], "'tpu9'"), (["--device", "mps"], "'mps'"), (["--seeds", "0"], "seeds is 0"),
        (["--jobs", "3"], "--seeds"),
        (["training.seed=5", "--seeds", "2"], "training.seed is 5"),
    ],
)  # fmt: skip
def test_errors_are_one_line(recipe, capsys, arguments, data):
    assert data in failure(capsys, "train", recipe, *arguments)


@pytest.mark.slow
def test_parallel_seeds_equal_sequential_ones(recipe, tmp_path, capsys):
    assert run("train", recipe, "--seeds", 2, f"output={tmp_path / 'run-a'}", "--device", "cpu") == 0
    one_by_one = capsys.readouterr().out
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, f"output={tmp_path / 'run-b'}", "--device", "cpu") == 0
    at_once = capsys.readouterr().out
    assert "2 runs, 2 at a time" in at_once
    assert one_by_one[one_by_one.index("┏") :].replace("run-a", "run-b") == at_once[at_once.index("┏") :]
    written = [json.loads((tmp_path / f"run-{k}" / "seeds.json").read_text(encoding="utf-8")) for k in "ab"]
    assert written[0]["dev"] == written[1]["dev"]
    assert "epoch 3/3" in (tmp_path / "run-b" / "seed-1.log").read_text(encoding="utf-8")
    # Finished runs are not repeated.
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, f"output={tmp_path / 'run-b'}", "--resume") == 0
    assert "0 runs" in capsys.readouterr().out


@pytest.mark.slow
def test_failures_of_parallel_seeds_are_reported(recipe, tmp_path, capsys):
    given = "train", recipe, "--seeds", 2, "--jobs", 2, "--device", "cpu"
    assert run(*given, f"model.encoder.name={tmp_path / 'nowhere'}", "fresh=null") == 2
    printed = capsys.readouterr().err
    assert printed.startswith("Error: 2 of 2 runs failed, seed-")
    assert f"{tmp_path / 'nowhere'}" in printed


@pytest.mark.slow
def test_two_trainings_at_once(recipe, tmp_path, capsys):
    """The second one is rejected. It succeeds after the first one is killed."""
    first = start("train", recipe, "training.epochs=100000", "--device", "cpu", stdout=subprocess.DEVNULL)
    try:
        while first.poll() is None and not (tmp_path / "run" / "log.jsonl").is_file():
            time.sleep(0.05)
        printed = failure(capsys, "train", recipe, "training.epochs=1", "--device", "cpu", "--overwrite")
        assert f"pid {first.pid}" in printed
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    assert (tmp_path / "run" / ".cascade-srn.lock").is_file()
    assert run("train", recipe, "training.epochs=1", "--device", "cpu", "--overwrite") == 0
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_prints_how_to_continue(recipe, tmp_path, number, code):
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    command = "train", recipe, "training.epochs=100000", "--device", "cpu"
    running = start(*command, **pipes, preexec_fn=restore_sigint)
    while running.poll() is None and not (tmp_path / "run" / "last" / "state.json").is_file():
        time.sleep(0.05)
    running.send_signal(number)
    printed = running.communicate()[1].splitlines()[-1]
    assert running.returncode == code
    assert printed.startswith("Stopped at step ")
    assert " of 300000" in printed
    assert f"{tmp_path}/run/best" in printed
    assert "--resume" in printed


def _interrupt(monkeypatch, capsys, at, *arguments):
    """Interrupt a training at the n-th progress report, and return the line that it prints."""
    shown = []

    def progress(self, progress):
        shown.append(progress)
        if len(shown) == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Display, "progress", progress)
        assert run("train", *arguments, "--device", "cpu") == 130
    (printed,) = capsys.readouterr().err.splitlines()
    return printed


@pytest.mark.slow
def test_an_interrupt_before_the_first_checkpoint(recipe, tmp_path, monkeypatch, capsys):
    printed = _interrupt(monkeypatch, capsys, 2, recipe)
    assert printed.startswith("Stopped at step 2 of 9")
    assert f"{tmp_path}/run/best" not in printed
    assert "training.save_every" in printed
    printed = _interrupt(monkeypatch, capsys, 5, recipe, "training.save_steps=null", "--overwrite")
    assert printed.startswith("Stopped at step 5 of 9")
    assert f"{tmp_path}/run/best" in printed
    assert "training.save_every" in printed
    assert "--resume instead of --overwrite" in printed
    assert run("train", recipe, "training.save_steps=null", "--device", "cpu", "--resume") == 0


def test_an_interrupt_before_the_first_step(recipe, tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("cascade_srn.training.run.read_corpus", interrupt)
    assert run("train", recipe, "--device", "cpu") == 130
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith("Stopped before the first step")
    assert f"{tmp_path}/run" in printed


@pytest.mark.slow
def test_an_interrupt_among_several_seeds(recipe, tmp_path, monkeypatch, capsys):
    printed = _interrupt(monkeypatch, capsys, 9 + 6, recipe, "--seeds", 2)
    assert printed.startswith("Stopped at step 6 of 9")
    assert f"{tmp_path}/run/seed-1/best" in printed
    assert "training.save_every" not in printed
    assert run("train", recipe, "--seeds", 2, "--device", "cpu", "--resume") == 0
    assert "Resuming after step 4 of 9." in capsys.readouterr().out


def test_an_interrupt_of_parallel_runs(recipe, tmp_path, monkeypatch, capsys):
    def interrupt(commands, n_jobs, folder):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("cascade_srn.runs.children.run_parallel", interrupt)
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, "--device", "cpu") == 130
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith("Stopped")
    assert f"{tmp_path}/run" in printed


def test_raw_text_that_cannot_be_used(recipe, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "raw.txt").write_text("Ada met Tim.", encoding="utf-8")
    assert "missing" in failure(capsys, "train", recipe, "--raw", tmp_path / "missing")
    assert "empty" in failure(capsys, "train", recipe, "--raw", tmp_path / "empty")
    assert "which is read" in failure(capsys, "train", recipe, "--raw", tmp_path)
    assert "--seeds" in failure(capsys, "train", recipe, "--raw", tmp_path / "raw.txt", "--seeds", 2)
    assert "folds" in failure(capsys, "train", recipe, "--raw", tmp_path / "raw.txt", "--folds", 2)
    assert "data.labels" in failure(capsys, "train", recipe, "data.labels=labels", "--raw", tmp_path / "raw.txt")
    (tmp_path / "raw.jsonl").write_text('{"id": 1, "abstract": "  "}', encoding="utf-8")
    assert "abstract, id (--field)" in failure(capsys, "train", recipe, "--raw", tmp_path / "raw.jsonl")
    assert "no sentence" in failure(capsys, "train", recipe, "--raw", tmp_path / "raw.jsonl", "--field", "abstract")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_model_uses_the_graph_of_its_start(recipe, tmp_path, monkeypatch):
    assert run("train", recipe, "training.epochs=1", "--device", "cpu") == 0
    monkeypatch.setattr("cascade_srn.training.export.run.export_encoder", None)
    changes = "fresh=null", f"model.start={tmp_path / 'run' / 'best'}", f"output={tmp_path / 'second'}"
    assert run("train", recipe, *changes, "training.epochs=1", "--device", "cpu") == 0
    assert (tmp_path / "second" / "best" / "encoder.onnx").is_file()


@pytest.mark.slow
def test_stages_with_raw_text(recipe, tmp_path, capsys):
    (tmp_path / "raw.txt").write_text("Ada met Tim.", encoding="utf-8")
    command = "train", recipe, "--raw", tmp_path / "raw.txt", "--device", "cpu", "--no-onnx"
    assert run(*command) == 0
    printed = capsys.readouterr().out
    assert "1 sentences are too few" in printed
    assert printed.splitlines()[-1] == f"The model is in {tmp_path / 'run'}/best"
    assert run(*command) == 0
    again = capsys.readouterr().out
    assert "nothing to resume" in again
    assert printed[printed.index("┏") :] == again[again.index("┏") :]
