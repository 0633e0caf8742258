import errno
import fcntl
import os
import signal
import threading

import pytest
from tests.formats.other_processes import can_hold, held_elsewhere

from cascade_srn.errors import ConfigError
from cascade_srn.storage.lock import LOCK, FolderLock, lock_holder


def test_a_second_process_is_refused(tmp_path):
    with held_elsewhere(tmp_path / "run") as other:
        before = (tmp_path / "run" / LOCK).read_bytes()
        with pytest.raises(ConfigError, match=rf"\(pid {other.pid} on .+, since \d{{4}}-.+\).*'.*run'"):
            FolderLock(tmp_path / "run")
        assert (tmp_path / "run" / LOCK).read_bytes() == before
    assert other.returncode == 0
    FolderLock(tmp_path / "run").release()


def test_a_link_to_the_folder_is_the_same_folder(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    with held_elsewhere(tmp_path / "run"), pytest.raises(ConfigError, match="'link'"):
        FolderLock("link")


def test_a_kill_releases_it(tmp_path):
    with held_elsewhere(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert (tmp_path / LOCK).is_file()
        with FolderLock(tmp_path):
            assert f'"pid": {os.getpid()},' in (tmp_path / LOCK).read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


def test_only_new_and_empty_folders_are_removed(tmp_path):
    with FolderLock(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.iterdir()) == []
    with FolderLock(tmp_path / "a" / "b"):
        (tmp_path / "a" / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "file"]
    (tmp_path / "there").mkdir()
    with FolderLock(tmp_path / "there"):
        pass
    assert (tmp_path / "there").is_dir()


def test_one_process_may_hold_it_several_times(tmp_path):
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.release()
    first.release()
    assert not can_hold(tmp_path)
    second.release()
    assert can_hold(tmp_path)


def test_threads_may_hold_it_at_once(tmp_path):
    failures = []

    def hold():
        try:
            for _ in range(200):
                with FolderLock(tmp_path / "run"):
                    pass
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert can_hold(tmp_path / "run")


def test_a_garbage_collected_lock_is_released(tmp_path):
    lock = FolderLock(tmp_path)
    assert (tmp_path / LOCK).is_file()
    del lock
    assert not (tmp_path / LOCK).exists()


def test_a_process_that_was_forked_does_not_release_it(tmp_path):
    lock = FolderLock(tmp_path)
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert not can_hold(tmp_path)
    lock.release()


def test_a_file_that_was_removed_in_between_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """The previous holder removes its file after this process has opened it; a lock on it would have no effect."""
    flock, opened = fcntl.flock, []

    def locked(descriptor, how):
        if not opened:
            (tmp_path / LOCK).unlink()
        opened.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locked)
    with FolderLock(tmp_path):
        assert len(opened) == 2
        assert not can_hold(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_file_systems_without_locks_are_not_protected(tmp_path, monkeypatch, code):
    def refuse(descriptor, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with FolderLock(tmp_path / "run"):
        assert list((tmp_path / "run").iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_holder_that_is_not_written_yet(tmp_path):
    with held_elsewhere(tmp_path):
        (tmp_path / LOCK).write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match=r"^another process [^(]*$"):
            FolderLock(tmp_path)


def test_the_holder_is_named_and_not_disturbed(tmp_path):
    assert lock_holder(tmp_path / "nowhere") is None
    assert lock_holder(tmp_path) is None
    with held_elsewhere(tmp_path / "run") as other:
        assert lock_holder(tmp_path / "run").startswith(f"pid {other.pid} on ")
        assert not can_hold(tmp_path / "run")
    with FolderLock(tmp_path / "run"):
        assert lock_holder(tmp_path / "run").startswith(f"pid {os.getpid()} on ")
        assert not can_hold(tmp_path / "run")
