import bz2
import gzip
import json
import lzma

import pyarrow as pa
import pytest

from cascade_srn.errors import DataError
from cascade_srn.inputs.texts import find_texts, read_texts

TWO = ["One line\nand another.\n", "A café."]
PLAIN = "\n\nOne line\nand another.\n \n\t\nA café.".encode()
RECORDS = b"\n".join(json.dumps({"text": text}).encode() for text in [*TWO, " "]) + b"\n\n"
PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def texts(*paths, **options):
    return list(read_texts(find_texts(paths), **options))


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize(("kind", "content"), [(".txt", PLAIN), (".jsonl", RECORDS), (".TXT", PLAIN)])
def test_every_kind_of_file(tmp_path, kind, content, packed):
    path = tmp_path / f"v1.2{kind}{packed}"
    path.write_bytes(PACK[packed](content))
    assert texts(path) == TWO


def test_the_last_ending_counts(tmp_path):
    (tmp_path / "a.txt.jsonl").write_bytes(RECORDS)
    (tmp_path / "b.jsonl.txt").write_bytes(PLAIN)
    assert texts(tmp_path) == [*TWO, *TWO]


def test_folders_are_read_in_order_and_files_once(tmp_path):
    for name in ("b.txt", "a/z.txt", ".hidden/x.txt", "a/.x.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")
    (tmp_path / "notes.md").write_text("not read", encoding="utf-8")
    assert texts(tmp_path / "b.txt", tmp_path, tmp_path / "a") == ["b.txt", "a/z.txt"]


def test_a_file_without_blank_lines_is_read_in_parts(tmp_path):
    path = tmp_path / "a.txt"
    line = "word " * 20_000 + "\n"
    path.write_text(line * 30, encoding="utf-8")
    parts = texts(path)
    assert len(parts) > 1
    assert "".join(parts) == line * 30


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"text": "half', r"a\.jsonl, line 2"),
        (b"[1]", r"a\.jsonl, line 2: .*\[1\]"),
        (b'{"texts": "x"}', r"a\.jsonl, line 2.*'text'.*'texts'"),
        (b'{"text": null}', r"a\.jsonl, line 2.*'text' is null"),
        (b'{"text": "\xff"}', r"a\.jsonl, line 2.*UTF-8.*0xff"),
    ],
)
def test_records_that_cannot_be_read(tmp_path, line, told):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "x"}\n' + line)
    with pytest.raises(DataError, match=told):
        texts(path)


def test_plain_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\ntw\xe9\n")
    with pytest.raises(DataError, match=r"a\.txt, line 3.*UTF-8"):
        texts(path)


@pytest.mark.parametrize("packed", [".gz", ".xz", ".bz2"])
def test_compressed_files_that_are_not_whole(tmp_path, packed):
    path = tmp_path / f"a.txt{packed}"
    path.write_bytes(PACK[packed](PLAIN)[:-10])
    with pytest.raises(DataError, match=r"a\.txt.*line \d+"):
        texts(path)
    path.write_bytes(b"not compressed at all")
    with pytest.raises(DataError, match="not compressed with"):
        texts(path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="missing.txt"):
        find_texts([tmp_path / "missing.txt"])
    with pytest.raises(DataError, match=r"\.txt.*compressed or not"):
        find_texts([tmp_path])
    (tmp_path / "a.pdf").touch()
    with pytest.raises(DataError, match=r"a.pdf.*\.jsonl"):
        find_texts([tmp_path / "a.pdf"])
    with pytest.raises(DataError, match="local"):
        find_texts(["memory://a.txt"])


def test_text_that_looks_compressed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("BZh is no bzip2", encoding="utf-8")
    assert texts(path) == ["BZh is no bzip2"]
    path.write_bytes(bz2.compress(b""))
    with pytest.raises(DataError, match="compressed with bzip2"):
        texts(path)
