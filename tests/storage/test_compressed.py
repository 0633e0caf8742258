import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path

import pytest

from cascade_srn.errors import DataError, MissingExtraError
from cascade_srn.storage.files import (
    PACKED,
    compress,
    damaged_file,
    decompress,
    decompress_as,
    is_compressed,
    plain_name,
)


def test_endings():
    assert all(is_compressed(Path(f"a.jsonl{ending}")) for ending in (*PACKED, ".XZ"))
    assert not any(is_compressed(Path(name)) for name in ("a.jsonl", "a.zip", "gz"))
    assert [plain_name(Path(name)).name for name in ("a.json.gz", "a.bz2", "a.txt")] == ["a.json", "a", "a.txt"]


@pytest.mark.parametrize(
    ("name", "unpack"), [("a", bytes), ("a.gz", gzip.decompress), ("a.xz", lzma.decompress), ("a.bz2", bz2.decompress)]
)
def test_there_and_back(name, unpack):
    on_disk = io.BytesIO()
    with compress(Path(name), on_disk) as handle:
        handle.write(b"one\n")
        handle.write(b"two\n")
    assert unpack(on_disk.getvalue()) == b"one\ntwo\n"  # complete, and the file is still open
    on_disk.seek(0)
    with decompress(Path(name), on_disk) as handle:
        assert list(handle) == [b"one\n", b"two\n"]
    assert not on_disk.closed


def test_zstandard():
    arrow = pytest.importorskip("pyarrow")
    packed = arrow.compress(b"one\ntwo\n", "zstd", asbytes=True)
    with decompress_as(".zst", io.BytesIO(packed), "a.zst") as handle:
        assert list(handle) == [b"one\n", b"two\n"]
    bomb = io.BytesIO(arrow.compress(bytes(40 << 20), "zstd", asbytes=True))
    with decompress_as(".zst", bomb, "a.zst") as handle, pytest.raises(DataError) as refused:
        handle.read()
    assert refused.value.problem.startswith("a.zst")


def test_zstandard_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError) as missing, decompress_as(".zst", io.BytesIO(), "a.zst"):
        pass
    assert "cascade-srn[corpus]" in missing.value.hint


def test_only_the_error_of_a_compressed_file_mentions_its_suffix():
    plain, packed = (damaged_file(Path(name), OSError("gone"), after="line 3") for name in ("a", "a.gz"))
    assert "suffix" not in plain.hint
    assert "suffix" in packed.hint
    assert all("line 3 (gone)" in error.problem for error in (plain, packed))
