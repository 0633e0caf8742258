"""Export and import of annotations."""

import io
import zipfile
from contextlib import contextmanager

import pytest
from tests.apps.annotation.projects import FIRST, MARKED, SECOND, make_project

from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.exchange import (
    export_bytes,
    export_file,
    file_name,
    import_bytes,
    import_documents,
)
from cascade_srn.errors import AnnotationError, DataError, SchemaError
from cascade_srn.formats.registry import FORMATS, read_documents
from cascade_srn.types import Document, Sentence, Span

# Formats of other libraries are slow, and are tested with convert.
HERE = [name for name in FORMATS if name not in ("spacy", "datasets", "cas", "bioc")]


@contextmanager
def annotated_project(folder):
    with make_project(folder) as made:
        made.save("a/b", "anna", MARKED)
        made.save("c", "anna", Annotation(0, "done"))
        yield made


@pytest.fixture
def project(tmp_path):
    with annotated_project(tmp_path / "p") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A project whose annotations by anna do not change."""
    with annotated_project(tmp_path_factory.mktemp("shared") / "p") as made:
        yield made


@pytest.mark.parametrize("format", HERE)
def test_annotations_survive_a_round_trip(shared, format):
    content = export_bytes(shared, format, "anna")
    done = import_bytes(shared, content, format, format)
    assert done.documents == 0
    assert done.annotations >= 1
    found = shared.annotated("a/b", format)
    assert found.entities == shared.annotated("a/b", "anna").entities
    if "relations" not in FORMATS[format].loses:
        assert found.relations == shared.annotated("a/b", "anna").relations


def test_an_import_adds_unknown_documents(project):
    new = Document.from_sentences([Sentence.from_words(["An", "HMM"], [Span(1, 2, "Method")])], id="new")
    done = import_documents(project, [new], "ben")
    assert (done.documents, done.annotations) == (1, 1)
    assert project.annotated("new").entities == new.entities
    assert import_documents(project, [new], "ben").documents == 0
    assert project.annotation("new", "ben").version == 2


def test_documents_without_an_id_are_named(project):
    new = [Document.from_text(text) for text in ("One.", "Two.", "Parsing is slow.")]
    assert import_documents(project, new, "ben").documents == 2
    assert list(project.documents) == ["a/b", "c", "document-3", "document-4"]
    assert project.annotation("c", "ben").state == "done"


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (Document.from_text("Another text.", id="c"), DataError),
        (Document.from_sentences([Sentence.from_words(["x"], [Span(0, 1, "Thing")])], id="n"), SchemaError),
        (Document(SECOND.text, (Sentence(("Pars",), ((0, 4),), (Span(0, 1, "Task"),)),), "c"), AnnotationError),
    ],
)
def test_an_import_that_does_not_fit_changes_nothing(project, document, error):
    new = Document.from_text("Something new.", id="new")
    with pytest.raises(error):
        import_documents(project, [new, document], "ben")
    assert list(project.documents) == ["a/b", "c"]
    assert project.annotators == ["anna"]


def test_an_export_without_annotations_is_an_error(project, tmp_path):
    with pytest.raises(DataError):
        export_file(project, tmp_path / "out.jsonl", annotator="ben")
    assert not (tmp_path / "out.jsonl").exists()


def test_an_export_can_be_trained_on(project, tmp_path):
    report = export_file(project, tmp_path / "out.jsonl")
    assert (report.documents, dict(report.lost)) == (2, {})
    documents = list(read_documents(tmp_path / "out.jsonl"))
    assert documents[0].text == FIRST.text
    assert len(documents[0].relations) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"PK\x03\x04broken", b"[]"])
@pytest.mark.parametrize("format", ["jsonl", "brat", "label-studio"])
def test_broken_files_are_refused(shared, data, format):
    with pytest.raises(DataError) as refused:
        import_bytes(shared, data, format, "ben")
    assert "/tmp" not in str(refused.value)
    assert "ben" not in shared.annotators


def test_an_archive_cannot_leave_its_folder(project):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("../../evil.txt", "x")
    with pytest.raises(DataError):
        import_bytes(project, content.getvalue(), "brat", "ben")


def test_an_unknown_format(project):
    with pytest.raises(DataError, match="jsonl"):
        export_bytes(project, "json-l")


def test_file_names_are_plain(tmp_path):
    with make_project(tmp_path / "p", name='a"/../ü\n') as project:
        assert file_name(project, "jsonl") == "a--------jsonl.jsonl"
        assert file_name(project, "brat").endswith(".zip")
