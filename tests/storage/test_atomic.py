"""Files and folders that appear complete or not at all."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cascade_srn.errors import DataError
from cascade_srn.storage import atomic
from cascade_srn.storage.atomic import (
    AtomicFile,
    AtomicFolder,
    clean_leftovers,
    clean_leftovers_once,
    open_without_links,
    replacing_path,
)


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


def test_abandoning_an_empty_file_or_folder_leaves_nothing(tmp_path):
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
def test_a_device_is_written_to_directly():
    target = AtomicFile(Path("/dev/null"))
    target.write(b"x")
    target.commit()
    assert not Path("/dev/null").is_file()
    assert AtomicFile(Path("/dev/null")).abandon() is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_the_error_of_a_full_disk_has_the_path():
    target = AtomicFile(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left") as failure:
        target.write(b"x")
    assert failure.value.filename == "/dev/full"
    assert target.abandon() is None


def test_paths_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match=re.escape(str(tmp_path))):
        AtomicFile(tmp_path)
    for kind in (AtomicFile, AtomicFolder):
        with pytest.raises(DataError, match="nowhere/found .*No such file"):
            kind(tmp_path / "nowhere" / "found")
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(DataError, match=re.escape(str(taken))):
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


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="there is no /dev/fd here")
def test_an_open_pipe_is_written_to_directly():
    ours, theirs = os.pipe()
    target = AtomicFile(Path(f"/dev/fd/{theirs}"))
    os.close(theirs)
    target.write(b"x")
    target.commit()
    with open(ours, "rb") as reader:
        assert reader.read() == b"x"


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind here")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_has_the_permissions_of_the_one_that_it_replaces(tmp_path, mode):
    path = tmp_path / "found"
    path.touch()
    path.chmod(mode)
    target = AtomicFile(path)
    (beside,) = tmp_path.glob(".cascade-srn.*/found")
    assert stat.S_IMODE(beside.stat().st_mode) == mode  # before anything is written
    target.write(b"x")
    target.commit()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"x"


def test_permissions_that_cannot_be_given_leave_nothing(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "found").write_bytes(b"before")
    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(DataError, match=r"found .*\(Operation not permitted\)"):
        AtomicFile(tmp_path / "found")
    assert names(tmp_path) == ["found"]


def filled(target):
    (target.folder / "a").touch()
    (target.folder / "below").mkdir()
    (target.folder / "below" / "b").touch()
    return target


def test_a_folder_that_is_there_stays_the_same_folder(tmp_path):
    path = tmp_path / "found"
    path.mkdir()
    before = path.stat().st_ino
    filled(AtomicFolder(path)).commit()
    assert path.stat().st_ino == before  # a mounted one could not be another
    assert names(path) == ["a", "below"]
    assert names(path / "below") == ["b"]


def test_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "found").mkdir()
    monkeypatch.chdir(tmp_path / "found")
    filled(AtomicFolder(Path())).commit()
    assert names(tmp_path) == ["found"]
    assert names(tmp_path / "found") == ["a", "below"]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_through_a_link(tmp_path, there):
    if there:
        (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    filled(AtomicFolder(tmp_path / "link")).commit()
    assert names(tmp_path) == ["link", "real"]
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["a", "below"]


def test_a_folder_that_another_process_fills_meanwhile(tmp_path):
    (tmp_path / "found").mkdir()
    target = filled(AtomicFolder(tmp_path / "found"))
    (tmp_path / "found" / "a").write_text("of somebody else")
    with pytest.raises(DataError, match="found "):
        target.commit()
    assert target.abandon() == tmp_path / "found.partial"
    assert names(tmp_path / "found.partial") == ["a", "below"]
    assert (tmp_path / "found" / "a").read_text() == "of somebody else"
    assert names(tmp_path / "found") == ["a"]


def test_a_part_of_a_folder_beside_which_nothing_can_be(tmp_path, monkeypatch):
    (tmp_path / "found").mkdir()
    target = filled(AtomicFolder(tmp_path / "found"))
    replace = os.replace

    def within_one_disk(source, kept):
        if Path(kept).parent == tmp_path:
            raise OSError(18, "Invalid cross-device link")
        replace(source, kept)

    monkeypatch.setattr(os, "replace", within_one_disk)
    assert target.abandon() == tmp_path / "found" / "found.partial"
    assert names(tmp_path / "found") == ["found.partial"]
    assert names(tmp_path / "found" / "found.partial") == ["a", "below"]


def test_what_is_discarded_is_gone(tmp_path):
    file, folder = AtomicFile(tmp_path / "file"), filled(AtomicFolder(tmp_path / "folder"))
    file.write(b"x")
    file.discard()
    folder.discard()
    assert names(tmp_path) == []


needs_locks = pytest.mark.skipif(os.name != "posix", reason="there are no such locks here")

WRITER = """
import sys
from pathlib import Path
from cascade_srn.storage.atomic import AtomicFile, AtomicFolder
targets = AtomicFile(Path(sys.argv[1]) / "found.jsonl"), AtomicFolder(Path(sys.argv[1]) / "brat")
targets[0].write(b"half")
(targets[1].folder / "a.ann").touch()
print("writing", flush=True)
sys.stdin.read()
"""


def writing_process(folder):
    """Start a process that is in the middle of writing a file and a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


def killed(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()


@needs_locks
def test_a_temporary_name_has_product_target_and_process(tmp_path):
    file, folder = AtomicFile(tmp_path / "found.jsonl"), AtomicFolder(tmp_path / "brat")
    first, second = names(tmp_path)
    assert first.startswith(".cascade-srn.brat.")
    assert second.startswith(".cascade-srn.found.jsonl.")
    assert all(f"-{os.getpid()}-" in name and name.endswith(".tmp") for name in (first, second))
    file.discard()
    folder.discard()


@needs_locks
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    (tmp_path / "found.jsonl").write_bytes(b"before")
    process = writing_process(tmp_path)
    assert len(names(tmp_path)) == 3
    killed(process)
    assert len(names(tmp_path)) == 3
    clean_leftovers_once.cache_clear()
    target = AtomicFile(tmp_path / "found.jsonl")
    target.write(b"after")
    target.commit()
    assert names(tmp_path) == ["found.jsonl"]
    assert (tmp_path / "found.jsonl").read_bytes() == b"after"


@needs_locks
def test_what_a_live_process_writes_stays(tmp_path):
    process = writing_process(tmp_path)
    try:
        before = names(tmp_path)
        assert clean_leftovers(tmp_path) == []
        assert names(tmp_path) == before
    finally:
        killed(process)
    assert len(clean_leftovers(tmp_path)) == 2
    assert names(tmp_path) == []


@needs_locks
def test_a_folder_that_a_killed_process_was_filling_is_empty_again(tmp_path):
    (tmp_path / "brat").mkdir()
    killed(writing_process(tmp_path))
    assert len(names(tmp_path / "brat")) == 1
    clean_leftovers_once.cache_clear()
    filled(AtomicFolder(tmp_path / "brat")).commit()
    assert names(tmp_path / "brat") == ["a", "below"]


@needs_locks
def test_foreign_files_are_not_cleaned(tmp_path, monkeypatch):
    tail = f"-1-{'0' * 16}.tmp"
    kept = [
        ".0123456789abcdef.tmp",
        ".cascade-srn.lock",
        ".cascade-srn.notes.tmp",
        f".cascade-srn.found.{'0' * 8}{tail}",  # of another host
        f"cascade-srn.found.{atomic._host()}{tail}",
    ]
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / "mine").write_text("mine")
    link = f".cascade-srn.link.{atomic._host()}{tail}"
    (tmp_path / link).symlink_to("mine")
    os.mkfifo(tmp_path / f".cascade-srn.pipe.{atomic._host()}{tail}")
    before = names(tmp_path)
    assert clean_leftovers(tmp_path) == []
    own = [tmp_path / f".cascade-srn.{name}.{atomic._host()}{tail}" for name in ("file", "folder")]
    own[0].touch()
    own[1].mkdir()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert clean_leftovers(tmp_path) == []
    monkeypatch.undo()
    assert sorted(clean_leftovers(tmp_path)) == own
    assert names(tmp_path) == before


@needs_locks
def test_a_file_that_is_cleaned_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, taken = atomic._lock, []

    def late(path, descriptor):
        if not taken:
            taken.append(path)
            assert clean_leftovers(tmp_path) == [path]
        return lock(path, descriptor)

    monkeypatch.setattr(atomic, "_lock", late)
    target = AtomicFile(tmp_path / "found")
    target.write(b"x")
    target.commit()
    assert names(tmp_path) == ["found"]


def commit_file(folder):
    target = AtomicFile(folder / "found")
    target.write(b"x")
    target.commit()


def abandon_file(folder):
    target = AtomicFile(folder / "found")
    target.write(b"x")
    assert target.abandon() == folder / "found.partial"


def replace_path(folder):
    with replacing_path(folder / "found") as beside:
        beside.write_bytes(b"x")


@needs_locks
@pytest.mark.parametrize("write", [commit_file, abandon_file, replace_path])
def test_a_file_is_locked_until_it_has_its_name(tmp_path, monkeypatch, write):
    replace, cleaned = os.replace, []

    def late(source, target):
        cleaned.append(clean_leftovers(tmp_path))
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    write(tmp_path)
    assert cleaned == [[]]
    (written,) = tmp_path.iterdir()
    assert written.read_bytes() == b"x"


@needs_locks
def test_a_file_that_a_library_writes_is_named_and_locked(tmp_path):
    left = tmp_path / f".cascade-srn.found.{atomic._host()}-1-{'0' * 16}.tmp"
    left.touch()
    with replacing_path(tmp_path / "found") as beside:
        assert names(tmp_path) == [beside.parent.name]
        assert beside.parent.name.startswith(f".cascade-srn.found.{atomic._host()}-{os.getpid()}-")
        save_file({"a": np.zeros(1000)}, beside)
        assert clean_leftovers(tmp_path) == []
    assert names(tmp_path) == ["found"]
    assert load_file(tmp_path / "found")["a"].shape == (1000,)


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind here")
def test_a_part_of_a_file_that_cannot_be_read_is_kept(tmp_path, monkeypatch):
    (tmp_path / "found").touch(0o200)
    (tmp_path / "found").chmod(0o200)
    target = AtomicFile(tmp_path / "found")
    target.write(b"x")

    def refusing(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refusing)
    kept = target.abandon()
    monkeypatch.undo()
    assert kept == tmp_path / "found.partial"
    kept.chmod(0o600)
    assert kept.read_bytes() == b"x"


def test_a_name_that_is_too_long_is_refused_at_once(tmp_path):
    for kind in (AtomicFile, AtomicFolder):
        with pytest.raises(DataError, match=r"\(File name too long\)"):
            kind(tmp_path / ("x" * 300))
    assert names(tmp_path) == []


def test_the_longest_name_is_written_and_a_part_of_it_kept(tmp_path):
    name = "\u00e9" * 124 + ".jsonl"
    target = AtomicFile(tmp_path / name)
    target.write(b"x")
    target.commit()
    assert names(tmp_path) == [name]
    target = AtomicFile(tmp_path / name)
    target.write(b"y")
    kept = target.abandon()
    assert kept.name.endswith("\u00e9.partial.jsonl")
    assert kept.read_bytes() == b"y"


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind here")
def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "found"
    path.write_bytes(b"before")
    path.chmod(0o444)
    with pytest.raises(DataError, match=r"found "):
        AtomicFile(path)
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["found"]


@pytest.fixture
def order(monkeypatch):
    """What is flushed and renamed, in order: the kind of thing that is flushed, and the new name."""
    found = []
    fsync, replace = os.fsync, os.replace

    def flushing(descriptor):
        found.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renaming(source, target):
        found.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushing)
    monkeypatch.setattr(os, "replace", renaming)
    return found


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path, order):
    target = AtomicFile(tmp_path / "found")
    target.write(b"all")
    target.commit()
    assert order == ["file", "found", "folder"]


def test_a_file_that_a_library_wrote_is_on_disk_before_it_has_its_name(tmp_path, order):
    with replacing_path(tmp_path / "found") as beside:
        beside.write_bytes(b"all")
    assert order == ["file", "found", "folder"]
    assert names(tmp_path) == ["found"]


def test_what_a_library_did_not_finish_is_removed(tmp_path):
    with pytest.raises(FileNotFoundError), replacing_path(tmp_path / "found"):
        (tmp_path / "nowhere").read_bytes()
    assert names(tmp_path) == []


def test_a_folder_is_flushed_once_with_all_that_is_in_it(tmp_path, order):
    target = filled(AtomicFolder(tmp_path / "folder"))
    inside = AtomicFile(target.folder / "c")
    inside.write(b"all")
    inside.commit()
    assert order == ["c"]
    target.commit()
    # Its three files, itself and the folder in it, and after the renaming the folder that it is in.
    assert order[1:] == ["file"] * 3 + ["folder"] * 2 + ["folder", "folder"]
    assert names(tmp_path) == ["folder"]


def test_a_folder_that_cannot_be_flushed_is_no_failure(tmp_path, monkeypatch):
    fsync = os.fsync

    def refusing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refusing)
    target = AtomicFile(tmp_path / "found")
    target.write(b"all")
    target.commit()
    assert names(tmp_path) == ["found"]


def test_links_are_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("years of work", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match="link "):
        open_without_links(tmp_path / "link", "wb")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "years of work"
