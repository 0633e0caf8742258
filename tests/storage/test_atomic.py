import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cascade_srn.errors import DataError, ModelError
from cascade_srn.storage import atomic
from cascade_srn.storage.atomic import (
    AtomicFile,
    AtomicFolder,
    clean_leftovers,
    open_without_links,
    replacing_folder,
    replacing_path,
    try_writing,
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


def filled(target):
    (target.folder / "a").touch()
    (target.folder / "below").mkdir()
    (target.folder / "below" / "b").touch()
    return target


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_takes_its_place_when_it_is_whole(tmp_path, there):
    path = tmp_path / "found"
    if there:
        path.mkdir()
        before = path.stat().st_ino
    target = filled(AtomicFolder(path))
    assert os.path.exists(path) == there
    target.commit()
    assert names(tmp_path) == ["found"]
    assert names(path) == ["a", "below"]
    assert names(path / "below") == ["b"]
    assert not there or path.stat().st_ino == before  # a mounted one could not be another


def test_a_part_of_a_folder(tmp_path):
    assert filled(AtomicFolder(tmp_path / "found")).abandon() == tmp_path / "found.partial"
    assert names(tmp_path) == ["found.partial"]
    assert names(tmp_path / "found.partial") == ["a", "below"]


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


def test_a_name_that_is_too_long_is_refused_at_once(tmp_path):
    for kind in (AtomicFile, AtomicFolder):
        with pytest.raises(DataError, match=r"\(File name too long\)"):
            kind(tmp_path / ("x" * 300))
    assert names(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are of another kind here")
def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "found"
    path.write_bytes(b"before")
    path.chmod(0o444)
    with pytest.raises(DataError, match=r"found "):
        AtomicFile(path)
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["found"]


posix = pytest.mark.skipif(os.name != "posix", reason="processes are of another kind here")


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    (tmp_path / "found.jsonl").write_bytes(b"before")
    process = writing_process(tmp_path)
    before = names(tmp_path)
    assert all(f"-{process.pid}-" in name for name in before[:2])
    clean_leftovers(tmp_path)
    assert names(tmp_path) == before
    killed(process)
    atomic._clean_once.cache_clear()
    target = AtomicFile(tmp_path / "found.jsonl")
    target.write(b"after")
    target.commit()
    assert names(tmp_path) == ["found.jsonl"]
    assert (tmp_path / "found.jsonl").read_bytes() == b"after"


@posix
def test_a_folder_that_a_killed_process_was_filling_is_empty_again(tmp_path):
    (tmp_path / "brat").mkdir()
    killed(writing_process(tmp_path))
    assert len(names(tmp_path / "brat")) == 1
    atomic._clean_once.cache_clear()
    filled(AtomicFolder(tmp_path / "brat")).commit()
    assert names(tmp_path / "brat") == ["a", "below"]


@posix
def test_foreign_files_are_not_cleaned(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    tail = f"-{process.pid}-{'0' * 16}.tmp"
    for name in (".cascade-srn.notes.tmp", f".cascade-srn.found.{'0' * 8}{tail}", f"found.{atomic._host()}{tail}"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / f".cascade-srn.link.{atomic._host()}{tail}").symlink_to("mine")
    before = names(tmp_path)
    (tmp_path / f".cascade-srn.found.{atomic._host()}{tail}").mkdir()
    clean_leftovers(tmp_path)
    assert names(tmp_path) == before


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


def test_links_are_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("years of work", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match="link "):
        open_without_links(tmp_path / "link", "wb")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "years of work"


# Folders that are replaced.

MARKER = "config.json"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / MARKER).write_text("old")
    (folder / "leftover").write_text("old")
    return folder


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def fill(target, text="new"):
    (target / MARKER).write_text(text)


@pytest.mark.parametrize("there", [False, True])
def test_a_new_folder_appears_with_its_parents(tmp_path, there):
    folder = tmp_path / "a" / "b" / "model"
    if there:
        folder.mkdir(parents=True)
    before = os.umask(0o022)
    try:
        with replacing_folder(folder, marker=MARKER) as fresh:
            fill(fresh)
            (fresh / MARKER).chmod(0o600)
            assert not (folder / MARKER).exists()
    finally:
        os.umask(before)
    assert contents(folder) == {MARKER: "new"}
    assert os.listdir(folder.parent) == ["model"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / MARKER).stat().st_mode) == 0o644


def test_a_model_is_replaced_whole(model):
    with replacing_folder(str(model), marker=MARKER) as fresh:
        fill(fresh)
        assert contents(model) == {MARKER: "old", "leftover": "old"}  # until all is written
    assert contents(model) == {MARKER: "new"}
    assert os.listdir(model.parent) == ["model"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(model, error):
    def write_half():
        with replacing_folder(model, marker=MARKER) as fresh:
            fill(fresh)
            raise error("full disk")

    with pytest.raises(error, match="full disk"):
        write_half()
    assert contents(model) == {MARKER: "old", "leftover": "old"}
    assert os.listdir(model.parent) == ["model"]


@pytest.fixture
def failing(monkeypatch):
    """Let renaming fail, once for each error that is given, after it went well ``after`` times.

    Folders are not exchanged, as on systems that cannot.
    """
    monkeypatch.setattr("cascade_srn.storage.atomic._exchange", lambda first, second: False)
    replace = os.replace

    def fail(*errors, after=0):
        outcomes = [*[None] * after, *errors]

        def failing(source, target):
            error = outcomes.pop(0) if outcomes else None
            if error is not None:
                raise error
            replace(source, target)

        monkeypatch.setattr(os, "replace", failing)

    return fail


def save(folder):
    with replacing_folder(folder, marker=MARKER) as fresh:
        fill(fresh)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may not exchange folders")
def test_a_folder_is_replaced_without_a_moment_in_which_it_is_missing(model, monkeypatch):
    monkeypatch.setattr(os, "replace", None)
    save(model)
    assert contents(model) == {MARKER: "new"}
    assert os.listdir(model.parent) == ["model"]


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt("Input/output error")])
def test_the_old_folder_is_restored_if_it_cannot_be_replaced(model, failing, after, error):
    failing(error, after=after)
    with pytest.raises(type(error), match="Input/output error"):
        save(model)
    assert contents(model) == {MARKER: "old", "leftover": "old"}
    assert os.listdir(model.parent) == ["model"]


def test_the_error_names_the_old_folder_if_it_cannot_be_restored(model, failing):
    failing(OSError(5, "Input/output error"), OSError(13, "Permission denied"), after=1)
    with pytest.raises(ModelError, match=r"model' .*\(Input/output error\).*'.*\.model-old-.*'.*'model'") as failure:
        save(model)
    (old,) = model.parent.iterdir()
    assert repr(str(old)) in str(failure.value)
    assert contents(old) == {MARKER: "old", "leftover": "old"}


@pytest.mark.parametrize("taken", ["folder", "marker", "file", "parent"])
def test_what_is_no_model_is_not_replaced(tmp_path, taken):
    path = tmp_path / "thesis"
    if taken in ("folder", "marker"):
        (path / (MARKER if taken == "marker" else "chapter")).mkdir(parents=True)
    else:
        path.write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(ModelError, match="thesis"),
        replacing_folder(path / "model" if taken == "parent" else path, marker=MARKER),
    ):
        pytest.fail("the block must not run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_to_a_model_still_leads_to_it(model, tmp_path):
    link = tmp_path / "best"
    link.symlink_to(model, target_is_directory=True)
    with replacing_folder(link, marker=MARKER) as fresh:
        fill(fresh)
    assert contents(link) == {MARKER: "new"}
    assert contents(model) == {MARKER: "new"}
    assert sorted(os.listdir(tmp_path)) == ["best", "model"]


def test_a_trial_of_writing_leaves_nothing_behind(tmp_path):
    try_writing(tmp_path / "new" / "below")
    assert not (tmp_path / "new").exists()
    (tmp_path / "there").mkdir()
    try_writing(tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"model_type": "bert"}'])
def test_a_marker_without_the_key_is_refused(tmp_path, content):
    """Encoders, and much else, have a file called config.json."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "config.json").write_text(content, encoding="utf-8")
    (folder / "precious.txt").write_text("p", encoding="utf-8")
    with (
        pytest.raises(ModelError, match="app'"),
        replacing_folder(folder, marker="config.json", key="cascade_srn_version"),
    ):
        pass
    assert (folder / "precious.txt").read_text(encoding="utf-8") == "p"
    (folder / "config.json").write_text('{"cascade_srn_version": "1"}', encoding="utf-8")
    with replacing_folder(folder, marker="config.json", key="cascade_srn_version") as fresh:
        (fresh / "new").touch()
    assert [member.name for member in folder.iterdir()] == ["new"]
