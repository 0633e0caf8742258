import datetime
import gzip
import json

import pytest
from tests.inputs.test_sources import read

from cascade_srn import Document
from cascade_srn.inputs.sources import Sources, Unreadable


def write_parquet(path, columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_rows(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    mark = "\t" if suffix == ".tsv" else ","
    lines = [f"id{mark}text{mark}year", f'x{mark}"One{mark} ""two""\n\nthree."{mark}1', f"{mark}Four é.{mark}2"]
    data = ("\ufeff" + "\r\n".join(lines)).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    first, second = read(path, keep=["year"])
    assert (first.id, first.text, first.fields) == ("x", f'One{mark} "two"\n\nthree.', {"year": "1"})
    assert (second.id, second.text, second.place) == ("a-5", "Four é.", f"{path}, line 5")
    assert second.position == path.stat().st_size


def test_parquet(tmp_path):
    day = datetime.date(2020, 1, 2)
    columns = {"text": ["One.", None, "Three."], "id": [1, 2, 3], "day": [day] * 3, "x": [float("nan"), 1.5, None]}
    path = write_parquet(tmp_path / "a.parquet", columns)
    first, second, third = read(path, keep=["day", "x"])
    assert (first.id, first.text, first.fields) == ("1", "One.", {"day": "2020-01-02", "x": None})
    assert isinstance(second, Unreadable)
    assert "row 2" in second.reason
    assert third.position == path.stat().st_size
    json.dumps([first.fields, third.fields])


def test_words_of_parquet(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", {"text": [[["A", "CRF"], ["It"]]]})
    (found,) = read(path)
    assert isinstance(found.text, Document)
    assert found.id == "a-1"


def test_malformed_rows_are_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\nx,One.\ny\nz,T\xffo.\n"q"r,Three.\n\nu,Four.\nv,"Five.')
    found = read(path)
    assert [isinstance(one, Unreadable) for one in found] == [False, True, True, True, False, True]
    assert [one.id for one in found if not isinstance(one, Unreadable)] == ["x", "u"]
    for one, line in zip((found[1], found[2], found[3]), (3, 4, 5), strict=True):
        assert f"line {line}:" in one.reason


@pytest.mark.parametrize(
    ("header", "options", "option"),
    [
        ("id,txt", {}, "field"),
        ("id,text", {"keep": ["year"]}, "keep"),
        ("id,text", {"field": "abstract"}, "field"),
        ("text,text", {}, ""),
        ('"text', {}, ""),
    ],
)
def test_columns_that_are_missing_or_repeated(tmp_path, header, options, option):
    (tmp_path / "a.csv").write_text(f"{header}\n1,One.\n", encoding="utf-8")
    (found,) = read(tmp_path / "a.csv", **options)
    assert isinstance(found, Unreadable)
    assert found.error.option == option


def test_folders_and_patterns(tmp_path):
    for name in ("a.txt", "b.csv", "c.csv"):
        (tmp_path / name).write_text("text\nOne.\n", encoding="utf-8")
    assert [one.id for one in read(tmp_path)] == ["a"]
    assert [one.id for one in read(f"{tmp_path}/*")] == ["a"]
    assert [one.id for one in read(f"{tmp_path}/*.csv")] == ["b-2", "c-2"]


def test_kept_fields_of_json_lines(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "year": 1}\n{"text": "Two."}\n', encoding="utf-8")
    sources = Sources([str(tmp_path / "a.jsonl")], keep=["year", "yaer"])
    assert [one.fields for one in sources] == [{"year": 1}, {}]
    assert sources.unseen == {"yaer"}
