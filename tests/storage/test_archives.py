import io
import struct
import tracemalloc
import zipfile
from dataclasses import replace

import pytest

from cascade_srn.errors import DataError
from cascade_srn.storage.archives import open_archive
from cascade_srn.storage.limits import FILE_VARIABLE, RATIO_VARIABLE, read_limits, reading_within

LIMITS = replace(read_limits(), archive_bytes=1 << 20, member_bytes=1 << 19, members=50, hint="Split it")
LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


@pytest.fixture
def make(tmp_path):
    def make(files, method=zipfile.ZIP_DEFLATED, change=lambda data: data):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", method) as packed:
            for name, data in files.items():
                packed.writestr(name, data)
        path = tmp_path / "a.zip"
        path.write_bytes(change(content.getvalue()))
        return path

    return make


def unpack(path, target):
    with reading_within(LIMITS), open_archive(path) as archive:
        archive.unpack(target)


def refused(path, target):
    """Return the error of an archive, after checking that it takes little memory and space."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as failure:
            unpack(path, target)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert failure.value.problem.startswith(str(path))
    assert failure.value.hint
    assert sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) <= 1 << 20
    return failure.value.problem


def state_size(size):
    """Return a change of an archive of one file that states another size in both headers."""

    def change(data):
        made = bytearray(data)
        for mark, at in ((LOCAL, 22), (CENTRAL, 24)):
            struct.pack_into("<I", made, data.index(mark) + at, size)
        return bytes(made)

    return change


def encrypt(data):
    made = bytearray(data)
    made[data.index(LOCAL) + 6] |= 1
    made[data.index(CENTRAL) + 8] |= 1
    return bytes(made)


def test_files_are_unpacked_with_their_folders(make, tmp_path):
    path = make({"a.txt": b"one", "b/c.txt": b"two", "d/": b""})
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out" / "b" / "c.txt").read_bytes() == b"two"
    with open_archive(path) as archive:
        assert archive.names == ["a.txt", "b/c.txt"]
        assert archive.read("a.txt") == b"one"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a": bytes(1 << 20)}, "more than 524,288 bytes"),
        ({str(number): bytes(1 << 18) for number in range(5)}, "more than 1,048,576 bytes"),
        ({str(number): b"" for number in range(51)}, "more than 50 files"),
        ({"../a": b"x"}, "outside of its folder"),
        ({"b/../../a": b"x"}, "outside of its folder"),
        ({"/a": b"x"}, "outside of its folder"),
        ({"a": b"x", "a/b": b"x"}, "not a readable ZIP archive"),
    ],
)
def test_an_archive_beyond_a_limit(make, tmp_path, files, problem):
    assert problem in refused(make(files), tmp_path / "out")
    assert not (tmp_path / "a").exists()


def test_the_size_in_the_header_is_not_trusted(make, tmp_path):
    assert "not a readable ZIP archive" in refused(make({"a": bytes(1 << 24)}, change=state_size(10)), tmp_path / "out")
    assert "524,288 bytes" in refused(make({"a": bytes(1 << 24)}, change=state_size(1 << 31)), tmp_path / "out")
    unpack(make({"a": b"x" * 100}, change=state_size(1 << 31)), tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"x" * 100


def test_an_encrypted_archive(make, tmp_path):
    path = make({"a": b"x"}, change=encrypt)
    assert refused(path, tmp_path / "out") == f"{path} is encrypted"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_expand_without_a_limit_are_refused(make, tmp_path, method):
    assert "compression other than deflate" in refused(make({"a": bytes(1 << 26)}, method), tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04" + bytes(100)])
def test_a_damaged_archive(tmp_path, data):
    (tmp_path / "a.zip").write_bytes(data)
    refused(tmp_path / "a.zip", tmp_path / "out")


def test_a_name_that_is_not_in_its_encoding(make, tmp_path):
    path = make({"\u00e4": b"x"}, change=lambda data: data.replace("\u00e4".encode(), b"\xff\xff"))
    assert "not a readable ZIP archive" in refused(path, tmp_path / "out")


def test_the_limits_of_the_command_line_name_their_variable(make, monkeypatch):
    path = make({"a": bytes(17 << 20)})
    for variable, value in ((FILE_VARIABLE, "1000"), (RATIO_VARIABLE, "2")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            with open_archive(path) as archive, pytest.raises(DataError) as failure:
                archive.read("a")
            assert variable in failure.value.hint
