"""The log of changes: durable, compacted, and robust against kills and full disks."""

import errno
import os

import pytest

from cascade_srn.apps.annotation.files import LOG, SNAPSHOT, Change, ChangeLog, read_lines
from cascade_srn.errors import DataError


def change(version, number=None, document="d"):
    return Change(number or version, document, "anna", version, "now", {"version": version, "note": "ü"})


def stored(folder):
    return {key: one.version for key, one in ChangeLog(folder, read_only=True).last.items()}


def test_a_change_is_in_the_file_when_append_returns(tmp_path):
    log = ChangeLog(tmp_path)
    log.append(change(1))
    assert stored(tmp_path) == {("d", "anna"): 1}
    log.append(change(2), change(3, document="e"))
    assert stored(tmp_path) == {("d", "anna"): 2, ("e", "anna"): 3}


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_an_incomplete_last_line_is_dropped(tmp_path, cut):
    log = ChangeLog(tmp_path)
    log.append(change(1))
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(whole + whole[:cut])
    assert stored(tmp_path) == {("d", "anna"): 1}
    log = ChangeLog(tmp_path)
    log.append(change(2))
    log.close()
    assert stored(tmp_path) == {("d", "anna"): 2}
    assert len(read_lines(tmp_path / LOG)[0]) == 1


def test_a_damaged_line_before_the_last_is_an_error(tmp_path):
    log = ChangeLog(tmp_path)
    log.append(change(1), change(2))
    lines = (tmp_path / LOG).read_bytes().splitlines(keepends=True)
    (tmp_path / LOG).write_bytes(b"{" + lines[0] + lines[1])
    with pytest.raises(DataError, match="line 1"):
        ChangeLog(tmp_path)


def test_opening_compacts_the_log(tmp_path):
    log = ChangeLog(tmp_path)
    for version in range(1, 6):
        log.append(change(version))
    log.close()
    log = ChangeLog(tmp_path)
    assert (tmp_path / LOG).read_bytes() == b""
    assert len(read_lines(tmp_path / SNAPSHOT)[0]) == 1
    log.append(change(6))
    assert stored(tmp_path) == {("d", "anna"): 6}
    assert ChangeLog(tmp_path, read_only=True).number == 6


def test_a_long_log_is_compacted_while_it_is_open(tmp_path):
    log = ChangeLog(tmp_path, max_bytes=500)
    for version in range(1, 30):
        log.append(change(version))
    assert (tmp_path / LOG).stat().st_size <= 500
    assert stored(tmp_path) == {("d", "anna"): 29}


def test_a_kill_between_snapshot_and_log_changes_nothing(tmp_path):
    log = ChangeLog(tmp_path)
    log.append(change(1), change(2))
    before = (tmp_path / LOG).read_bytes()
    log.compact()
    (tmp_path / LOG).write_bytes(before)
    assert stored(tmp_path) == {("d", "anna"): 2}


def test_a_full_disk_loses_only_the_change_in_flight(tmp_path, monkeypatch):
    log = ChangeLog(tmp_path)
    log.append(change(1))
    write = os.write

    def write_half(descriptor, data):
        if len(data) > 60:
            return write(descriptor, data[:60])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        with pytest.raises(OSError, match="No space"):
            log.append(change(2))
    assert log.last["d", "anna"].version == 1
    log.append(change(2))
    log.close()
    assert [one["version"] for one in read_lines(tmp_path / LOG)[0]] == [1, 2]


def test_a_failed_compaction_keeps_the_log(tmp_path, monkeypatch):
    """The change is stored, so it does not fail. Opening the project works as well."""
    log = ChangeLog(tmp_path, max_bytes=500)

    def fail(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cascade_srn.apps.annotation.files.replacing", fail)
        for version in range(1, 10):
            log.append(change(version))
        log.close()
        assert stored(tmp_path) == {("d", "anna"): 9}
        log = ChangeLog(tmp_path, max_bytes=500)
    assert not (tmp_path / SNAPSHOT).exists()
    log.append(change(10))
    assert (tmp_path / LOG).stat().st_size == 0
    assert stored(tmp_path) == {("d", "anna"): 10}


def test_a_log_whose_emptying_is_not_flushed(tmp_path, monkeypatch):
    """The log is empty then, and must not grow again by zeros when a later change fails."""
    log = ChangeLog(tmp_path, max_bytes=1)
    flush = os.fsync

    def fail_when_empty(descriptor):
        if os.fstat(descriptor).st_size == 0:
            raise OSError(errno.EIO, "Input/output error")
        flush(descriptor)

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_when_empty)
        log.append(change(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            log.append(change(2))
    log.append(change(2))
    log.close()
    assert stored(tmp_path) == {("d", "anna"): 2}
