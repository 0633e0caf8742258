import csv
import io
import json

import pytest
from tests.drawing.sentences import DOCUMENT, HOSTILE, SCHEMA

from cascade_srn import Document, Sentence, Span, Triple, read_documents
from cascade_srn.apps.extract.table_output import MORE_COLUMNS
from cascade_srn.apps.extract.writers import StreamTarget, make_writer
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.from_text import split_characters
from cascade_srn.formats.table import COLUMNS

FORMATS = ("csv", "tsv", "parquet")
CRF, TAGGING = Span(0, 1, "Method", 0.75), Span(2, 3, "Task", 0.5)
FIRST = Document.from_sentences(
    [Sentence.from_words(["CRFs", "for", "tagging"], [CRF, TAGGING], [Triple(CRF, "Used-for", TAGGING, 0.25)])], id="a"
)
SECOND = Document.from_text('Nothing,\n"here".\t', id="b")


def written(path, *documents, fields=None, kept=()):
    writer = make_writer(path.suffix[1:], path, schema=SCHEMA, kept=kept)
    for document in documents:
        writer.write(document, fields or {})
    writer.finish()
    return path


def rows(path):
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pylist()
    with path.open(encoding="utf-8", newline="") as handle:
        found = csv.DictReader(handle, delimiter="\t" if path.suffix == ".tsv" else ",")
        return [{name: value or None for name, value in row.items()} for row in found]


def annotations(document):
    return document.text, set(document.entities), set(document.relations)


@pytest.mark.parametrize("format", FORMATS)
def test_spreadsheets_run_no_kept_field(tmp_path, format):
    kept = ("title", "delta", "=field")
    fields = {"title": "=HYPERLINK(A1)", "delta": -0.5, "=field": "-0.5"}
    (row,) = rows(written(tmp_path / f"a.{format}", SECOND, fields=fields, kept=kept))
    mark = "" if format == "parquet" else "'"
    assert row["title"] == f"{mark}=HYPERLINK(A1)"
    assert (row["delta"], row[f"{mark}=field"]) == ("-0.5", "-0.5")


@pytest.mark.parametrize("format", FORMATS)
def test_a_row_for_each_entity_and_relation(tmp_path, format):
    found = rows(written(tmp_path / f"a.{format}", FIRST, SECOND))
    assert list(found[0]) == [*COLUMNS, *MORE_COLUMNS]
    assert [(row["document"], row["entity_text"], row["relation"], row["tail_text"]) for row in found] == [
        ("a", "CRFs", None, None),
        ("a", "tagging", None, None),
        ("a", "CRFs", "Used-for", "tagging"),
        ("b", None, None, None),
    ]
    assert [float(row["score"] or 0) for row in found] == [0.75, 0.5, 0.25, 0]
    assert [row["status"] for row in found] == [None, None, "asserted", None]


@pytest.mark.parametrize("format", FORMATS)
def test_read_back(tmp_path, format):
    documents = [FIRST, SECOND, Document("", id="empty"), DOCUMENT, Document.from_sentences([HOSTILE], id="hostile")]
    path = written(tmp_path / f"a.{format}", *documents, kept=["year"], fields={"year": 2020})
    # The sentences of the model are lost. With the text as one sentence, any relation can be placed.
    found = list(read_documents(path, "table", segmenter=split_characters))
    assert [one.id for one in found] == [one.id for one in documents]
    assert [annotations(one) for one in found] == [annotations(one) for one in documents]


@pytest.mark.parametrize("format", FORMATS)
def test_fields_that_are_carried_along(tmp_path, format):
    fields = {"year": 2020, "title": "A, b", "tags": ["x", {"y": None}]}
    found = rows(written(tmp_path / f"a.{format}", FIRST, fields=fields, kept=["title", "year", "tags", "none"]))
    assert {(row["title"], row["year"], row["tags"], row["none"]) for row in found} == {
        ("A, b", "2020", '["x", {"y": null}]', None)
    }


def test_fields_in_json_lines(tmp_path):
    path = written(tmp_path / "a.jsonl", FIRST, fields={"year": 2020}, kept=["year"])
    assert json.loads(path.read_text(encoding="utf-8"))["year"] == 2020


@pytest.mark.parametrize("format", FORMATS)
def test_no_documents(tmp_path, format):
    assert rows(written(tmp_path / f"a.{format}")) == []
    assert (tmp_path / f"a.{format}").stat().st_size


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_kept_of_a_stopped_run_can_be_read(tmp_path, format):
    writer = make_writer(format, tmp_path / f"a.{format}", schema=SCHEMA)
    writer.write(FIRST)
    kept = writer.abandon()
    assert kept is not None
    assert len(rows(kept)) == 3
    empty = make_writer(format, tmp_path / f"b.{format}", schema=SCHEMA)
    assert empty.abandon() is None
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


def test_many_rows_of_parquet(tmp_path):
    assert len(rows(written(tmp_path / "a.parquet", *[FIRST] * 3000))) == 9000


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_stream(monkeypatch, format):
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output))
    writer = make_writer(format, None, schema=SCHEMA)
    assert isinstance(writer.target, StreamTarget)
    writer.write(FIRST)
    writer.finish()
    assert b"tagging" in output.getvalue()


@pytest.mark.parametrize(
    ("format", "kept", "option"),
    [
        ("html", ["year"], "format"),
        ("table", ["year"], "format"),
        ("jsonl", ["text"], "keep"),
        ("csv", ["relation"], "keep"),
        ("csv", ["year", "year"], "keep"),
    ],
)
def test_fields_that_cannot_be_kept(tmp_path, format, kept, option):
    with pytest.raises(ConfigError) as error:
        make_writer(format, tmp_path / "a", schema=SCHEMA, kept=kept)
    assert error.value.option == option
    assert not list(tmp_path.iterdir())
