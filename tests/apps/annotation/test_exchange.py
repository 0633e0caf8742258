import io
import json
import tracemalloc
import zipfile
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.apps.annotation.projects import FIRST, MARKED, SECOND, make_project

from cascade_srn.apps.annotation import exchange
from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.exchange import export_bytes, export_file, file_name, import_documents, import_upload
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
    done = import_upload(shared, io.BytesIO(content), format, format)
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
        import_upload(shared, io.BytesIO(data), format, "ben")
    assert "/tmp" not in str(refused.value)
    assert "ben" not in shared.annotators


def archive(files):
    """Return an open ZIP archive of texts by name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    content.seek(0)
    return content


def snapshot(project):
    return {path.name: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}


def line(**record):
    return io.BytesIO(json.dumps({"id": "n", **record}).encode())


@pytest.mark.parametrize(
    ("format", "upload", "problem"),
    [
        ("brat", lambda: archive({"a.txt": "a. " * 3_000_000, "a.ann": ""}), "'a.txt': the content has more than"),
        ("brat", lambda: archive({f"{n}.txt": " " * (4 << 20) for n in range(17)}), "expands to more than 200 times"),
        ("brat", lambda: archive({"a.txt": "a. " * 340_000, "a.ann": ""}), "has 1,020,000 characters"),
        pytest.param(
            "brat",
            lambda: archive({"a.txt": "a " * 100_001, "a.ann": ""}),
            "more than 100,000 words",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "brat",
            lambda: archive({"a.txt": "a", "a.ann": "#\n" * 100_001}),
            "more than 100,000 annotations",
            marks=pytest.mark.slow,
        ),
        ("brat", lambda: archive({"inside.zip": archive({"a.txt": "a", "a.ann": ""}).getvalue()}), "no .ann file"),
        ("brat", lambda: archive({"../../evil.txt": "x"}), "outside of its folder"),
        ("jsonl", lambda: line(text="a. " * 3_000_000), "line is longer than"),
        ("jsonl", lambda: line(text="a. " * 1_000_000), "has 3,000,000 characters"),
        ("label-studio", lambda: io.BytesIO(b"[" + b"[]," * 6_000_000), "more than 16777216 bytes"),
    ],
)
def test_an_upload_beyond_a_limit_takes_little_memory_and_changes_nothing(project, format, upload, problem):
    opened, before = upload(), snapshot(project)
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as refused:
            import_upload(project, opened, format, "ben")
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()
    assert problem in refused.value.problem
    assert refused.value.hint
    assert "/cascade-srn-" not in str(refused.value)
    assert (snapshot(project), list(project.documents)) == (before, ["a/b", "c"])


@pytest.mark.parametrize(
    ("format", "start", "row", "problem"),
    [
        ("conll", b"", b"a O\n", "more than 100 words"),
        ("conll", b"-DOCSTART- O\n\n", b"a O\n\n", "more than 100 words"),
        ("pubtator", b"1|t|a\n", b"1\tx\n", "more than 100 lines"),
        ("table", b"document,text,start,end,label\n", b"a,b,,,\n", "more than 100 rows"),
        ("bioc", b"<collection><document>", b"<a/>", "more than 100 elements"),
    ],
)
def test_a_document_of_many_rows_is_refused_where_the_limit_is_reached(
    shared, monkeypatch, format, start, row, problem
):
    limits = replace(exchange.UPLOAD_LIMITS, document_words=100)
    monkeypatch.setattr(exchange, "UPLOAD_LIMITS", limits)
    # What follows the limit is not read: it would be an error of another kind. A table is decoded as a whole.
    upload = io.BytesIO(start + row * 101 + b"\xff" * (format != "table"))
    with pytest.raises(DataError) as refused:
        import_upload(shared, upload, format, "ben")
    assert problem in refused.value.problem
    assert refused.value.hint == limits.hint


def test_the_words_of_all_documents_are_limited(project, monkeypatch):
    monkeypatch.setattr(exchange, "MAX_UPLOAD_WORDS", 4)
    lines = b"".join(b'{"id": "%d", "text": "one two"}\n' % number for number in range(3))
    with pytest.raises(DataError, match="more than 4 words"):
        import_upload(project, io.BytesIO(lines), "jsonl", "ben")
    assert import_upload(project, io.BytesIO(lines[: 2 * len(lines) // 3]), "jsonl", "ben").documents == 2


def test_parts_of_one_document_are_limited_together(project):
    words = [[[at, at + 1] for at in range(60_000)]]
    part = json.dumps({"id": "n", "text": "a" * 60_000, "sentences": words})
    other = json.dumps({"id": "n", "text": "b" * 60_000, "sentences": words})
    with pytest.raises(DataError, match="more than 100,000 words"):
        import_upload(project, io.BytesIO(f"{part}\n{other}\n".encode()), "jsonl", "ben")


@pytest.mark.parametrize("n_calls", [0, 1, 3, 6])
def test_an_import_can_be_stopped_until_it_is_stored(project, n_calls):
    """Before each of three documents is read and again before it is compared, and before the end."""
    before, calls = snapshot(project), []

    def check():
        calls.append(None)
        if len(calls) > n_calls:
            raise TimeoutError

    lines = b"".join(b'{"id": "%d", "text": "one two"}\n' % number for number in range(3))
    with pytest.raises(TimeoutError):
        import_upload(project, io.BytesIO(lines), "jsonl", "ben", check)
    assert snapshot(project) == before


def test_file_names_are_plain(tmp_path):
    with make_project(tmp_path / "p", name='a"/../ü\n') as project:
        assert file_name(project, "jsonl") == "a--------jsonl.jsonl"
        assert file_name(project, "brat").endswith(".zip")
