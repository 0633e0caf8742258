"""A reproduction of one table with two variants and two seeds, and repeated runs."""

import io
import json
import shutil

import pytest
from rich.console import Console
from tests.formats.other_processes import held_elsewhere
from tests.training.runs import write_recipe

from cascade_srn.errors import ConfigError, ModelError, TrainingError
from cascade_srn.formats.registry import write_documents
from cascade_srn.lab.reproduction.options import ReproduceOptions
from cascade_srn.lab.reproduction.plan import Plan
from cascade_srn.lab.reproduction.run import reproduce
from cascade_srn.training.run_folder import SUMMARY

pytestmark = pytest.mark.slow


def _options(folder, **given):
    small = ("model.hidden_width=12", "training.epochs=6", "training.corruption=0")
    chosen = {
        "tables": ("encoder",),
        "recipe": str(folder / "recipe.yaml"),
        "output": str(folder / "out"),
        "n_seeds": 2,
        "n_resamples": 100,
        "repeats": 1,
        "changes": small,
        "device": "cpu",
    }
    return ReproduceOptions.create(**{**chosen, **given})


def _reproduce(folder, **given):
    """Return the results and the lines of output."""
    output = io.StringIO()
    console = Console(file=output, width=200)
    return reproduce(Plan.of(_options(folder, **given)), console=console, command="cascade-srn reproduce encoder"), (
        output.getvalue().splitlines()
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    write_recipe(folder, data={"test": str(folder / "test.jsonl")})
    shutil.copy(folder / "dev.jsonl", folder / "test.jsonl")
    return folder, *_reproduce(folder)


@pytest.fixture
def folder(made, tmp_path):
    """A copy that tests can change. The recipes keep the paths of the data."""
    shutil.copytree(made[0] / "out", tmp_path / "out")
    shutil.copy(made[0] / "recipe.yaml", tmp_path)
    return tmp_path


def _summary(folder, variant, seed):
    return json.loads((folder / "out" / "runs" / variant / f"seed-{seed}" / SUMMARY).read_text(encoding="utf-8"))


def test_figures_equal_the_summaries_of_the_runs(made):
    folder, (result,), lines = made
    for variant in ("pfn", "table-srn"):
        for column, task in (("ner", "ner"), ("re", "re_strict"), ("boundaries", "re_boundaries")):
            expected = [_summary(folder, variant, seed)["test"][task]["micro"]["f1"] for seed in (0, 1)]
            assert result.figures[variant][column].values == pytest.approx(tuple(expected))
    assert any(result.figures[variant]["ner"].mean > 0 for variant in result.figures)
    assert [line.partition(":")[0] for line in lines[:4]] == [
        f"{variant}-seed-{seed} ({number} of 4)"
        for number, (variant, seed) in enumerate([(v, s) for v in ("pfn", "table-srn") for s in (0, 1)], start=1)
    ]
    assert lines[4:] == ["4 runs trained", "4 runs predicted and counted"]


def test_written_files(made):
    folder, (result,), _ = made
    out = folder / "out"
    record = json.loads((out / "encoder.json").read_text(encoding="utf-8"))
    assert record == json.loads(json.dumps(result.to_dict()))
    assert set(record["about"]["recipes"]) == {"pfn", "table-srn"}
    assert str(folder) not in json.dumps(record)
    text = (out / "encoder.md").read_text(encoding="utf-8")
    assert str(folder) not in text
    assert text in (out / "results.md").read_text(encoding="utf-8")
    seeds = json.loads((out / "runs" / "pfn" / "seeds.json").read_text(encoding="utf-8"))
    assert (seeds["seeds"], seeds["command"]) == ([0, 1], "cascade-srn reproduce encoder")
    assert " model.method=pfn " in _summary(folder, "pfn", 0)["command"]


def test_finished_runs_are_not_repeated(made, folder):
    _, (before,), _ = made
    # The weights are no longer needed.
    for best in (folder / "out").rglob("best"):
        shutil.rmtree(best)
    (result,), lines = _reproduce(folder)
    assert lines == ["4 runs predicted and counted"]
    assert result.figures == before.figures
    assert result.verdicts == before.verdicts
    # With fewer seeds, the first ones are used.
    (fewer,), lines = _reproduce(folder, n_seeds=1)
    assert fewer.figures["pfn"]["ner"].values == before.figures["pfn"]["ner"].values[:1]
    assert json.loads((folder / "out" / "runs" / "pfn" / "seeds.json").read_text(encoding="utf-8"))["seeds"] == [0, 1]


def test_missing_run_is_trained(made, folder):
    _, (before,), _ = made
    shutil.rmtree(folder / "out" / "runs" / "table-srn" / "seed-1")
    kept = folder / "out" / "runs" / "table-srn" / "seed-0" / "best" / "model.safetensors"
    stamp = kept.stat().st_mtime_ns
    (result,), lines = _reproduce(folder)
    assert lines[0].startswith("table-srn-seed-1 (1 of 1): trained in")
    assert lines[1:] == ["1 run trained", "4 runs predicted and counted"]
    assert result.figures == before.figures
    assert kept.stat().st_mtime_ns == stamp


def test_stored_predictions_are_read(made, folder):
    _, (before,), _ = made
    (kept,) = (folder / "out" / "runs" / "pfn" / "seed-0").glob("test-*.jsonl")
    from cascade_srn.formats.registry import read_documents

    documents = [type(d)(d.text, tuple(s.annotated((), ()) for s in d.sentences), d.id) for d in read_documents(kept)]
    write_documents(documents, kept)
    (result,), _ = _reproduce(folder)
    assert result.figures["pfn"]["ner"].values == (0.0, before.figures["pfn"]["ner"].values[1])


def test_two_prediction_files_without_a_model(folder):
    run = folder / "out" / "runs" / "pfn" / "seed-0"
    (kept,) = run.glob("test-*.jsonl")
    shutil.copy(kept, kept.with_name(f"{kept.stem[:-12]}{'0' * 12}.jsonl"))
    shutil.rmtree(run / "best")
    with pytest.raises(ModelError, match="seed-0"):
        _reproduce(folder)


@pytest.mark.slow
def test_other_settings_need_new_predictions(made, folder):
    _, (before,), _ = made
    config = folder / "out" / "runs" / "pfn" / "seed-0" / "best" / "config.json"
    values = json.loads(config.read_text(encoding="utf-8"))
    values["model"]["thresholds"] |= {"entity": 1.0, "related": None}
    config.write_text(json.dumps(values), encoding="utf-8")
    (result,), _ = _reproduce(folder)
    assert result.figures["pfn"]["ner"].values == (0.0, before.figures["pfn"]["ner"].values[1])
    assert len(list(config.parents[1].glob("test-*.jsonl"))) == 2
    _reproduce(folder, precision="bf16")
    assert len(list(config.parents[1].glob("test-*.jsonl"))) == 3


def test_deleted_model_without_predictions(folder):
    run = folder / "out" / "runs" / "pfn" / "seed-1"
    shutil.rmtree(run / "best")
    for kept in run.glob("test-*.jsonl"):
        kept.unlink()
    with pytest.raises(ModelError, match="seed-1"):
        _reproduce(folder)


@pytest.mark.slow
def test_failed_run_does_not_stop_the_others(folder):
    for seed in (0, 1):
        shutil.rmtree(folder / "out" / "runs" / "table-srn" / f"seed-{seed}")
    # The first run fails, because a folder is in the place of its log.
    blocked = folder / "out" / "runs" / "table-srn" / "seed-0"
    blocked.mkdir()
    recipe = next(run for run in Plan.of(_options(folder)) if run.name == "table-srn-seed-0").recipe
    (blocked / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    (blocked / "log.jsonl").mkdir()
    with pytest.raises(TrainingError, match=r"1 of 2 runs .*table-srn-seed-0 "):
        _reproduce(folder, jobs=2)
    assert (folder / "out" / "runs" / "table-srn" / "seed-1" / SUMMARY).is_file()
    assert (folder / "out" / "logs" / "table-srn-seed-0.log").is_file()


@pytest.mark.parametrize("jobs", [1, 2])
def test_variant_that_another_process_trains(folder, jobs):
    seed = folder / "out" / "runs" / "table-srn" / "seed-1"
    shutil.rmtree(seed)
    for held in (seed.parent, seed):
        with held_elsewhere(held), pytest.raises(ConfigError, match=held.name):
            _reproduce(folder, jobs=jobs)
        assert not seed.exists()
