"""Documents written as tables, JSON lines, brat files and a page."""

import errno
import io
import os
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing.markup import read_markup
from tests.drawing.sentences import DOCUMENT, HOSTILE, NESTED, PLAIN, SCHEMA, sentence

from cascade_srn import Document, Span, read_documents
from cascade_srn.drawing.labels import width as columns_of
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.extraction.writers import chosen_format, document_table, make_writer
from cascade_srn.schema import Schema

FIRST = Document.from_sentences([PLAIN, NESTED], id="first")
SECOND = Document.from_text("Nothing in\r\nit.", id="second")


def written(format, path, *documents):
    writer = make_writer(format, path, schema=SCHEMA)
    for document in documents:
        writer.write(document)
    writer.finish()
    return path


@pytest.mark.parametrize(
    ("format", "output", "terminal", "expected"),
    [
        (None, None, True, "table"),
        (None, None, False, "jsonl"),
        (None, "a.html", True, "html"),
        (None, "a.JSONL", True, "jsonl"),
        (None, "a.txt", False, "table"),
        ("brat", "a.html", True, "brat"),
    ],
)
def test_the_format_that_suits(format, output, terminal, expected):
    assert chosen_format(format, output and Path(output), terminal=terminal) == expected


def test_formats_that_there_are_not():
    with pytest.raises(
        ConfigError, match="--format is 'json', not one of table, jsonl, brat, html. Did you mean 'jsonl'"
    ):
        chosen_format("json", None, terminal=True)
    with pytest.raises(ConfigError, match="the ending of out tells no format; give --format"):
        chosen_format(None, Path("out"), terminal=True)
    with pytest.raises(ConfigError, match="--format brat writes a folder of files; name it by --output DIR"):
        make_writer("brat", None, schema=SCHEMA)
    with pytest.raises(ConfigError, match="--format html writes a page; name its file by --output page.html"):
        make_writer("html", None, schema=SCHEMA, terminal=True)


def test_json_lines_are_read_back_with_everything(tmp_path):
    path = written("jsonl", tmp_path / "a.jsonl", FIRST, SECOND, DOCUMENT)
    found = list(read_documents(path))
    assert [document.to_dict() for document in found] == [d.to_dict() for d in (FIRST, SECOND, DOCUMENT)]


def test_what_is_written_is_there_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    writer = make_writer("jsonl", None, schema=SCHEMA)
    writer.write(SECOND)
    assert sys.stdout.buffer.getvalue().startswith(b'{"id": "second"')


def test_brat_files_are_named_by_ids_as_far_as_those_can_be_names(tmp_path):
    ids = ["a", "b/c", "A", "a", "../up", "/top/x", "x:y\n?", "", "..", "e" * 300, "in. /end. "]
    folder = written("brat", tmp_path / "out", *(Document("text", id=id) for id in ids))
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.ann"))
    assert names == sorted(
        f"{name}.ann"
        for name in ("a", "b/c", "A-2", "a-3", "up", "top/x", "x_y__", "document", "document-2", "e" * 200, "in/end")
    )
    assert len(list(folder.rglob("*.txt"))) == len(ids)


def test_brat_files_are_read_back(tmp_path):
    folder = written("brat", tmp_path / "out", FIRST, SECOND)
    first, second = read_documents(folder, "brat")
    assert [(e.start, e.end, e.label) for e in first.entities] == [(e.start, e.end, e.label) for e in FIRST.entities]
    assert len(first.relations) == len(FIRST.relations)
    assert second.text == SECOND.text


def test_what_brat_cannot_hold_is_refused_and_leaves_no_half(tmp_path):
    writer = make_writer("brat", tmp_path / "out", schema=SCHEMA)
    spaced = sentence("a b", [(0, 1, "two words")])
    with pytest.raises(DataError, match="the label 'two words' in document 'x' has a space in it"):
        writer.write(Document.from_sentences([spaced], id="x"))
    with pytest.raises(DataError, match="the label 'two words' in document 'new/x' has a space in it"):
        writer.write(Document.from_sentences([spaced], id="new/x"))
    assert writer.abandon() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schema", [Schema(("A", "two words")), Schema(("A",), ("r", "two words"))])
def test_a_model_whose_labels_brat_cannot_hold_is_refused_before_anything_is_made(tmp_path, schema):
    with pytest.raises(ConfigError, match="the model's label 'two words' has a space in it, which brat cannot hold"):
        make_writer("brat", tmp_path / "out", schema=schema)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.html.XZ", "a.bz2"])
def test_a_name_of_a_compressed_file_is_refused(tmp_path, name):
    message = rf"--output .*{name} has the ending of a compressed file, but results are written as they are; leave off"
    for format in (None, "jsonl"):
        with pytest.raises(ConfigError, match=message):
            chosen_format(format, tmp_path / name, terminal=False)
    with pytest.raises(ConfigError, match=message):
        make_writer("jsonl", tmp_path / name, schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes here")
def test_a_pipe_may_have_any_name(tmp_path):
    os.mkfifo(tmp_path / "a.jsonl.gz")
    assert chosen_format("jsonl", tmp_path / "a.jsonl.gz", terminal=False) == "jsonl"


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "a.txt/b"), ("a.ann/b", "a"), ("a", "/".join(["x" * 100] * 50))],
    ids=["a file is no folder", "a folder is no file", "too long"],
)
def test_an_id_that_is_no_path_here_is_refused_and_the_others_are_written(tmp_path, first, second):
    writer = make_writer("brat", tmp_path / "out", schema=SCHEMA)
    writer.write(Document("text", id=first))
    with pytest.raises(DataError, match="cannot be written as .* rename it|a.ann is a folder, but a file"):
        writer.write(Document("text", id=second))
    writer.write(Document("text", id="last"))
    writer.finish()
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*"))
    assert [name for name in found if name != "a.ann" or first == "a"] == [
        f"{first}.ann",
        f"{first}.txt",
        "last.ann",
        "last.txt",
    ]


def test_what_is_wrong_with_more_than_a_name_is_no_fault_of_the_document(tmp_path, monkeypatch):
    writer = make_writer("brat", tmp_path / "out", schema=SCHEMA)

    def full(documents, path, format):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cascade_srn.extraction.writers.write_documents", full)
    with pytest.raises(OSError, match="No space left"):
        writer.write(FIRST)


def test_a_page_has_all_documents(tmp_path):
    path = written("html", tmp_path / "news.html", FIRST, SECOND)
    root = read_markup(path.read_text(encoding="utf-8"))
    assert [heading.text for heading in root.all("h2")] == ["first", "second"]
    assert root.all("title")[0].text == "news"


def test_an_abandoned_page_has_those_that_there_are(tmp_path):
    writer = make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    writer.write(FIRST)
    assert writer.abandon() == tmp_path / "page.partial.html"
    root = read_markup((tmp_path / "page.partial.html").read_text(encoding="utf-8"))
    assert [heading.text for heading in root.all("h2")] == ["first"]


def test_a_page_that_cannot_take_its_place_tells_why(tmp_path):
    writer = make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    writer.write(FIRST)
    (tmp_path / "page.html").mkdir()
    with pytest.raises(DataError, match=r"page.html cannot be written \(Is a directory\); give another name"):
        writer.finish()
    assert writer.abandon() == tmp_path / "page.partial.html"
    root = read_markup((tmp_path / "page.partial.html").read_text(encoding="utf-8"))
    assert [heading.text for heading in root.all("h2")] == ["first"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.partial.html"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_page_that_cannot_be_drawn_leaves_nothing(tmp_path, monkeypatch, finished):
    def fail(documents, **options):
        raise DataError("it cannot be drawn")

    monkeypatch.setattr("cascade_srn.drawing.draw_page", fail)
    writer = make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    writer.write(FIRST)
    with pytest.raises(DataError, match="it cannot be drawn"):
        (writer.finish if finished else writer.abandon)()
    if finished:
        assert writer.abandon() is None
    assert list(tmp_path.iterdir()) == []


def test_a_page_whose_name_is_not_utf_8(tmp_path):
    writer = make_writer("html", tmp_path / "caf\udce9.html", schema=SCHEMA)
    assert writer.title == "caf\ufffd"
    assert writer.abandon() is None


def test_a_page_needs_its_templates_before_anything_is_extracted(tmp_path, monkeypatch):
    from cascade_srn.drawing.render import environment

    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(CascadeError, match=r"jinja2 is not installed.*pip install 'cascade-srn\[report\]'"):
        make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []


class TestTable:
    def test_entities_and_relations(self):
        assert document_table(Document.from_sentences([PLAIN], id="d"), width=80) == (
            "d\n"
            "entity    type     characters   score\n"
            "─────────────────────────────────────\n"
            "CRF       Method        11–14    0.93\n"
            "tagging   Task          19–26\n"
            "\n"
            "subject   relation   object    score\n"
            "────────────────────────────────────\n"
            "CRF       USED-FOR   tagging    0.88\n"
        )

    def test_nothing(self):
        assert document_table(SECOND, width=80) == "second\n  nothing found\n"
        assert document_table(Document(""), width=80) == "document\n  nothing found\n"

    def test_it_is_as_wide_as_the_terminal(self):
        words = "considerably " * 30
        table = document_table(Document.from_sentences([sentence(words, [(0, 30, "Task")])]), width=48)
        assert max(map(len, table.splitlines())) <= 48
        assert "considerably" in table

    def test_words_are_broken_where_they_must_be(self):
        table = document_table(Document.from_sentences([sentence("y" * 50 + " 語" * 20, [(0, 21, "Task")])]), width=45)
        assert [line.split("   ")[0] for line in table.splitlines()[3:]] == [
            *["y" * 17, "y" * 17, "y" * 16],
            *["語 語 語 語 語 語"] * 3,
            "語 語",
        ]

    def test_a_text_does_nothing_to_the_terminal(self):
        hostile = sentence("\x1b[2J\x07red \u202egreen a\nb [bold]x[/bold]", [(0, 1, "Task"), (1, 5, "Method")])
        table = document_table(Document.from_sentences([hostile], id="\x1b]0;owned\x07"), width=80)
        assert not any(char in table for char in "\x1b\x07\u202e")
        assert "[bold]x[/bold]" in table
        assert "\ufffd[2J\ufffdred" in table

    def test_markup_of_a_text_is_text(self):
        assert "<script>alert(1)</script>" in document_table(Document.from_sentences([HOSTILE]), width=80)

    @given(st.text(), st.integers(1, 60))
    def test_any_text_fits(self, text, width):
        document = Document.from_text(text, id=text)
        whole = tuple(s.annotated([Span(0, len(s), "Considerable")], ()) for s in document.sentences)
        lines = document_table(Document(text, whole, "d"), width=width).splitlines()
        assert all(columns_of(line) <= max(width, 30) for line in lines)
        assert not any(unicodedata.category(char) == "Cc" for line in lines for char in line)

    def test_colours_where_they_are_asked_for(self):
        assert "\x1b[36mMethod" in document_table(Document.from_sentences([PLAIN]), width=80, colour=True)
