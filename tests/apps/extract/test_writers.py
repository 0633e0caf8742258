import errno
import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.characters import ANY_CHARACTER
from tests.drawing.markup import read_markup
from tests.drawing.sentences import DOCUMENT, HOSTILE, NESTED, PLAIN, SCHEMA, sentence

from cascade_srn import Document, Span, read_documents
from cascade_srn.apps.extract.writers import StreamTarget, choose_format, format_document, make_writer
from cascade_srn.errors import CascadeError, ConfigError, DataError
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
        (None, None, True, "table"), (None, None, False, "jsonl"), (None, "a.html", True, "html"),
        (None, "a.JSONL", True, "jsonl"), (None, "a.txt", False, "table"), (None, "a.csv", True, "csv"),
        (None, "a.tsv", True, "tsv"), (None, "a.parquet", True, "parquet"), ("brat", "a.html", True, "brat"),
    ],
)  # fmt: skip
def test_the_default_format(format, output, terminal, expected):
    assert choose_format(format, output and Path(output), terminal=terminal) == expected


def test_unknown_formats():
    with pytest.raises(ConfigError, match="format is 'json', .*table, jsonl, .*brat, html.*'jsonl'"):
        choose_format("json", None, terminal=True)
    with pytest.raises(ConfigError, match="out .*table, jsonl, .*brat, html") as error:
        choose_format(None, Path("out"), terminal=True)
    assert error.value.option == "format"


@pytest.mark.parametrize("format", ["brat", "html", "parquet"])
def test_formats_that_need_an_output(format):
    with pytest.raises(ConfigError, match=format) as error:
        make_writer(format, None, schema=SCHEMA, terminal=True)
    assert error.value.option == "output"


def test_json_lines_are_read_back_with_everything(tmp_path):
    path = written("jsonl", tmp_path / "a.jsonl", FIRST, SECOND, DOCUMENT)
    found = list(read_documents(path))
    assert [document.to_dict() for document in found] == [d.to_dict() for d in (FIRST, SECOND, DOCUMENT)]


def test_source_of_json_lines_gives_way_to_kept_fields(tmp_path):
    source = {"model": "m", "version": "1"}
    writer = make_writer("jsonl", tmp_path / "a.jsonl", schema=SCHEMA, kept=["version"], source=source)
    writer.write(SECOND, {"version": 7})
    writer.finish()
    record = json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8"))
    assert (record["model"], record["version"]) == ("m", 7)


def test_documents_are_flushed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    writer = make_writer("jsonl", None, schema=SCHEMA)
    writer.write(SECOND)
    assert sys.stdout.buffer.getvalue().startswith(b'{"id": "second"')


def test_brat_file_names(tmp_path):
    ids = ["a", "b/c", "A", "a", "../up", "/top/x", "x:y\n?", "", "..", "e" * 300, "in. /end. "]
    folder = written("brat", tmp_path / "out", *(Document("text", id=id) for id in ids))
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.ann"))
    assert names == sorted(
        f"{name}.ann"
        for name in ("a", "b/c", "A-2", "a-3", "up", "top/x", "x_y__", "document", "document-2", "e" * 200, "in/end")
    )
    assert len(list(folder.rglob("*.txt"))) == len(ids)


def test_a_document_that_brat_cannot_represent_leaves_no_file(tmp_path):
    writer = make_writer("brat", tmp_path / "out", schema=SCHEMA)
    spaced = sentence("a b", [(0, 1, "two words")])
    with pytest.raises(DataError, match="'two words'.*'x'"):
        writer.write(Document.from_sentences([spaced], id="x"))
    with pytest.raises(DataError, match="'two words'.*'new/x'"):
        writer.write(Document.from_sentences([spaced], id="new/x"))
    assert writer.abandon() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schema", [Schema(("A", "two words")), Schema(("A",), ("r", "two words"))])
def test_labels_that_brat_cannot_represent_fail_before_the_output_is_created(tmp_path, schema):
    with pytest.raises(ConfigError, match="'two words'"):
        make_writer("brat", tmp_path / "out", schema=schema)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.html.XZ", "a.bz2"])
def test_a_compressed_output_is_an_error(tmp_path, name):
    for format in (None, "jsonl"):
        with pytest.raises(ConfigError, match=name):
            choose_format(format, tmp_path / name, terminal=False)
    with pytest.raises(ConfigError, match=name):
        make_writer("jsonl", tmp_path / name, schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "a.txt/b"), ("a.ann/b", "a"), ("a", "/".join(["x" * 100] * 50))],
    ids=["a file is no folder", "a folder is no file", "too long"],
)
def test_an_id_that_cannot_be_a_path_is_an_error_of_its_document(tmp_path, first, second):
    writer = make_writer("brat", tmp_path / "out", schema=SCHEMA)
    writer.write(Document("text", id=first))
    with pytest.raises(DataError, match="a.ann|a.txt/b|xxx"):
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


def test_a_page_has_all_documents(tmp_path):
    path = written("html", tmp_path / "news.html", FIRST, SECOND)
    root = read_markup(path.read_text(encoding="utf-8"))
    assert [heading.text for heading in root.all("h2")] == ["first", "second"]
    assert root.all("title")[0].text == "news"


def test_an_abandoned_page_has_the_documents_so_far(tmp_path):
    writer = make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    writer.write(FIRST)
    assert writer.abandon() == tmp_path / "page.partial.html"
    root = read_markup((tmp_path / "page.partial.html").read_text(encoding="utf-8"))
    assert [heading.text for heading in root.all("h2")] == ["first"]


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


def test_a_page_without_jinja2_fails_before_the_output_is_created(tmp_path, monkeypatch):
    from cascade_srn.drawing.render import environment

    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(CascadeError, match=r"jinja2.*cascade-srn\[report\]"):
        make_writer("html", tmp_path / "page.html", schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_flushed():
    class Pipe(io.BytesIO):
        flushed = b""

        def flush(self):
            self.flushed = self.getvalue()

    target = StreamTarget(Pipe())
    target.write(b"x")
    assert target.handle.flushed == b"x"
    target.commit()
    assert target.abandon() is None


def test_errors_of_a_stream_have_a_name():
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="standard output"):
        StreamTarget(Full()).write(b"x")


class TestTable:
    def test_entities_and_relations(self):
        assert format_document(Document.from_sentences([PLAIN], id="d"), width=80) == (
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
        assert format_document(SECOND, width=80) == "second\n  nothing found\n"
        assert format_document(Document(""), width=80) == "document\n  nothing found\n"

    def test_it_fits_the_width(self):
        words = "considerably " * 30
        table = format_document(Document.from_sentences([sentence(words, [(0, 30, "Task")])]), width=48)
        assert max(map(len, table.splitlines())) <= 48
        assert "considerably" in table

    def test_long_words_are_broken(self):
        table = format_document(Document.from_sentences([sentence("y" * 50 + " 語" * 20, [(0, 21, "Task")])]), width=45)
        assert [line.split("   ")[0] for line in table.splitlines()[3:]] == [
            *["y" * 17, "y" * 17, "y" * 16],
            *["語 語 語 語 語 語"] * 3,
            "語 語",
        ]

    def test_control_characters_are_replaced(self):
        hostile = sentence("\x1b[2J\x07red \u202egreen a\nb [bold]x[/bold]", [(0, 1, "Task"), (1, 5, "Method")])
        table = format_document(Document.from_sentences([hostile], id="\x1b]0;owned\x07"), width=80)
        assert not any(char in table for char in "\x1b\x07\u202e")
        assert "[bold]x[/bold]" in table
        assert "\ufffd[2J\ufffdred" in table

    def test_markup_of_a_text_is_text(self):
        assert "<script>alert(1)</script>" in format_document(Document.from_sentences([HOSTILE]), width=80)

    @given(st.text(ANY_CHARACTER), st.integers(1, 60))
    def test_any_text_fits(self, text, width):
        document = Document.from_text(text, id=text)
        whole = tuple(s.annotated([Span(0, len(s), "Considerable")], ()) for s in document.sentences)
        lines = format_document(Document(text, whole, "d"), width=width).splitlines()
        assert all(cell_len(line) <= max(width, 30) for line in lines)
        assert not any(unicodedata.category(char) == "Cc" for line in lines for char in line)

    def test_colours(self):
        assert "\x1b[36mMethod" in format_document(Document.from_sentences([PLAIN]), width=80, colour=True)
