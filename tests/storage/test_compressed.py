"""Files that are compressed, by their endings. More is tested where they are read and written."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest

from cascade_srn.storage.files import PACKED, broken, is_packed, packing, plain_name, unpacked


def test_endings():
    assert all(is_packed(Path(f"a.jsonl{ending}")) for ending in (*PACKED, ".XZ"))
    assert not any(is_packed(Path(name)) for name in ("a.jsonl", "a.zip", "gz"))
    assert [plain_name(Path(name)).name for name in ("a.json.gz", "a.bz2", "a.txt")] == ["a.json", "a", "a.txt"]


@pytest.mark.parametrize(
    ("name", "unpack"), [("a", bytes), ("a.gz", gzip.decompress), ("a.xz", lzma.decompress), ("a.bz2", bz2.decompress)]
)
def test_there_and_back(name, unpack):
    on_disk = io.BytesIO()
    with packing(Path(name), on_disk) as handle:
        handle.write(b"one\n")
        handle.write(b"two\n")
    assert unpack(on_disk.getvalue()) == b"one\ntwo\n"  # whole, and the file itself left open
    on_disk.seek(0)
    with unpacked(Path(name), on_disk) as handle:
        assert list(handle) == [b"one\n", b"two\n"]
    assert not on_disk.closed


def test_only_what_is_compressed_is_told_so():
    assert str(broken(Path("a"), OSError("gone"))) == "a: the file cannot be read (gone); check that it is whole"
    assert "after line 3 (gone); check that it is whole, and compressed as its ending says" in str(
        broken(Path("a.gz"), OSError("gone"), after="line 3")
    )
