"""``cascade-srn train``."""

import json
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.conftest import failure, heed_interrupts, output_and_modules, run, start
from tests.data.other_processes import held_elsewhere
from tests.training.runs import write_recipe

from cascade_srn.runs.display import Display


@pytest.fixture
def recipe(tmp_path):
    return write_recipe(tmp_path, training={"epochs": 3})


def test_from_a_recipe_to_a_model(recipe, tmp_path, capsys):
    assert run("train", recipe, "training.epochs=2", f"data.test={tmp_path / 'dev.jsonl'}", "--device", "cpu") == 0
    told = capsys.readouterr().out.splitlines()
    # What was found in the data, a line for each evaluation and each epoch, the table, and where the model is.
    assert told[0] == "preflight:"
    assert "6 x sentence" in told[1]
    assert [line.split("  ")[1] for line in told if line.startswith("epoch")] == ["step 3/6", "step 6/6"]
    assert sum("RE strict, directed, micro" in line for line in told) == 2
    assert told[-1] == f"The model is in {tmp_path / 'run'}/best"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["recipe"]["training"]["epochs"] == 2
    shown = next(line for line in told if "NER, micro" in line)
    assert f"{100 * summary['dev']['ner']['micro']['f1']:.1f}" in shown


def test_a_model_that_finds_nothing_right_says_so(recipe, tmp_path, capsys):
    still = "training.learning_rate=0", "training.encoder_learning_rate=0", "model.thresholds.entity=0.9"
    assert run("train", recipe, "training.epochs=1", *still, "--device", "cpu") == 0
    sentence, where = capsys.readouterr().out.splitlines()[-2:]
    assert sentence.startswith("Nothing that was predicted on dev is right; train longer")
    assert where == f"The model is in {tmp_path / 'run'}/best"
    assert run("train", recipe, "--device", "cpu", "--overwrite") == 0
    assert "Nothing that was predicted" not in capsys.readouterr().out


def test_without_dev_and_test_there_is_no_table(recipe, tmp_path, capsys):
    given = "train", recipe, "data.dev=null", "training.evaluate_steps=null", "training.epochs=1", "--device", "cpu"
    for options in ([], ["--seeds", 2, f"output={tmp_path / 'seeds'}"]):
        assert run(*given, *options) == 0
        told = capsys.readouterr().out
        assert "protocol" not in told
        assert told.splitlines()[-2].startswith("There are no scores, because there are neither dev nor test documents")


def test_a_finished_run_says_so(recipe, capsys):
    run("train", recipe, "--device", "cpu")
    told = capsys.readouterr().out
    assert run("train", recipe, "--device", "cpu", "--resume") == 0
    again = capsys.readouterr().out
    assert "is finished; there is nothing to resume." in again
    assert told[told.index("┏") :] == again[again.index("┏") :]
    assert "there is a run in" in failure(capsys, "train", recipe, "--device", "cpu")
    both = failure(capsys, "train", recipe, "--device", "cpu", "--resume", "--overwrite")
    assert "--resume and --overwrite were both given" in both
    changed = failure(capsys, "train", recipe, "training.epochs=4", "--resume")
    assert "was started with training.epochs=3, and is to be resumed with training.epochs=4" in changed
    data = recipe.parent / "train.jsonl"
    kept = data.read_bytes()
    data.write_bytes(kept + kept.splitlines(keepends=True)[0])
    assert "train.jsonl', has changed since the run was started" in failure(capsys, "train", recipe, "--resume")
    data.write_bytes(kept)
    assert run("train", recipe, "--device", "cpu", "--overwrite") == 0


@pytest.mark.slow
def test_seeds(recipe, tmp_path, capsys):
    assert run("train", recipe, "--seeds", 2, "--device", "cpu") == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("Seed")] == ["Seed 0:", "Seed 1:"]
    assert "mean ± standard deviation over 2 seeds" in told
    assert told.splitlines()[-1] == f"The model is in {tmp_path / 'run'}/seed-N/best"
    assert (tmp_path / "run" / "seeds.json").is_file()
    # As if the second one had been killed after its last state.
    (tmp_path / "run" / "seed-1" / "summary.json").unlink()
    before = (tmp_path / "run" / "seed-0" / "summary.json").stat().st_mtime_ns
    assert run("train", recipe, "--seeds", 2, "--device", "cpu", "--resume") == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("Seed")] == ["Seed 1:"]
    assert "Resuming after step 8 of 9." in told
    assert (tmp_path / "run" / "seed-0" / "summary.json").stat().st_mtime_ns == before
    assert "already; go on with it by --resume" in failure(capsys, "train", recipe, "--seeds", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["training.epoch=3"], "Did you mean 'training.epochs'?"),
        (["epochs"], "is not of the form key=value"),
        (["data.dev=no.jsonl"], "data.dev is 'no.jsonl', which does not exist"),
        (["training.trackers=[wandbb]"], "Did you mean 'wandb'?"),
        (["--device", "tpu9"], "there is no device 'tpu9'"),
        (["--device", "mps"], "the device 'mps' was asked for, which nothing here runs on; give auto, cpu, cuda or"),
        (["--seeds", "0"], "--seeds is 0; give a number at least 1"),
    ],
)
def test_failures_are_one_sentence(recipe, capsys, arguments, message):
    assert message in failure(capsys, "train", recipe, *arguments)


def test_no_recipe(tmp_path, capsys):
    assert "there is no recipe" in failure(capsys, "train", tmp_path / "x.yaml")


def test_help_imports_no_torch():
    text, modules = output_and_modules("train", "--help")
    assert "RECIPE" in text
    assert not modules & {"torch", "transformers", "numpy", "accelerate"}


@pytest.mark.parametrize("module", ["cascade_srn", "cascade_srn.cli"])
def test_as_a_module(module):
    shown = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("cascade-srn ")


@pytest.mark.slow
def test_seeds_side_by_side_are_those_one_after_the_other(recipe, tmp_path, capsys):
    assert run("train", recipe, "--seeds", 2, f"output={tmp_path / 'run-a'}", "--device", "cpu") == 0
    one_by_one = capsys.readouterr().out
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, f"output={tmp_path / 'run-b'}", "--device", "cpu") == 0
    at_once = capsys.readouterr().out
    assert "2 runs, 2 at a time" in at_once
    assert one_by_one[one_by_one.index("┏") :].replace("run-a", "run-b") == at_once[at_once.index("┏") :]
    written = [json.loads((tmp_path / f"run-{k}" / "seeds.json").read_text(encoding="utf-8")) for k in "ab"]
    assert written[0]["dev"] == written[1]["dev"]
    assert "epoch 3/3" in (tmp_path / "run-b" / "seed-1.log").read_text(encoding="utf-8")
    # Those that are finished are left out.
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, f"output={tmp_path / 'run-b'}", "--resume") == 0
    assert "0 runs" in capsys.readouterr().out


@pytest.mark.slow
def test_seeds_that_fail_side_by_side_say_why(recipe, tmp_path, capsys):
    given = "train", recipe, "--seeds", 2, "--jobs", 2, "--device", "cpu"
    assert run(*given, f"model.encoder.name={tmp_path / 'nowhere'}", "fresh=null") == 2
    told = capsys.readouterr().err
    assert told.startswith("Error: 2 of 2 runs failed, seed-")
    assert "with exit code 2 (Error: there is no tokenizer in" in told
    assert told.endswith("); mend that and go on with --resume\n")


def test_jobs_are_for_seeds(recipe, capsys):
    assert "--jobs 3 was given without --seeds" in failure(capsys, "train", recipe, "--jobs", 3)


def test_a_run_that_another_process_is_at(recipe, tmp_path, capsys):
    """As they are really started: the second one is refused, and when the first is killed it goes on."""
    with held_elsewhere(tmp_path / "run") as other:
        for options in ([], ["--resume"], ["--overwrite"], ["--seeds", 2], ["--seeds", 2, "--jobs", 2]):
            told = failure(capsys, "train", recipe, "--device", "cpu", *options)
            assert f"another process (pid {other.pid} on " in told
            assert f"is writing into '{tmp_path / 'run'}'; wait until it has ended, or give another folder" in told
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".cascade-srn.lock"]
        other.kill()
        other.wait()
        assert run("train", recipe, "training.epochs=1", "--device", "cpu", "--resume") == 0
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.slow
def test_two_trainings_at_once(recipe, tmp_path, capsys):
    """The first is one as users start it, and is killed in the middle of its work."""
    first = start("train", recipe, "training.epochs=100000", "--device", "cpu", stdout=subprocess.DEVNULL)
    try:
        while first.poll() is None and not (tmp_path / "run" / "log.jsonl").is_file():
            time.sleep(0.05)
        told = failure(capsys, "train", recipe, "training.epochs=1", "--device", "cpu", "--overwrite")
        assert f"another process (pid {first.pid} on " in told
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    assert (tmp_path / "run" / ".cascade-srn.lock").is_file()
    assert run("train", recipe, "training.epochs=1", "--device", "cpu", "--overwrite") == 0
    assert not list((tmp_path / "run").glob(".*"))


def test_a_seed_that_several_seeds_would_not_heed(recipe, capsys):
    told = failure(capsys, "train", recipe, "training.seed=5", "--seeds", 2)
    assert "training.seed is 5" in told


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_it_says_where_and_how_to_go_on(recipe, tmp_path, number, code):
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    command = "train", recipe, "training.epochs=100000", "--device", "cpu"
    running = start(*command, **pipes, preexec_fn=heed_interrupts)
    while running.poll() is None and not (tmp_path / "run" / "last" / "state.json").is_file():
        time.sleep(0.05)
    running.send_signal(number)
    told = running.communicate()[1].splitlines()[-1]
    assert running.returncode == code
    assert told.startswith("Stopped at step ")
    assert told.endswith(
        f" of 300000; the best model so far is in {tmp_path}/run/best; go on with the same command and --resume"
    )


def _interrupted(monkeypatch, capsys, at, *arguments):
    """What is said when Ctrl-C is pressed as something is to be shown for the n-th time."""
    shown = []

    def progress(self, progress):
        shown.append(progress)
        if len(shown) == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Display, "progress", progress)
        assert run("train", *arguments, "--device", "cpu") == 130
    (told,) = capsys.readouterr().err.splitlines()
    return told


def test_stopped_before_there_is_a_state_or_a_model(recipe, tmp_path, monkeypatch, capsys):
    told = _interrupted(monkeypatch, capsys, 2, recipe)
    assert told == (
        f"Stopped at step 2 of 9; there is no model in {tmp_path}/run yet; no state to go on from was saved yet "
        "(training.save_every), so that the same command and --resume begin it anew"
    )
    told = _interrupted(monkeypatch, capsys, 5, recipe, "training.save_steps=null", "--overwrite")
    assert f"Stopped at step 5 of 9; the best model so far is in {tmp_path}/run/best; no state to go on" in told
    assert "so that the same command and --resume in the place of --overwrite begin it anew" in told
    assert run("train", recipe, "training.save_steps=null", "--device", "cpu", "--resume") == 0


def test_stopped_before_the_first_step(recipe, tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("cascade_srn.training.run.read_corpus", interrupt)
    assert run("train", recipe, "--device", "cpu") == 130
    assert capsys.readouterr().err == f"Stopped before the first step; there is nothing new in {tmp_path}/run\n"


def test_stopped_among_several_seeds(recipe, tmp_path, monkeypatch, capsys):
    told = _interrupted(monkeypatch, capsys, 9 + 6, recipe, "--seeds", 2)
    assert told == (
        f"Stopped at step 6 of 9; the best model so far is in {tmp_path}/run/seed-1/best; go on with the same command "
        "and --resume"
    )
    assert run("train", recipe, "--seeds", 2, "--device", "cpu", "--resume") == 0
    assert "Resuming after step 4 of 9." in capsys.readouterr().out


def test_stopped_while_runs_go_side_by_side(recipe, tmp_path, monkeypatch, capsys):
    def interrupted(commands, n_jobs, folder):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("cascade_srn.runs.parallel.run_parallel", interrupted)
    assert run("train", recipe, "--seeds", 2, "--jobs", 2, "--device", "cpu") == 130
    assert capsys.readouterr().err == (
        f"Stopped; what there is of the runs is in {tmp_path}/run; go on with the same command and --resume\n"
    )
