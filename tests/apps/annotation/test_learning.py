"""Training and suggestions of a project in a child process, and the parts of its work."""

import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.apps.annotation.projects import LABELS, make_project

from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.learning import (
    CANCELLED,
    DONE,
    FAILED,
    IDLE,
    Learner,
    current_model,
    describe_result,
    describe_uncertainty,
    read_curve,
)
from cascade_srn.apps.annotation.project import Project, ProjectSettings
from cascade_srn.apps.annotation.worker import ProjectWorker, restrict, score
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import DataError, TrainingError
from cascade_srn.formats.registry import write_schema
from cascade_srn.model.folder import model_checksum, read_precision
from cascade_srn.schema import Schema
from cascade_srn.training.defaults import FEWEST_STEPS, FEWEST_STEPS_TO_WAIT_FOR
from cascade_srn.types import Document, Sentence, Span, Triple

# Seconds for a child on a loaded machine.
PATIENCE = 300
METHOD, TASK = Span(1, 2, "Method"), Span(3, 4, "Task")


def make_documents(n, *, annotated=True):
    sentence = Sentence.from_words(
        ["a", "parser", "for", "parsing", "."], [METHOD, TASK], [Triple(METHOD, "USED-FOR", TASK)]
    )
    bare = sentence.annotated([], [])
    return [Document.from_sentences([sentence if annotated else bare] * 2, id=f"d{number}") for number in range(n)]


def test_a_label_that_the_project_lacks_is_not_suggested():
    document = make_documents(1)[0]
    assert restrict(document, LABELS.schema).relations == document.relations
    found = restrict(document, Schema(("Method",), ("USED-FOR",)))
    assert {entity.label for entity in found.entities} == {"Method"}
    assert found.relations == ()


def test_scores_have_intervals():
    gold = make_documents(6)
    found = score(gold, gold[:3] + make_documents(6, annotated=False)[3:], LABELS.schema)
    assert found["ner"] == found["re"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["ner_low"] < found["ner"] < found["ner_high"]
    assert (found["n_held_out"], found["n_held_out_documents"], found["unit"]) == (12, 6, "document")
    assert score(gold[:2], gold[:2], LABELS.schema)["unit"] == "sentence"


def test_without_held_out_documents_there_is_no_score():
    found = score([], [], LABELS.schema)
    assert (found["ner"], found["re"], found["n_held_out"]) == (None, None, 0)
    assert "no score" in describe_uncertainty([found])
    assert describe_uncertainty([]) == ""
    bare = make_documents(2, annotated=False)
    assert score(bare, bare, LABELS.schema)["ner"] is None


def test_there_must_be_something_to_learn_from(tmp_path):
    with make_project(tmp_path / "p", make_documents(4, annotated=False)) as project:
        learner = Learner(project)
        with pytest.raises(DataError):
            learner.start()
        project.save("d0", "anna", Annotation(0, "done"))
        with pytest.raises(DataError):
            learner.start()
        assert learner.status()["state"] == IDLE
        learner.close()


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    with make_project(tmp_path / "p", make_documents(4)) as project:
        finished, killed = (project.folder / "training" / f"run-0000{number}" for number in (1, 2))
        for folder in (finished, killed, project.folder / "suggestions"):
            folder.mkdir(parents=True)
        (finished / "result.json").write_text("{}")
        (project.folder / "suggestions" / "run-00002.jsonl").write_text("")
        Learner(project)
        assert finished.exists()
        assert not killed.exists()
        assert not (project.folder / "suggestions" / "run-00002.jsonl").exists()
        assert current_model(project) == str(finished / "run" / "best")


def test_a_model_that_finds_nothing_does_not_replace_one_that_does(tmp_path):
    with make_project(tmp_path / "p", make_documents(4)) as project:
        runs = [project.folder / "training" / f"run-0000{number}" for number in (1, 2, 3)]
        learner = Learner(project)
        for run, n_suggested, kept in zip(runs, (3, 0, 2), (runs[0], runs[0], runs[2]), strict=True):
            run.mkdir(parents=True)
            (run / "result.json").write_text(json.dumps({"n_suggested": n_suggested, "n_open": 7}))
            learner._keep(run)
            assert current_model(project) == str(kept / "run" / "best")
            assert ("finds nothing" in describe_result(read_curve(project)[-1])) is (n_suggested == 0)
        assert "3 of 7 open documents" in describe_result(read_curve(project)[0])


def test_the_page_says_how_many_more_annotations_help(tmp_path):
    with make_project(tmp_path / "p", make_documents(4, annotated=False)) as project:
        learner = Learner(project)
        assert "after 10 more sentences" in learner.status()["advice"]
        done = [id for id in project.documents if not project.is_held_out(id)][:2]
        for id in done:
            project.save(id, "anna", Annotation(0, "done"))
        advice = learner.status()["advice"]
        assert "2 annotated documents (4 sentences)" in advice
        assert "after 6 more sentences" in advice
        assert "no score" in advice


@pytest.fixture
def learning(tmp_path):
    """A project of annotated documents, whose model is small and new."""
    settings = ProjectSettings(epochs=2, encoder="fresh")
    with make_project(tmp_path / "p", make_documents(14), settings=settings) as project:
        learner = Learner(project)
        yield learner
        learner.close()


def wait(learner, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_training_scores_the_model_and_makes_suggestions(learning, tmp_path):
    project = learning.project
    learning.start()
    with pytest.raises(TrainingError):
        learning.start()
    assert learning.wait(PATIENCE)
    found = learning.status()
    assert (found["state"], "nothing to suggest" in found["message"]) == (DONE, True)
    (point,) = found["curve"]
    n_held_out = sum(map(project.is_held_out, project.documents))
    assert (point["n_documents"], point["n_held_out_documents"]) == (14 - n_held_out, n_held_out)
    assert point["ner_low"] <= point["ner"] <= point["ner_high"]
    learning.suggestions.refresh()
    assert len(learning.suggestions) == 14
    # Levels of precision are promised from the held-out documents.
    best = current_model(project)
    assert read_precision(Path(best)).n_documents == n_held_out
    assert {marks.model for marks in map(learning.suggestions.get, project.documents)} == {model_checksum(Path(best))}
    assert all(curve["measured"][-1][2] <= 1 for curve in found["precision_curves"])
    assert "precision_curves" not in point
    # Nothing that was held out is in the data of the run, and nothing names this machine.
    run = project.folder / "training" / point["run"]
    trained = {json.loads(line)["id"] for line in (run / "train.jsonl").read_text().splitlines()}
    assert not any(map(project.is_held_out, trained))
    for path in project.folder.rglob("*.json*"):
        assert str(tmp_path).encode() not in path.read_bytes()
    project.close()
    shutil.move(project.folder, tmp_path / "moved")
    with Project.open(tmp_path / "moved") as moved:
        again = Learner(moved)
        shutil.rmtree(moved.folder / "suggestions")
        again.suggest()
        assert again.wait(PATIENCE)
        again.suggestions.refresh()
        assert len(again.suggestions) == 14


@pytest.mark.slow
def test_cancelling_leaves_nothing_behind(learning):
    learning.project.settings = replace(learning.project.settings, epochs=2000)
    learning.start()
    wait(learning, lambda: learning.status()["epoch"] > 0)
    learning.cancel()
    assert learning.wait(PATIENCE)
    found = learning.status()
    assert (found["state"], found["curve"]) == (CANCELLED, [])
    assert list((learning.project.folder / "training").glob("run-*")) == []


@pytest.mark.slow
def test_a_child_ends_with_its_parent_and_a_kill_is_a_failure(learning):
    learning.project.settings = replace(learning.project.settings, epochs=2000)
    learning.start()
    wait(learning, lambda: learning.status()["epoch"] > 0)
    learning._child.stdin.close()  # as the system does when the parent dies
    assert learning.wait(PATIENCE)
    assert learning.status()["state"] == FAILED
    learning.start()
    os.kill(learning._child.pid, signal.SIGKILL)
    assert learning.wait(PATIENCE)
    assert learning.status()["state"] == FAILED
    assert list((learning.project.folder / "training").glob("run-*")) == []


@pytest.mark.slow
def test_open_documents_are_raw_text(learning):
    project = learning.project
    with pytest.raises(DataError):
        learning.start(raw=True)  # all documents are done
    project.add_documents(
        Document.from_text(f"Tagger {number} reads old papers.", id=f"open-{number}") for number in range(14)
    )
    learning.start(raw=True)
    assert learning.wait(PATIENCE)
    found = learning.status()
    assert found["state"] == DONE, found["message"]
    assert "adapted: skipped" in found["message"]
    run = project.folder / "training" / found["curve"][-1]["run"]
    raw = {json.loads(line)["id"] for line in (run / "raw.jsonl").read_text().splitlines()}
    assert raw == {id for id in project.documents if id.startswith("open-") and not project.is_held_out(id)}
    assert current_model(project) == str(run / "run" / "best")


def test_stages_are_described():
    stages = [
        {"name": "annotations", "ner": 0.4, "re_strict": 0.1, "kept": True, "skipped": ""},
        {"name": "adapted", "ner": None, "re_strict": None, "kept": False, "skipped": "9 words are too few"},
        {"name": "labelled", "ner": 0.45, "re_strict": 0.2, "kept": True, "skipped": ""},
    ]
    message = describe_result({"n_suggested": 1, "n_open": 2, "stages": stages})
    assert "adapted: skipped, 9 words are too few; labelled: kept (45.0 / 20.0)." in message


def chosen_training(project, encoder, model=None, schema=LABELS.schema):
    """Return the settings that the rule chooses for five documents of a project."""
    run = project / "training" / "run-00001"
    run.mkdir(parents=True)
    job = {"kind": "train", "raw": None, "model": model, "encoder": encoder, "epochs": None, "seed": 0}
    (run / "job.json").write_text(json.dumps(job))
    write_schema(schema, run / "schema.json")
    return ProjectWorker(run).recipe(make_documents(5)).training


def test_the_rates_follow_the_width_of_the_encoder(tmp_path):
    rates = []
    for width in (32, 768):
        encoder = create_encoder(["a"], tmp_path / f"encoder-{width}", width=width, n_layers=1, n_heads=2)
        rates.append(chosen_training(tmp_path / f"p{width}", str(encoder)).encoder_learning_rate)
    assert rates[0] > rates[1]


def test_a_person_waits_for_fewer_steps(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    fresh = chosen_training(tmp_path / "fresh", "fresh")
    trained = chosen_training(tmp_path / "trained", "fresh", "scierc-small")
    # The documents are three batches.
    assert 3 * fresh.epochs == FEWEST_STEPS
    assert FEWEST_STEPS_TO_WAIT_FOR <= 3 * trained.epochs < FEWEST_STEPS_TO_WAIT_FOR + 3


def test_new_labels_learn_faster_than_those_of_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    same = chosen_training(tmp_path / "same", "fresh", "scierc-small")
    new = chosen_training(tmp_path / "new", "fresh", "scierc-small", Schema(("Party", "Duty", "Method")))
    assert same.label_learning_rate is None
    assert new.label_learning_rate > new.learning_rate == same.learning_rate


def test_random_embeddings_learn(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    fresh = chosen_training(tmp_path / "fresh", "fresh")
    trained = chosen_training(tmp_path / "trained", "fresh", "scierc-small")
    assert trained.frozen > fresh.frozen == 0
