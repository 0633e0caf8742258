"""The files below a folder, none of them missed, and names for them."""

import os
from pathlib import Path

import pytest

from cascade_srn.data import read_documents
from cascade_srn.data.formats.brat import sniff
from cascade_srn.data.members import files_below, is_hidden, written_names
from cascade_srn.data.text_files import files_in
from cascade_srn.errors import DataError


@pytest.fixture
def tree(tmp_path):
    for name in ("a.txt", "a.ann", "one/b.txt", ".git/c.txt", "one/.d.txt", "e.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "nowhere.txt").symlink_to("not-there")
    return tmp_path


@pytest.fixture
def closed(monkeypatch):
    """Close a folder as to somebody who may not read it; tests can be run by one who may read everything."""
    scandir = os.scandir

    def close(folder):
        def refuse(path="."):
            if os.fspath(path) == os.fspath(folder):
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refuse)

    return close


def found(folder):
    paths = files_below(folder, lambda path: path.suffix == ".txt")
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_files_that_are_wanted(tree):
    assert found(tree) == [".git/c.txt", "a.txt", "one/.d.txt", "one/b.txt"]
    assert [is_hidden(tree / name, tree) for name in found(tree)] == [True, False, True, False]


@pytest.mark.parametrize("name", ["one", "."])
def test_a_folder_that_cannot_be_read_is_refused(tree, closed, name):
    closed(tree / name)
    message = r"cannot be read \(Permission denied\); check its permissions, or move it out"
    for read in (found, files_in, lambda folder: list(read_documents(folder, "brat"))):
        with pytest.raises(DataError, match=message) as failure:
            read(tree)
        assert str(failure.value).startswith(f"{tree / name} ")


def test_guessing_the_format_of_a_folder_that_cannot_be_read(tree, closed):
    closed(tree)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        sniff("", tree)


def test_a_hidden_folder_need_not_be_read(tree, closed):
    closed(tree / ".git")
    assert [path.name for path in files_in(tree)] == ["a.txt", "b.txt"]


def test_a_folder_that_can_only_be_listed(tree, monkeypatch):
    stat = os.stat

    def refuse(path, **options):
        if Path(path).name == "b.txt":
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(DataError, match=r"b.txt cannot be read \(Permission denied\)"):
        files_in(tree)


@pytest.mark.parametrize(
    ("names", "written"),
    [
        ([], []),
        (["a", "b/é"], ["a", "b/é"]),
        (["caf\udce9", "caf\udce8"], ["caf\ufffd", "caf\ufffd-2"]),
        (["caf\udce9", "caf\ufffd", "caf\ufffd-2"], ["caf\ufffd-3", "caf\ufffd", "caf\ufffd-2"]),
        (["a", "a"], ["a", "a-2"]),
    ],
)
def test_names_that_can_be_written(names, written):
    assert written_names(names) == written
