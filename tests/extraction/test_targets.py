"""Files and folders that appear whole or not at all."""

import io
import os
from pathlib import Path

import pytest

from cascade_srn.errors import DataError
from cascade_srn.extraction.targets import AtomicFile, AtomicFolder, Stream


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "found.jsonl"
    path.write_bytes(b"before")
    target = AtomicFile(path)
    target.write(b"one\n")
    target.write(b"two\n")
    assert path.read_bytes() == b"before"
    target.commit()
    assert path.read_bytes() == b"one\ntwo\n"
    assert names(tmp_path) == ["found.jsonl"]


def test_a_part_is_kept_under_a_name_of_its_own(tmp_path):
    path = tmp_path / "found.jsonl"
    for expected in ("found.partial.jsonl", "found.partial-2.jsonl"):
        target = AtomicFile(path)
        target.write(b"one\n")
        assert target.abandon() == tmp_path / expected
        assert (tmp_path / expected).read_bytes() == b"one\n"
    assert names(tmp_path) == ["found.partial-2.jsonl", "found.partial.jsonl"]


def test_nothing_leaves_nothing(tmp_path):
    assert AtomicFile(tmp_path / "found").abandon() is None
    assert AtomicFolder(tmp_path / "folder").abandon() is None
    assert names(tmp_path) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    target = AtomicFile(tmp_path / "link")
    target.write(b"x")
    target.commit()
    assert (tmp_path / "real").read_bytes() == b"x"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no /dev/null here")
def test_a_device_is_written_to_as_it_is():
    target = AtomicFile(Path("/dev/null"))
    target.write(b"x")
    target.commit()
    assert not Path("/dev/null").is_file()
    assert AtomicFile(Path("/dev/null")).abandon() is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_told_with_the_path():
    target = AtomicFile(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left") as failure:
        target.write(b"x")
    assert failure.value.filename == "/dev/full"
    assert target.abandon() is None


def test_paths_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match="is a folder, but a file to write was expected"):
        AtomicFile(tmp_path)
    with pytest.raises(DataError, match="cannot be written .* check that its folder exists and is writable"):
        AtomicFile(tmp_path / "nowhere" / "found")
    with pytest.raises(DataError, match="cannot be written .* check that its folder exists and is writable"):
        AtomicFolder(tmp_path / "nowhere" / "found")
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(DataError, match="exists and is not an empty folder"):
            AtomicFolder(taken)


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_takes_its_place_when_it_is_whole(tmp_path, there):
    path = tmp_path / "found"
    if there:
        path.mkdir()
    target = AtomicFolder(path)
    (target.folder / "a").touch()
    assert os.path.exists(path) == there
    target.commit()
    assert names(tmp_path) == ["found"]
    assert names(path) == ["a"]


def test_a_part_of_a_folder(tmp_path):
    target = AtomicFolder(tmp_path / "found")
    (target.folder / "a").touch()
    assert target.abandon() == tmp_path / "found.partial"
    assert names(tmp_path / "found.partial") == ["a"]


def test_a_stream_has_everything_at_once():
    class Pipe(io.BytesIO):
        flushed = b""

        def flush(self):
            self.flushed = self.getvalue()

    target = Stream(Pipe())
    target.write(b"x")
    assert target.handle.flushed == b"x"
    target.commit()
    assert target.abandon() is None
