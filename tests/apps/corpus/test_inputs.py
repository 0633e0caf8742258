import bz2
import gzip
import json
import lzma
import os
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cascade_srn.apps.corpus.inputs import InputChangedError, InputSettings, RowReader, find_input_files, kept_types
from cascade_srn.apps.corpus.shards import Shard, plan_shards
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.inputs import open as opening
from cascade_srn.storage.limits import LINE_VARIABLE


def json_lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


TWO = json_lines({"text": "a"}, {"text": "b"})
BOM = b"\xef\xbb\xbf"


def read(addresses, **settings):
    """Read all rows of an input, shard by shard."""
    chosen = InputSettings(**settings)
    files = find_input_files(addresses, chosen)
    with RowReader(files, chosen) as reader:
        rows = [row for shard in plan_shards(files, chosen) for row in reader.read(shard)]
    assert len(rows) == sum(file.n_rows for file in files) or chosen.limit
    return rows


def write_parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)


@pytest.fixture
def memory():
    """The file system in memory, empty before and after."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


# Content of one file, and its rows: the text, or the start of the problem in a tuple.
AWKWARD = {
    "bom.jsonl": (BOM + TWO, ["a", "b"]),
    "crlf.jsonl": (TWO.replace(b"\n", b"\r\n"), ["a", "b"]),
    "no-newline.jsonl": (TWO[:-1], ["a", "b"]),
    "blank-lines.jsonl": (b"\n \n" + TWO.replace(b"\n", b"\n\n\t\n"), ["a", "b"]),
    "cut-off.jsonl": (TWO + b'{"text": "c', ["a", "b", ("line 3: the line is not valid JSON",)]),
    "one-cut-off.ndjson": (b'{"text": "c', [("line 1: the line is not valid JSON",)]),
    "one-record.json": (b'{"text": "a"}', ["a"]),
    "not-objects.jsonl": (
        b'"x"\n5\nnull\n[1]\n' + TWO,
        [*[(f"line {n}: the line is",) for n in (1, 2, 3, 4)], "a", "b"],
    ),
    "empty-texts.jsonl": (json_lines({"text": ""}, {"text": " \n"}), ["", " \n"]),
    "no-texts.jsonl": (
        b'{"text": NaN}\n{"text": null}\n{"text": 3}\n{"text": ["a"]}\n{"title": "t"}\n{"text": "a", "x": NaN}\n',
        [*[(f"line {n}: the field 'text' is",) for n in (1, 2, 3, 4)], ("line 5: the record has no field",), "a"],
    ),
    "repeated-key.jsonl": (b'{"text": "a", "text": "b"}\n' + TWO, [("line 1: ",), "a", "b"]),
    "surrogates.jsonl": (b'{"text": "\\ud800"}\n{"text": "\\ud83d\\ude00"}\n', [("line 1: the field",), "\U0001f600"]),
    "latin-1.jsonl": (b'{"text": "caf\xe9"}\n' + TWO, [("line 1: the line is not UTF-8",), "a", "b"]),
    "nul.jsonl": (b"\0\0\n" + TWO, [("line 1: ",), "a", "b"]),
    "deep.jsonl": (b'{"text": ' + b"[" * 100_000 + b"\n" + TWO, [("line 1: ",), "a", "b"]),
    "long-number.jsonl": (b'{"text": "a", "n": ' + b"9" * 5000 + b"}\n" + TWO, [("line 1: ",), "a", "b"]),
    "members.jsonl.gz": (gzip.compress(TWO) + gzip.compress(TWO), ["a", "b", "a", "b"]),
    "UPPER.JSONL.GZ": (gzip.compress(TWO), ["a", "b"]),
    "xz.jsonl.xz": (lzma.compress(TWO), ["a", "b"]),
    "bz2.jsonl.bz2": (bz2.compress(TWO), ["a", "b"]),
    "frames.jsonl.zst": (pa.compress(TWO, "zstd", asbytes=True) * 2, ["a", "b", "a", "b"]),
    "no-suffix": (TWO, ["a", "b"]),
    "no-suffix-packed": (gzip.compress(TWO), ["a", "b"]),
    "quotes.csv": (b'id,text\r\n1,"a ""b"" \xc3\xa9\r\nc"\r\n\r\n2,d\r\n', ['a "b" \xe9\r\nc', "d"]),
    "bom.csv": (BOM + b"text\nhello\n", ["hello"]),
    "nul.csv": (b"id,text\n1,a\0b\n", ["a\0b"]),
    "empty-cell.csv": (b"id,text\n1,\n", [""]),
    "bad-rows.csv": (
        b'id,text\n1,"a"b\n2,c,d\n3\n4,caf\xe9\n5,ok\n',
        [*[(f"line {n}: the record",) for n in (2, 3, 4)], ("line 5: the field 'text' is not valid UTF-8",), "ok"],
    ),
    "tabs.tsv": (b'id\ttext\n1\ta, "b"\n2\t"x\ty"\n', ['a, "b"', "x\ty"]),
    "bom.txt": (BOM + b"hello\r\n", ["hello\r\n"]),
    "empty.txt": (b"", [""]),
    "packed.txt.gz": (gzip.compress(b"hello"), ["hello"]),
    "latin-1.txt": (b"caf\xe9", [("the text is not UTF-8",)]),
    "utf-16.txt": ("caf\xe9\r\n".encode("utf-16"), ["caf\xe9\r\n"]),
    "utf-16.txt.gz": (gzip.compress("caf\xe9".encode("utf-16")), ["caf\xe9"]),
    "half-utf-16.txt": ("hello".encode("utf-16")[:-1], [("the file starts with the byte-order mark",)]),
    "utf-16.jsonl": (TWO.decode().encode("utf-16"), ["a", "b"]),
    "utf-16.csv": ("id,text\n1,a\n2,\u4e00\n".encode("utf-16"), ["a", "\u4e00"]),
    "utf-16-without-suffix": (TWO.decode().encode("utf-16"), ["a", "b"]),
    "utf-32.jsonl": (TWO.decode().encode("utf-32"), ["a", "b"]),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("shard_documents", [1, 1000])
def test_awkward_files(tmp_path, name, shard_documents):
    content, expected = AWKWARD[name]
    (tmp_path / name).write_bytes(content)
    rows = read(str(tmp_path / name), shard_documents=shard_documents)
    assert [row.row for row in rows] == list(range(len(expected)))
    for row, text in zip(rows, expected, strict=True):
        assert row.input == name
        if isinstance(text, tuple):
            assert row.text is None
            assert row.problem.startswith(text[0])
        else:
            assert (row.text, row.problem) == (text, "")


@pytest.mark.parametrize("shard_documents", [1, 1000])
def test_a_named_encoding(tmp_path, shard_documents):
    (tmp_path / "a.jsonl").write_bytes('{"text": "é"}\n{"text": "ü"}\n'.encode("latin-1"))
    write_parquet(tmp_path / "b.parquet", {"text": ["é"]})
    paths = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.parquet")]
    rows = read(paths, shard_documents=shard_documents, encoding="latin-1")
    assert [row.text for row in rows] == ["é", "ü", "é"]


def _damaged(table, at=40):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = bytearray(sink.getvalue().to_pybytes())
    data[at : at + 60] = b"\xff" * 60
    return bytes(data)


TABLE = pa.table({"text": [f"text {n}" for n in range(50)]})
REFUSED = {
    "empty.jsonl": b"",
    "blank.jsonl": b"\n \n",
    "mark-only.jsonl": BOM,
    "empty.csv": b"",
    "header-only.csv": b"id,text\n",
    "array.jsonl": b'[{"text": "a"}]',
    "array.json": b'[\n{"text": "a"},\n{"text": "b"}\n]',
    "lines-of-array.json": b'[\n{"text": "a"}\n]',
    "indented.json": b'{\n  "text": "a"\n}\n',
    "plain.jsonl": b"hello\nworld\n",
    "strings.jsonl": b'"a"\n"b"\n',
    "half-utf-16.jsonl": TWO.decode().encode("utf-16")[:-1],
    "not-gzip.jsonl.gz": TWO,
    "other.jsonl.gz": lzma.compress(TWO),
    "packed.jsonl": gzip.compress(TWO),
    "cut-off.jsonl.gz": gzip.compress(TWO * 1000)[:-20],
    "garbage-after.jsonl.gz": gzip.compress(TWO) + b"garbage",
    "checksum.jsonl.gz": gzip.compress(TWO)[:-8] + b"\0" * 8,
    "cut-off.jsonl.xz": lzma.compress(TWO * 100)[:-10],
    "cut-off.jsonl.bz2": bz2.compress(TWO * 100)[:-10],
    "cut-off.jsonl.zst": pa.compress(bytes(range(256)) * 10 + TWO, "zstd", asbytes=True)[:-6],
    "bomb.jsonl.gz": gzip.compress(b"\0" * (20 << 20)),
    "json.parquet": TWO,
    "empty.parquet": b"",
    "short.parquet": b"PAR1",
    "damaged.parquet": _damaged(TABLE),
    "packed.parquet.gz": gzip.compress(_damaged(TABLE)),
    "parquet.jsonl": _damaged(TABLE),
    "open-quotes.csv": b'id,text\n1,"abc\n2,def\n',
    "semicolons.csv": b"id;text\n1;a\n",
    "carriage-returns.csv": b"id,text\r1,a\r",
    "repeated.csv": b"text,text\na,b\n",
    "unknown.pdf": b"%PDF-1.4",
    "unknown": b"hello",
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(REFUSED[name])
    with pytest.raises(DataError) as refused:
        find_input_files(str(tmp_path / name))
    assert name in refused.value.problem
    assert "\n" not in str(refused.value)
    assert refused.value.hint


# Offsets and bytes of two strings, the second of which is not UTF-8.
BAD_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None, "b"]), ["a", None, "b"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        (pa.array([b"a", b"\xff"]), ["a", None]),
        (pa.nulls(2), [None, None]),
        (BAD_UTF8, ["a", None]),
    ],
)
def test_kinds_of_parquet_columns(tmp_path, column, expected):
    write_parquet(tmp_path / "a.parquet", {"text": column})
    rows = read(str(tmp_path))
    assert [row.text for row in rows] == expected
    assert all(bool(row.problem) == (row.text is None) for row in rows)


@pytest.mark.parametrize(
    "columns", [{"text": [1, 2]}, {"Text": ["a"]}, {"text": [["a"]]}, {"text": pa.array([], pa.string())}]
)
def test_parquet_without_texts(tmp_path, columns):
    write_parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError):
        find_input_files(str(tmp_path))


def test_parquet_is_read_from_any_row(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"text": [str(n) for n in range(300)], "id": range(300)}, row_group_size=70)
    settings = InputSettings()
    files = find_input_files(str(tmp_path), settings)
    reader = RowReader(files, settings)
    for first, stop in ((0, 3), (3, 5), (150, 152), (139, 141), (299, 300), (0, 300)):
        rows = list(reader.read(Shard("x", ((0, first, stop),))))
        assert [(row.id, row.text) for row in rows] == [(str(n), str(n)) for n in range(first, stop)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_shards_are_read_in_any_order(tmp_path, kind, suffix):
    if kind == "csv":
        content = b"id,text\n" + b"".join(b'%d,"x\n%d"\n\n' % (n, n) for n in range(50))
    else:
        content = b"\n".join(json_lines({"id": n, "text": f"x\n{n}"}) for n in range(50))
    path = tmp_path / f"a.{kind}{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    settings = InputSettings(shard_documents=7)
    files = find_input_files(str(path), settings)
    shards = plan_shards(files, settings)
    forward = {shard.id: list(RowReader(files, settings).read(shard)) for shard in shards}
    assert [row.text for rows in forward.values() for row in rows] == [f"x\n{n}" for n in range(50)]
    with RowReader(files, settings) as reader:
        for at in (3, 4, 6, 0, 7, 2, 2):
            assert list(reader.read(shards[at])) == forward[shards[at].id]


def test_a_shard_that_is_abandoned_can_be_read_again(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(TWO))
    files = find_input_files(str(tmp_path))
    (shard,) = plan_shards(files, InputSettings())
    with RowReader(files, InputSettings()) as reader:
        assert next(reader.read(shard)).text == "a"
        assert [row.text for row in reader.read(shard)] == ["a", "b"]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "txt"])
def test_a_record_above_the_limit_is_a_problem(tmp_path, monkeypatch, kind):
    monkeypatch.setenv(LINE_VARIABLE, "100")
    long = "y" * 300_000
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": "x"}, {"text": long}, {"text": "z"}))
    (tmp_path / "a.csv").write_text(f'id,text\n1,x\n2,"{long}"\n3,z\n')
    (tmp_path / "a.txt").write_text(long)
    rows = read(str(tmp_path / f"a.{kind}"))
    assert [row.text for row in rows] == ([None] if kind == "txt" else ["x", None, "z"])
    assert "100 bytes" in rows[len(rows) // 2].problem


def test_ids(tmp_path):
    given = [{"id": id, "text": "a"} for id in (1, "1", 2.0, 1.5, None, "", True, [1])]
    (tmp_path / "a.jsonl").write_bytes(json_lines(*given, {"text": "a"}) + b'{"text": "a", "id": NaN}\n')
    rows = read(str(tmp_path))
    by_place = [f"a.jsonl:{n}" for n in range(10)]
    assert [row.id for row in rows] == ["1", "1", "2", "1.5", *by_place[4:]]
    assert [row.row for row in rows if row.problem] == [6, 7]


def test_id_field(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines({"key": "k", "id": "i", "text": "a"}, {"id": "i", "text": "a"}))
    assert [row.id for row in read(str(tmp_path), id_field="key")] == ["k", "a.jsonl:1"]


@pytest.mark.parametrize(
    ("settings", "option", "hint"),
    [
        ({"field": "txt"}, "field", "'text'"),
        ({"id_field": "idd"}, "id_field", "'id'"),
        ({"keep": ("yaer:int64",)}, "keep", "'year'"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_field_that_no_record_has(tmp_path, kind, settings, option, hint):
    (tmp_path / "a.jsonl").write_bytes(json_lines({"id": 1, "year": 2, "text": "a"}))
    (tmp_path / "a.csv").write_text("id,year,text\n1,2,a\n")
    write_parquet(tmp_path / "a.parquet", {"id": [1], "year": [2], "text": ["a"]})
    with pytest.raises(DataError) as missing:
        find_input_files(str(tmp_path / f"a.{kind}"), InputSettings(**settings))
    assert missing.value.option == option
    assert hint in missing.value.hint


def test_kept_values(tmp_path):
    records = [
        {"text": "a", "s": value, "i": value, "f": value, "b": value} for value in (None, 3, "3", "", True, "x", [1])
    ]
    (tmp_path / "a.jsonl").write_bytes(json_lines(*records))
    path = str(tmp_path)
    assert [row.kept["s"] for row in read(path, keep=("s",))] == [None, "3", "3", "", "true", "x", "[1]"]

    def converted(keep):
        return ["bad" if row.problem else row.kept[keep[0]] for row in read(path, keep=(keep,))]

    assert converted("i:int64") == [None, 3, 3, None, "bad", "bad", "bad"]
    assert converted("f:float64") == [None, 3.0, 3.0, None, "bad", "bad", "bad"]
    assert converted("b:bool") == [None, "bad", "bad", None, True, "bad", "bad"]
    assert read(path, keep=("i:int64",))[5].problem == "line 6: the field 'i' is 'x', not of type int64"


def test_integers_of_pandas_and_integers_that_are_too_large(tmp_path):
    (tmp_path / "a.csv").write_text("text,n\na,2019.0\na,-5\na,9223372036854775807\na,9223372036854775808\na,1.5\n")
    rows = read(str(tmp_path), keep=("n:int64",))
    assert [row.kept.get("n") for row in rows] == [2019, -5, 2**63 - 1, None, None]
    assert [bool(row.problem) for row in rows] == [False, False, False, True, True]


def test_types_of_kept_columns(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": "a", "n": "7", "s": 1}))
    columns = {
        "text": ["b"],
        "n": pa.array([5], pa.int64()),
        "when": pa.array([0], pa.timestamp("us")),
        "u": pa.nulls(1),
    }
    write_parquet(tmp_path / "b.parquet", columns)
    settings = InputSettings(keep=("n", "s", "u", "when", "f:float64"), field="text")
    (tmp_path / "c.csv").write_text("text,f\nc,1.5\n")
    files = find_input_files(str(tmp_path), settings)
    assert kept_types(files, settings) == {
        "n": pa.int64(),
        "s": pa.string(),
        "u": pa.string(),
        "when": pa.timestamp("us"),
        "f": pa.float64(),
    }
    rows = read(str(tmp_path), keep=settings.keep)
    assert [row.kept["n"] for row in rows] == [7, 5, None]
    assert rows[2].kept["f"] == 1.5


def test_parquet_files_that_disagree_about_a_type(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"text": ["a"], "n": [1]})
    write_parquet(tmp_path / "b.parquet", {"text": ["b"], "n": ["x"]})
    with pytest.raises(DataError) as different:
        find_input_files(str(tmp_path), InputSettings(keep=("n",)))
    assert different.value.option == "keep"
    assert [row.kept for row in read(str(tmp_path), keep=("n:string",))] == [{"n": "1"}, {"n": "x"}]


@pytest.mark.parametrize("keep", ["n", "n:int64", "n:float64", "n:bool"])
def test_nan_is_a_missing_value(tmp_path, keep):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a", "n": NaN}\n')
    assert [row.kept for row in read(str(tmp_path), keep=(keep,))] == [{"n": None}]


@pytest.mark.parametrize(
    "settings",
    [
        {"format": "xml"},
        {"shard_documents": 0},
        {"shard_bytes": 0},
        {"limit": 0},
        {"keep": ("Text",)},
        {"keep": ("document_id",)},
        {"keep": ("year", "year:int64")},
    ],
)
def test_settings_that_are_refused(settings):
    with pytest.raises(ConfigError):
        InputSettings(**settings)


def test_folders_patterns_and_repeats(tmp_path):
    for name in (
        "b.jsonl",
        "a.txt",
        "sub/c.csv",
        ".hidden.txt",
        "_part.txt",
        "_tmp/d.txt",
        ".git/e.txt",
        "note.md",
        "x.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"text\nx\n" if name.endswith("csv") else TWO)
    os.symlink("..", tmp_path / "sub" / "up")
    os.symlink("b.jsonl", tmp_path / "z.jsonl")
    folder = str(tmp_path)
    found = find_input_files(
        [f"{folder}/*.jsonl", folder, Path(folder, "b.jsonl"), f"{folder}/../{tmp_path.name}/a.txt"]
    )
    assert [file.name for file in found] == ["a.txt", "b.jsonl", "note.md", "sub/c.csv"]
    assert [file.address for file in found] == [f"{folder}/{file.name}" for file in found]
    assert [file.name for file in find_input_files(f"{folder}/**/*.*sv")] == ["c.csv"]
    assert [file.name for file in find_input_files(f"{folder}/*.json")] == ["x.json"]
    assert [file.name for file in find_input_files(f"{folder}/*")] == ["_part.txt", "a.txt", "b.jsonl", "note.md"]
    texts = find_input_files(folder, InputSettings(format="text"))
    assert {file.name for file in texts} == {"a.txt", "b.jsonl", "note.md", "sub/c.csv", "x.json"}
    assert {file.format for file in texts} == {"text"}


def test_relative_paths_become_absolute(tmp_path, monkeypatch):
    (tmp_path / "a [1].txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    (file,) = find_input_files("a [1].txt")
    assert file.address == str(tmp_path / "a [1].txt")
    assert file == find_input_files(f"file://{tmp_path}/a [1].txt")[0]


def test_names_that_are_not_utf8(tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        (tmp_path / name).write_text("x")
    except (OSError, UnicodeError):
        pytest.skip("the file system has UTF-8 names only")
    (row,) = read(str(tmp_path))
    assert row.text == "x"
    assert row.id == "caf\ufffd.txt"


def test_the_output_is_no_input(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "outer.txt").write_text("x")
    (tmp_path / "out" / "b.txt").write_text("x")
    found = find_input_files(str(tmp_path), skip=str(tmp_path / "out"))
    assert [file.name for file in found] == ["outer.txt"]


@pytest.mark.parametrize(
    "address", ["missing.txt", "missing/*.txt", "empty", "pipe.txt", "dangling.txt", "nul\0.txt", "full/*.rst"]
)
def test_inputs_that_do_not_exist(tmp_path, address):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.rst").write_text("x")
    os.mkfifo(tmp_path / "pipe.txt")
    os.symlink("nowhere", tmp_path / "dangling.txt")
    with pytest.raises(DataError) as missing:
        find_input_files(str(tmp_path / address))
    assert "\n" not in str(missing.value)
    assert missing.value.hint


def test_permission_errors_are_errors_of_the_input(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(opening, "open", refuse, raising=False)
    with pytest.raises(DataError) as refused:
        find_input_files(str(tmp_path))
    assert "permission" in refused.value.problem


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("s33://bucket/a.jsonl", "not known"),
        ("memory://missing/a.jsonl", "does not exist"),
        ("memory://missing/*.jsonl", "no file matches"),
        ("zip://a.jsonl::missing.zip", "missing.zip"),
    ],
)
def test_addresses_that_are_refused(memory, address, part):
    with pytest.raises(DataError) as refused:
        find_input_files(address)
    assert part in refused.value.problem
    assert refused.value.hint


def test_a_missing_package_is_named(monkeypatch):
    def no_package(address):
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr("fsspec.core.url_to_fs", no_package)
    with pytest.raises(DataError) as refused:
        find_input_files("gs://bucket/a.jsonl")
    assert refused.value.hint == "Run pip install gcsfs"


def test_remote_files(memory, tmp_path):
    write_parquet(tmp_path / "d.parquet", {"text": ["d", "e"]})
    contents = {
        "a.jsonl.gz": gzip.compress(TWO),
        "sub/b.csv": b"text\nc\n",
        "sub/d.parquet": (tmp_path / "d.parquet").read_bytes(),
        "_x.txt": b"x",
    }
    for name, content in contents.items():
        memory.pipe(f"/data/{name}", content)
    expected = ["a", "b", "c", "d", "e"]
    for address in ("memory://data", "memory:///data/", "memory://data/**"):
        rows = read(address, shard_documents=2)
        assert [row.text for row in rows if row.input != "_x.txt"] == expected
    assert {row.input for row in read("memory://data")} == {"a.jsonl.gz", "sub/b.csv", "sub/d.parquet"}
    for name, content in contents.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(content)
    remote, local = find_input_files("memory://data"), find_input_files(str(tmp_path / "data"))
    assert remote == local
    assert plan_shards(remote, InputSettings()) == plan_shards(local, InputSettings())


def test_chained_addresses(memory, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/a.jsonl", TWO)
        archive.writestr("x/b.txt", "c")
    for address in (f"zip://x::{tmp_path}/a.zip", f"zip://x/*::file://{tmp_path}/a.zip"):
        assert [row.text for row in read(address)] == ["a", "b", "c"]
    memory.pipe("/data/a.jsonl", TWO)
    assert [row.text for row in read("simplecache::memory://data")] == ["a", "b"]


def test_errors_of_file_systems_are_errors_of_the_input(memory, monkeypatch):
    memory.pipe("/data/a.jsonl", TWO)

    def fail(*args, **kwargs):
        raise RuntimeError("the connection\nwas lost")

    monkeypatch.setattr(type(memory), "open", fail)
    with pytest.raises(DataError) as refused:
        find_input_files("memory://data/a.jsonl")
    assert "the connection" in refused.value.problem
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", ["longer", "same size", "gone"])
@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_that_changed_is_noticed(memory, tmp_path, change, is_local):
    address = str(tmp_path / "a.jsonl") if is_local else "memory://data/a.jsonl"
    fs, path = fsspec.core.url_to_fs(address)
    fs.pipe(path, TWO)
    settings = InputSettings(shard_documents=1)
    files = find_input_files(address, settings)
    first, second = plan_shards(files, settings)
    reader = RowReader(files, settings)
    assert next(reader.read(first)).text == "a"
    if change == "gone":
        fs.rm(path)
    else:
        fs.pipe(path, TWO + TWO if change == "longer" else TWO.replace(b"b", b"c"))
        if is_local:
            os.utime(path, ns=(1, 1))
    with pytest.raises(DataError if change == "gone" else InputChangedError):
        list(reader.read(second))


def test_a_file_with_fewer_rows_than_planned(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(TWO)
    (file,) = find_input_files(str(tmp_path))
    for part in ((0, 0, 3), (0, 5, 6)):
        with pytest.raises(InputChangedError):
            list(RowReader([file], InputSettings()).read(Shard("x", (part,))))


def test_a_limit_reads_only_the_files_it_needs(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(TWO)
    (tmp_path / "d.jsonl").write_bytes(b"[")
    rows = read(str(tmp_path), limit=3, shard_documents=2)
    assert [(row.id, row.text) for row in rows] == [("a.jsonl:0", "a"), ("a.jsonl:1", "b"), ("b.jsonl:0", "a")]


def test_id_and_row_are_unique_where_small_files_share_a_shard(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}\n')
    settings = InputSettings()
    files = find_input_files(str(tmp_path), settings)
    (shard,) = plan_shards(files, settings)
    rows = list(RowReader(files, settings).read(shard))
    assert [(row.id, row.row) for row in rows] == [("1", 0), ("2", 1), ("b.jsonl:1", 0), ("b.jsonl:2", 1)]
