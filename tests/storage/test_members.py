import os
from pathlib import Path

import pytest

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.texts import find_texts
from cascade_srn.storage.files import encodable_names, files_below, is_hidden


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
    """Make a folder unreadable, also for root."""
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


def test_accepted_files_are_found(tree):
    assert found(tree) == [".git/c.txt", "a.txt", "one/.d.txt", "one/b.txt"]
    assert [is_hidden(tree / name, tree) for name in found(tree)] == [True, False, True, False]


@pytest.fixture
def elsewhere(tmp_path_factory):
    """A folder that is not below the one that is read."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "below").mkdir()
    (folder / "f.txt").touch()
    (folder / "below" / "g.txt").touch()
    return folder


def test_links_to_folders_are_followed(tree, elsewhere):
    before = found(tree)
    (tree / "linked").symlink_to(elsewhere)
    (tree / "one" / "again").symlink_to(elsewhere / "below")
    (tree / ".hidden").symlink_to(elsewhere / "below")
    (tree / ".git" / "hidden").symlink_to(elsewhere / "below")
    followed = ["linked/below/g.txt", "linked/f.txt", "one/again/g.txt"]
    assert found(tree) == sorted([*before, *followed])
    assert [path.relative_to(tree).as_posix() for path in find_texts([tree])] == [
        "a.txt",
        "linked/below/g.txt",
        "linked/f.txt",
        "one/b.txt",
    ]


def test_links_that_lead_back_are_not_followed(tree, elsewhere, monkeypatch):
    """Straight, from a folder that a link led to, and to themselves."""
    before = found(tree)
    (tree / "here").symlink_to(".")
    (tree / "one" / "up").symlink_to("..")
    (tree / "itself.txt").symlink_to("itself.txt")
    assert found(tree) == before
    (tree / "linked").symlink_to(elsewhere)
    (elsewhere / "below" / "back").symlink_to(tree / "one")
    (elsewhere / "below" / "round").symlink_to(elsewhere)
    back = [f"linked/below/back/{name}" for name in (".d.txt", "b.txt")]
    expected = sorted([*before, "linked/f.txt", "linked/below/g.txt", *back])
    assert found(tree) == expected
    monkeypatch.chdir(tree)
    assert found(Path(".")) == expected
    monkeypatch.chdir("one")
    assert found(Path("..")) == expected


def test_a_folder_is_not_read_again_below_one_that_is_above_it(tmp_path):
    (tmp_path / "read").mkdir()
    (tmp_path / "a.txt").touch()
    (tmp_path / "read" / "b.txt").touch()
    (tmp_path / "read" / "above").symlink_to("..")
    assert found(tmp_path / "read") == ["above/a.txt", "b.txt"]


@pytest.mark.parametrize("name", ["one", "."])
def test_a_folder_that_cannot_be_read_is_refused(tree, closed, name):
    closed(tree / name)
    for read in (found, lambda folder: find_texts([folder]), lambda folder: list(read_documents(folder, "brat"))):
        with pytest.raises(DataError, match=r"\(Permission denied\)") as failure:
            read(tree)
        assert str(failure.value).startswith(f"{tree / name} ")


def test_a_hidden_folder_need_not_be_read(tree, closed):
    closed(tree / ".git")
    assert [path.name for path in find_texts([tree])] == ["a.txt", "b.txt"]


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
    assert encodable_names(names) == written
