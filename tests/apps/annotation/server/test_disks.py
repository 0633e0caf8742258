"""Projects on disks that are full or read-only: real file systems, which only root can mount."""

import os
import subprocess
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.apps.annotation.projects import FIRST, MARKED, make_project

from cascade_srn.apps.annotation import files
from cascade_srn.apps.annotation.server.app import open_project
from cascade_srn.errors import DataError


def mount(*arguments):
    return subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path):
    """Mount a disk of 256 KiB with room for 32 files, which has a project."""
    if os.name != "posix" or os.geteuid() or not mount("-t", "tmpfs", "-o", "size=256k,nr_inodes=32", "none", tmp_path):
        pytest.skip("this user cannot mount file systems")
    try:
        with make_project(tmp_path / "p") as project:
            project.save(FIRST.id, "anna", MARKED)
        yield tmp_path
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def fill(disk):
    """Write until there is no space."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as handle:
        while True:
            handle.write(bytes(512))


def save_until_full(project):
    """Return the version of the last change that was acknowledged: the last page of the log has room for some."""
    version = 1
    with suppress(OSError):
        while version < 100:
            version = project.save(FIRST.id, "anna", replace(MARKED, version=version, note="x" * 300)).version
    assert 1 < version < 100
    return version


def test_a_full_disk(disk, monkeypatch):
    """A stored change is acknowledged although the compaction fails, and one that is not stored is refused."""
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    fill(disk)
    with open_project(disk / "p") as project:
        assert not project.read_only
        version = save_until_full(project)
        assert project.annotation(FIRST.id, "anna").version == version
    with open_project(disk / "p") as project:
        assert project.annotation(FIRST.id, "anna").version == version
        (disk / "filler").unlink()
        assert project.save(FIRST.id, "anna", replace(MARKED, version=version)).version == version + 1


def test_no_room_for_the_lock_file(disk):
    fill(disk)
    with suppress(OSError):
        for number in range(100):
            (disk / f"file-{number}").touch()
    with open_project(disk / "p") as project:
        assert project.read_only
        assert project.annotation(FIRST.id, "anna").version == 1


def test_a_read_only_disk(disk):
    assert mount("-o", "remount,ro", disk)
    with open_project(disk / "p") as project:
        assert project.read_only
        assert project.annotation(FIRST.id, "anna").entities == MARKED.entities
        with pytest.raises(DataError, match="reading only"):
            project.save(FIRST.id, "anna", replace(MARKED, version=1))
