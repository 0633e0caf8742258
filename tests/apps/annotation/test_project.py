"""Projects: creation, versions, reopening, moving and held-out documents."""

import json
import shutil
import threading
from dataclasses import replace

import pytest
from tests.apps.annotation.projects import CRF, FIRST, LABELS, MARKED, SECOND, TAGGING, USED_FOR, make_project

from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, RelationMark
from cascade_srn.apps.annotation.files import LOG
from cascade_srn.apps.annotation.project import ADJUDICATED, OutdatedAnnotation, Project, ProjectSettings
from cascade_srn.errors import AnnotationError, CascadeError, ConfigError, DataError, SchemaError
from cascade_srn.types import Document, Sentence, Span


@pytest.fixture
def project(tmp_path):
    with make_project(tmp_path / "p", guidelines="# Rules") as made:
        yield made


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A project to which nothing is saved."""
    with make_project(tmp_path_factory.mktemp("refusing") / "p") as made:
        yield made
        assert made.annotators == []


def test_a_project_is_reopened_as_it_was(project, tmp_path):
    saved = project.save("a/b", "anna", MARKED)
    project.close()
    with Project.open(tmp_path / "p") as again:
        assert list(again.documents.values()) == [FIRST, SECOND]
        assert again.annotation("a/b", "anna") == saved == replace(MARKED, version=1)
        assert (again.name, again.labels, again.guidelines) == ("p", LABELS, "# Rules")


def test_a_project_survives_moving(project, tmp_path):
    project.save("a/b", "anna", MARKED)
    project.close()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "p", tmp_path / "elsewhere" / "q")
    with Project.open(tmp_path / "elsewhere" / "q") as moved:
        assert moved.annotation("a/b", "anna").entities == MARKED.entities
    for path in (tmp_path / "elsewhere" / "q").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes()


def test_a_change_of_an_old_version_is_refused(project):
    project.save("a/b", "anna", MARKED)
    with pytest.raises(OutdatedAnnotation) as refused:
        project.save("a/b", "anna", Annotation(0, "started"))
    assert refused.value.stored.version == 1
    assert refused.value.stored.entities == MARKED.entities
    with pytest.raises(OutdatedAnnotation):
        project.save("a/b", "anna", Annotation(7, "started"))
    assert project.save("a/b", "ben", Annotation(0, "started")).version == 1
    assert project.save("a/b", "anna", Annotation(1, "started")).version == 2


def test_of_concurrent_changes_one_wins(project):
    results = []

    def save():
        try:
            results.append(project.save("c", "anna", Annotation(0, "done")).version)
        except OutdatedAnnotation:
            results.append(None)

    threads = [threading.Thread(target=save) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == [1] + [None] * 7


@pytest.mark.parametrize(
    ("annotation", "error"),
    [
        (Annotation(0, "done", entities=(EntityMark("e", 12, 14, "Method"),)), AnnotationError),
        (Annotation(0, "done", entities=(EntityMark("e", 11, 13, "Method"),)), AnnotationError),
        (Annotation(0, "done", entities=(EntityMark("e", 19, 30, "Method"),)), AnnotationError),
        (Annotation(0, "done", entities=(EntityMark("e", 19, 14, "Method"),)), AnnotationError),
        (Annotation(0, "done", entities=(EntityMark("e", 400, 410, "Method"),)), AnnotationError),
        (Annotation(0, "done", entities=(replace(CRF, label="Methods"),)), SchemaError),
        (Annotation(0, "done", entities=(CRF, replace(CRF, id="e9"))), AnnotationError),
        (Annotation(0, "done", entities=(CRF, replace(TAGGING, id="e1"))), AnnotationError),
        (Annotation(0, "done", entities=(CRF,), relations=(USED_FOR,)), AnnotationError),
        (replace(MARKED, relations=(replace(USED_FOR, label="X"),)), SchemaError),
        (replace(MARKED, relations=(USED_FOR, replace(USED_FOR, id="r2"))), AnnotationError),
        (replace(MARKED, relations=(USED_FOR, replace(USED_FOR, label="COMPARE"))), AnnotationError),
        (
            replace(
                MARKED, relations=(RelationMark("r1", "e1", "e2", "COMPARE"), RelationMark("r2", "e2", "e1", "COMPARE"))
            ),
            AnnotationError,
        ),
        (Annotation(0, "finished"), ConfigError),
    ],
)
def test_annotations_that_do_not_fit(refusing, annotation, error):
    with pytest.raises(error):
        refusing.save("a/b", "anna", annotation)
    assert refusing.annotation("a/b", "anna") == Annotation()


def test_a_relation_between_sentences_is_refused(refusing):
    hmm = EntityMark("e3", 42, 45, "Method")
    assert FIRST.text[42:45] == "HMM"
    crossing = replace(MARKED, entities=(CRF, hmm), relations=(replace(USED_FOR, tail="e3"),))
    with pytest.raises(AnnotationError, match="different sentences"):
        refusing.save("a/b", "anna", crossing)


def test_nested_entities_and_two_labels_on_the_same_words(project):
    outer = EntityMark("e3", 9, 26, "Task")
    project.save("a/b", "anna", Annotation(0, "done", entities=(CRF, outer, replace(CRF, id="e4", label="Task"))))
    assert [entity.text for entity in project.annotated("a/b").entities] == ["a CRF for tagging", "CRF", "CRF"]


def test_the_adjudicated_annotation_comes_first(project):
    project.save("a/b", "anna", MARKED)
    project.save("a/b", ADJUDICATED, Annotation(0, "done", entities=(CRF,)), by="ben")
    project.save("a/b", "ben", Annotation(0, "done"))
    assert len(project.annotated("a/b").entities) == 1
    assert len(project.annotated("a/b", "anna").entities) == 2
    assert project.annotated("a/b", "chen") is None
    last = json.loads((project.folder / LOG).read_text().splitlines()[1])
    assert (last["annotator"], last["by"]) == (ADJUDICATED, "ben")


def test_only_what_is_done_counts(project):
    project.save("a/b", "anna", replace(MARKED, state="started"))
    project.save("c", "anna", Annotation(0, "done"))
    assert [document.id for document in project.annotated_documents()] == ["c"]
    assert [document.id for document in project.annotated_documents(state="started")] == ["a/b", "c"]
    assert (project.count_done(), project.count_done("anna"), project.count_done("ben")) == (1, 1, 0)


def test_a_project_that_is_only_read_takes_no_changes(project, tmp_path):
    with Project.open(tmp_path / "p", read_only=True) as reading, pytest.raises(DataError):
        reading.save("c", "anna", Annotation(0, "done"))


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101])
def test_names_that_are_none(refusing, name):
    with pytest.raises(DataError):
        refusing.save("c", name, Annotation(0, "done"))


@pytest.mark.parametrize(
    "documents",
    [[], [Document.from_text("A.", id="")], [Document.from_text("A.", id="..")], [FIRST, replace(SECOND, id="a/b")]],
)
def test_documents_that_make_no_project(tmp_path, documents):
    with pytest.raises(DataError):
        make_project(tmp_path / "p", documents)
    assert not (tmp_path / "p").exists()


def test_annotated_documents_become_annotations(tmp_path, project):
    project.save("a/b", "anna", MARKED)
    with make_project(tmp_path / "q", [project.annotated("a/b"), SECOND], annotator="gold") as copy:
        assert copy.annotators == ["gold"]
        assert copy.annotated("a/b").relations == project.annotated("a/b").relations
        assert copy.annotation("c", "gold").state == "new"


def test_sentences_without_words_are_left_out(tmp_path):
    words = Sentence.from_words(["An", "HMM"], [Span(1, 2, "Method")])
    document = Document.from_sentences([Sentence.from_words([]), words, Sentence.from_words([]), words], id="d")
    with make_project(tmp_path / "p", [document]) as project:
        assert [len(sentence) for sentence in project.documents["d"].sentences] == [2, 2]
        assert project.annotated("d").entities == document.entities
    with Project.open(tmp_path / "p") as again:
        assert again.annotated("d").entities == document.entities


def test_a_folder_with_other_files_is_kept(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine.txt").write_text("x")
    with pytest.raises(DataError):
        make_project(tmp_path / "p")
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["mine.txt"]


def test_folders_that_are_no_project(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(DataError):
            Project.open(folder)
    (tmp_path / "project.json").write_text("{}")
    with pytest.raises(DataError):
        Project.open(tmp_path)


def test_a_project_of_a_later_version_is_refused(project, tmp_path):
    project.close()
    record = json.loads((tmp_path / "p" / "project.json").read_text())
    (tmp_path / "p" / "project.json").write_text(json.dumps(record | {"version": 99}))
    with pytest.raises(DataError, match="99"):
        Project.open(tmp_path / "p")


def test_added_documents_do_not_change_which_are_held_out(tmp_path):
    documents = [Document.from_text(f"Text {number}.", id=str(number)) for number in range(47)]
    with make_project(tmp_path / "p", documents[:23]) as project:
        before = {id for id in project.documents if project.is_held_out(id)}
        assert project.add_documents(documents) == 24
        after = {id for id in project.documents if project.is_held_out(id)}
    assert {id for id in after if int(id) < 20} == {id for id in before if int(id) < 20}
    assert before <= after
    assert 8 <= len(after) <= 10
    with make_project(tmp_path / "q", documents, settings=ProjectSettings(seed=1)) as other:
        assert after != {id for id in other.documents if other.is_held_out(id)}


@pytest.mark.parametrize("n_documents", [2, 3, 4])
def test_small_projects_hold_a_document_out(tmp_path, n_documents):
    documents = [Document.from_text(f"Text {number}.", id=str(number)) for number in range(n_documents)]
    with make_project(tmp_path / "p", documents) as project:
        assert sum(map(project.is_held_out, project.documents)) == 1


def test_a_model_folder_is_copied(tmp_path):
    model = tmp_path / "trained"
    model.mkdir()
    (model / "config.json").write_text('{"cascade_srn_version": "1"}')
    with make_project(tmp_path / "p", model=str(model)) as project:
        assert project.model == str(tmp_path / "p" / "./model")
        assert (tmp_path / "p" / "model" / "config.json").is_file()
    with pytest.raises(CascadeError):
        make_project(tmp_path / "q", model=str(tmp_path))


@pytest.mark.parametrize("settings", [{"held_out": 0}, {"held_out": 0.9}, {"epochs": 0}, {"seed": -1}])
def test_settings_out_of_range(settings):
    with pytest.raises(ConfigError):
        ProjectSettings(**settings)
