"""Files of raw text: found, unpacked, read line by line. More is tested where they are used."""

import bz2
import gzip
import lzma
import random
from pathlib import Path

import pytest

from cascade_srn.errors import DataError
from cascade_srn.inputs.raw_text import (
    ENDINGS,
    find_text_files,
    has_records,
    open_text,
    plain_name,
    read_lines,
)


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_lines_come_with_their_places_however_they_are_packed(tmp_path, ending, pack):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(pack(b"\xef\xbb\xbfone\r\n\ntwo"))
    assert [(line, place.where) for line, place in read_lines(path)] == [
        (b"one\r\n", "line 1"),
        (b"\n", "line 2"),
        (b"two", "line 3"),
    ]


def test_how_much_of_a_file_has_been_read(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(random.Random(0).randbytes(1 << 20)))
    with open_text(path) as file:
        assert file.position < path.stat().st_size
        list(file.lines())
        assert file.position == path.stat().st_size


def test_kinds_are_told_by_endings(tmp_path):
    assert ENDINGS[:2] == (".txt", ".txt.gz")
    assert has_records(Path("a.JSONL.xz"))
    assert not has_records(Path("a.txt"))
    assert plain_name(Path("a/b.txt.gz")) == Path("a/b.txt")


def test_a_file_that_is_not_packed_as_it_says(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"plain")
    with pytest.raises(DataError, match=r"a\.txt\.gz: .*line 0 \(Not a gzipped file"):
        list(read_lines(path))


def test_hidden_files_and_other_endings_are_left_out(tmp_path):
    for name in ("b.txt", "a.jsonl", ".c.txt", "d.md"):
        (tmp_path / name).touch()
    assert [path.name for path in find_text_files(tmp_path)] == ["a.jsonl", "b.txt"]
