"""Judgements of suggestions from stored annotations, as the file of calibrate --reviewed."""

import json
from dataclasses import replace

import pytest
from tests.apps.annotation.projects import FIRST, MARKED, SECOND, make_project
from tests.cli.conftest import run

from cascade_srn.apps.annotation.annotations import Annotation, EntityMark
from cascade_srn.apps.annotation.exchange import export_bytes, file_name
from cascade_srn.apps.annotation.learning import BEST, TRAIN
from cascade_srn.apps.annotation.review import judge
from cascade_srn.apps.annotation.suggestions import SuggestedMarks, suggestion_line
from cascade_srn.errors import DataError
from cascade_srn.formats.registry import write_documents
from cascade_srn.model.folder import model_checksum
from cascade_srn.storage.bundled import find_model
from cascade_srn.types import Span, Triple

TRAIN_WORD, CRF, TAGGING = Span(1, 2, "Task", 0.3), Span(3, 4, "Method", 0.9), Span(5, 6, "Task", 0.5)
# What MARKED has, and an entity with a relation that it has not.
FOUND = FIRST.sentences[0].annotated(
    [TRAIN_WORD, CRF, TAGGING], [Triple(CRF, "USED-FOR", TAGGING, 0.4), Triple(TRAIN_WORD, "USED-FOR", TAGGING, 0.2)]
)
SUGGESTED = replace(FIRST, sentences=(FOUND, *FIRST.sentences[1:]))


@pytest.fixture
def project(tmp_path):
    """A project with suggestions in two documents. One is done, the other is started."""
    with make_project(tmp_path / "p", model="scierc-small") as made:
        made.save("a/b", "anna", MARKED)
        made.save("c", "anna", Annotation(0, "started"))
        (made.folder / "suggestions").mkdir()
        suggest(made, model_checksum(find_model()))
        yield made


def suggest(project, model):
    path = project.folder / "suggestions" / "run-00001.jsonl"
    path.write_bytes(suggestion_line(SUGGESTED, model) + suggestion_line(SECOND, model))


def test_suggestions_are_right_if_the_annotation_has_them(project, tmp_path, capsys):
    content = export_bytes(project, "review")
    (record,) = map(json.loads, content.splitlines())
    assert (record["id"], record["model"]) == ("a/b", model_checksum(find_model()))
    assert [(one["label"], one["score"], one["correct"]) for one in record["entities"]] == [
        ("Task", 0.3, False), ("Method", 0.9, True), ("Task", 0.5, True)
    ]  # fmt: skip
    assert [(one["head"], one["tail"], one["score"], one["correct"]) for one in record["relations"]] == [
        (1, 2, 0.4, True), (0, 2, 0.2, False)
    ]  # fmt: skip
    path = tmp_path / file_name(project, "review")
    path.write_bytes(content)
    assert path.name == "p-review.jsonl"
    assert run("calibrate", "scierc-small", path, "--reviewed", "--output", tmp_path / "new") == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 of 3 entities are right; no precision can be promised",
        "1 of 2 relations are right; no precision can be promised",
    ]


def test_a_symmetric_relation_is_right_in_both_directions():
    labels = ("USED-FOR", "COMPARE")
    gold = FOUND.annotated(FOUND.entities, [Triple(CRF, label, TAGGING) for label in labels])
    places = ((3, 8, "Task"), (11, 14, "Method"), (19, 26, "Task"))
    entities = [{"id": f"s{n}", "start": a, "end": b, "label": c} for n, (a, b, c) in enumerate(places)]
    relations = [{"head": "s2", "tail": "s1", "label": label, "score": 0.5} for label in labels]
    document = replace(FIRST, sentences=(gold, *FIRST.sentences[1:]))
    found = judge(SuggestedMarks(tuple(entities), tuple(relations)), document, {"COMPARE"})
    assert [one["correct"] for one in found["entities"]] == [True, True, True]
    assert [one["correct"] for one in found["relations"]] == [False, True]


def test_other_models_and_what_was_learned_are_left_out(project, tmp_path, capsys):
    suggest(project, "0" * 64)
    with pytest.raises(DataError, match="current model"):
        export_bytes(project, "review")
    # A model of the project has learned from one of two documents.
    best = project.folder / "training" / "run-00001" / BEST
    best.mkdir(parents=True)
    (best / "config.json").write_text("{}")
    (best.parents[1] / "result.json").write_text("{}")
    write_documents([FIRST], best.parents[1] / TRAIN, "jsonl")
    suggest(project, model_checksum(best))
    with pytest.raises(DataError, match="learned from"):
        export_bytes(project, "review")
    project.save("c", "ben", Annotation(0, "done", entities=(EntityMark("e1", 0, 7, "Task"),)))
    (record,) = map(json.loads, export_bytes(project, "review").splitlines())
    assert (record["id"], record["entities"]) == ("c", [])
    project.close()
    assert run("project", "export", project.folder, tmp_path / "x.jsonl", "--to", "review", "--unfinished") == 2
    assert "--unfinished" in capsys.readouterr().err
    assert run("project", "export", project.folder, tmp_path / "x.jsonl", "--to", "review") == 0
    assert "1 documents" in capsys.readouterr().out


def test_without_a_model_nothing_is_judged(tmp_path):
    with make_project(tmp_path / "p") as made, pytest.raises(DataError, match="no model"):
        export_bytes(made, "review")
