"""A whole run: the contents of its folder, and the errors before the first step."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.formats.other_processes import can_hold, held_elsewhere
from tests.training.runs import small_recipe
from tests.twelve_sentences import DOCUMENTS

from cascade_srn import Extractor, read_documents
from cascade_srn.config import EncoderSettings, ModelSettings, Temperatures
from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError
from cascade_srn.evaluation.calibration.calibrate import SLACK
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.formats.registry import write_documents
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.storage.files import checksum
from cascade_srn.training.loop import evaluate
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run import Run, limit_length
from cascade_srn.types import Document, Sentence, Span

COMMAND = "cascade-srn train recipe.yaml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with a test split and TensorBoard."""
    folder = tmp_path_factory.mktemp("finished")
    write_documents(DOCUMENTS[3:], folder / "test.jsonl")
    recipe = small_recipe(
        folder, data={"test": str(folder / "test.jsonl")}, training={"trackers": ["tensorboard"], "log_steps": 2}
    )
    run = Run(recipe, device="cpu", command=COMMAND)
    run.reports = list(run)
    return run


def _json(run, name):
    return json.loads((run.folder.path / name).read_text(encoding="utf-8"))


class TestFolder:
    def test_everything_is_there(self, finished):
        assert sorted(path.name for path in finished.folder.path.iterdir()) == [
            "best", "curves.png", "data.json", "environment.json", "last", "log.jsonl", "preflight.json",
            "recipe.yaml", "summary.json", "tensorboard",
        ]  # fmt: skip

    def test_the_recipe_is_resolved(self, finished):
        assert load_recipe(finished.folder.path / "recipe.yaml") == finished.recipe

    def test_the_data_are_known_by_their_checksums(self, finished):
        data = _json(finished, "data.json")
        for split in ("train", "dev", "test"):
            path = getattr(finished.recipe.data, split)
            assert data[split]["path"] == path
            assert data[split]["sha256"] == checksum(finished.folder.path.parent / f"{split}.jsonl")
        assert (data["train"]["sentences"], data["train"]["entities"], data["train"]["relations"]) == (12, 26, 12)

    def test_the_environment(self, finished):
        environment = _json(finished, "environment.json")
        assert environment["packages"]["torch"] == torch.__version__
        assert environment["device"] == "cpu"
        assert environment["threads"] == torch.get_num_threads()
        assert environment["processes"] == 1

    def test_the_log_has_a_line_for_each_report(self, finished):
        lines = finished.folder.read_log()
        assert lines == [progress.to_dict() for progress in finished.reports]
        # Ten epochs of three steps: every second step, every third for an evaluation, and the ends of epochs.
        assert [line["step"] for line in lines] == [n for n in range(1, 31) if n % 2 == 0 or n % 3 == 0]

    def test_the_best_model_is_the_one_that_did_best_on_dev(self, finished):
        best = max(
            line["dev"]["ner"] + line["dev"]["re_strict"] for line in finished.folder.read_log() if "dev" in line
        )
        model = Model.load(finished.folder.best)
        dev = examples_of(finished.corpus.dev)
        thresholds = finished.recipe.model.thresholds
        as_trained = replace(model.settings, thresholds=thresholds, temperatures=Temperatures())
        scores = evaluate(replace(model, settings=as_trained), dev, overlaps="all")
        calibrated = evaluate(model, dev, overlaps="all")
        assert scores.ner.counts.f1 + scores.re_strict.counts.f1 == best > 0.5
        assert calibrated.ner.counts.f1 + calibrated.re_strict.counts.f1 >= best - SLACK
        assert model.settings.encoder.name == "fresh"
        assert Extractor.from_pretrained(finished.folder.best).extract("Ada Berg leads Norlux.").text

    def test_the_summary(self, finished):
        summary = _json(finished, "summary.json")
        assert summary["command"] == COMMAND
        assert summary["seed"] == 0
        extractor = Extractor.from_pretrained(finished.folder.best)
        for split in ("dev", "test"):
            documents = list(read_documents(getattr(finished.recipe.data, split)))
            scores = score_documents(documents, extractor.predict(documents), schema=extractor.schema)
            assert summary[split] == scores.to_dict()
        best = [progress.step for progress in finished.reports if progress.best]
        assert summary["best_step"] == best[-1]
        assert (summary["steps"], summary["epochs"]) == (30, 10)
        assert summary["seconds"] == pytest.approx(finished.reports[-1].seconds, abs=0.1)
        assert summary["data"]["test"]["sentences"] == 9

    def test_the_summary_names_no_folder_of_this_machine(self, finished):
        text = (finished.folder.path / "summary.json").read_text(encoding="utf-8")
        assert str(finished.folder.path.parent) not in text
        assert json.loads(text)["recipe"]["data"]["train"] == "…/train.jsonl"

    def test_curves_and_tensorboard(self, finished):
        assert (finished.folder.path / "curves.png").read_bytes().startswith(b"\x89PNG")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(finished.folder.path / "tensorboard" / "cascade-srn")).Reload()
        lines = finished.folder.read_log()
        assert [e.step for e in events.Scalars("loss")] == [line["step"] for line in lines]
        shown = [e.value for e in events.Scalars("dev/ner")]
        assert shown == pytest.approx([line["dev"]["ner"] for line in lines if "dev" in line])


class TestOptions:
    def test_without_dev_the_last_weights_are_kept(self, tmp_path):
        run = Run(small_recipe(tmp_path, data={"dev": None}, training={"epochs": 2}), device="cpu", command="x")
        list(run)
        weights = Model.load(run.folder.best).cascade.state_dict()
        for name, value in run.loop.averaged.state().items():
            assert torch.equal(weights[name], value)
        summary = _json(run, "summary.json")
        assert "dev" not in summary
        assert summary["best_step"] == summary["steps"] == 6

    def test_the_seed_decides_what_a_model_starts_from(self, tmp_path):
        starts = []
        for seed in (0, 0, 1):
            recipe = small_recipe(tmp_path, training={"seed": seed})
            run = Run(recipe, device="cpu", overwrite=True, command="x")
            starts.append(run.model.cascade.state_dict())
        assert all(torch.equal(value, starts[1][name]) for name, value in starts[0].items())
        assert any(not torch.equal(value, starts[2][name]) for name, value in starts[0].items())

    def test_without_matplotlib_there_are_no_curves(self, tmp_path, monkeypatch):
        monkeypatch.setattr("cascade_srn.training.run.can_draw", lambda: False)
        run = Run(small_recipe(tmp_path, training={"epochs": 1}), device="cpu", command="x")
        with pytest.warns(UserWarning, match=r"matplotlib.* 'cascade-srn\[report\]'"):
            list(run)
        assert not (tmp_path / "run" / "curves.png").exists()
        assert (tmp_path / "run" / "summary.json").is_file()


def _untouched(folder):
    return not folder.exists() or not list(folder.iterdir())


class TestRefusals:
    def _refused(self, tmp_path, error, message, **changes):
        options = changes.pop("options", {"device": "cpu"})
        with pytest.raises(error, match=message):
            Run(small_recipe(tmp_path, **changes), command="x", **options)
        assert _untouched(tmp_path / "run")

    @pytest.mark.parametrize(
        ("error", "message", "changes"),
        [
            (DataError, "data.test is 'no.json'", {"data": {"test": "no.json"}}),
            (ModelError, "'./nowhere'", {"model": {"encoder": {"name": "./nowhere"}}, "fresh": None}),
            (ConfigError, "'tensorbord'.*'tensorboard'", {"training": {"trackers": ["tensorbord"]}}),
            (ConfigError, "'gpu'", {"options": {"device": "gpu"}}),
        ],
    )
    def test_names_that_do_not_exist(self, tmp_path, error, message, changes):
        self._refused(tmp_path, error, message, **changes)

    def test_nothing_to_learn_from(self, tmp_path):
        (tmp_path / "none.jsonl").write_text('{"id": "d", "text": "", "words": [[]]}\n', encoding="utf-8")
        schema = {"entity_types": ["Person"]}
        (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
        data = {
            "train": str(tmp_path / "none.jsonl"),
            "dev": None,
            "symmetric": [],
            "schema": str(tmp_path / "schema.json"),
        }
        self._refused(tmp_path, DataError, "data.train, .*none.jsonl", data=data)

    def test_a_label_that_the_schema_lacks(self, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps({"entity_types": ["Person", "Place"]}), encoding="utf-8")
        data = {"symmetric": [], "schema": str(tmp_path / "schema.json")}
        self._refused(tmp_path, SchemaError, "data.train, document '0', sentence 0 .*'Organization'", data=data)

    def test_data_that_changed_since_the_run_was_begun(self, tmp_path):
        recipe = small_recipe(tmp_path)
        next(iter(Run(recipe, device="cpu", command="x")))
        write_documents(DOCUMENTS[:5], tmp_path / "dev.jsonl")
        with pytest.raises(DataError, match="data.dev, .*dev.jsonl"):
            Run(recipe, resume=True, device="cpu", command="x")


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_first_batch_is_tried_before_the_folder_is_touched(tmp_path, overwrite):
    recipe = small_recipe(tmp_path, training={"epochs": 1})
    if overwrite:
        for _ in Run(recipe, device="cpu", command="x"):
            pass
    before = {path: path.read_bytes() for path in Path(recipe.output).rglob("*") if path.is_file()}
    assert bool(before) == overwrite
    training = replace(recipe.training, negatives=0.5, corruption=0.0)
    wrong = replace(recipe, model=replace(recipe.model, method="pfn"), training=training)
    with pytest.raises(ConfigError, match="negatives is 0.5.*'pfn'"):
        Run(wrong, device="cpu", overwrite=overwrite, command="x")
    assert before == {path: path.read_bytes() for path in Path(recipe.output).rglob("*") if path.is_file()}


@pytest.mark.slow
class TestOneProcessAtATime:
    @pytest.mark.slow
    def test_the_folder_of_a_run_in_another_process_is_not_touched(self, tmp_path):
        recipe = small_recipe(tmp_path, training={"epochs": 1})
        list(Run(recipe, device="cpu", command="x"))
        folder = Path(recipe.output)
        with held_elsewhere(folder) as other:
            before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for options in ({}, {"resume": True}, {"overwrite": True}):
                with pytest.raises(ConfigError, match=rf"pid {other.pid} on .*run'"):
                    Run(recipe, device="cpu", command="x", **options)
            assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            other.kill()
            other.wait()
            # The lock of a killed process is void, and its file is ignored.
            list(Run(recipe, device="cpu", command="x", overwrite=True))
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]

    def test_the_folder_is_locked_until_the_run_is_finished(self, tmp_path):
        recipe = small_recipe(tmp_path, training={"epochs": 1})
        run = Run(recipe, device="cpu", command="x")
        assert not can_hold(recipe.output)
        for progress in run:
            # Each look takes a new process.
            assert not (progress.finished and can_hold(recipe.output))
        assert can_hold(recipe.output)


@pytest.mark.parametrize(("longest", "limit"), [(1, 10), (9, 11), (13, 15), (40, 46)])
def test_a_model_finds_no_entities_that_are_much_longer_than_the_annotated_ones(longest, limit):
    sentence = Sentence.from_words(["w"] * 50, [Span(0, 1, "A"), Span(2, 2 + longest, "A")])
    settings = ModelSettings(EncoderSettings("fresh"))
    limited = limit_length(settings, [Document.from_sentences([sentence])])
    assert limited.limits.entity_words == limit
    given = replace(settings, limits=replace(settings.limits, entity_words=7))
    assert limit_length(given, [Document.from_sentences([sentence])]) == given
