"""Which files are meant, and what they are called."""

from pathlib import Path

import pytest

from cascade_srn.errors import DataError
from cascade_srn.extraction.finding import find_inputs


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("a.txt", "b.jsonl.gz", "notes.md", "one/x.txt", "one/.hidden.txt", "two/x.txt", "two/deep/y.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(*arguments):
    return {name: None if path is None else path.as_posix() for name, path in find_inputs(arguments).items()}


def test_files_folders_patterns_and_standard_input(tree):
    assert named("a.txt", "-", "two") == {
        "a": "a.txt",
        "stdin": None,
        "deep/y": "two/deep/y.txt",
        "x": "two/x.txt",
    }
    assert named("*") == {"a": "a.txt", "b": "b.jsonl.gz"}
    assert named("**/y.*") == {"y": "two/deep/y.txt"}
    assert named(str(tree / "one")) == {"x": str(tree / "one" / "x.txt")}


def test_a_file_is_read_once(tree):
    assert named("a.txt", "./a.txt", "*.txt", "-", "-") == {"a": "a.txt", "stdin": None}


def test_names_that_would_be_shared_are_longer(tree):
    assert named("one/x.txt", "two", "a.txt") == {
        "one/x": "one/x.txt",
        "deep/y": "two/deep/y.txt",
        "two/x": "two/x.txt",
        "a": "a.txt",
    }


def test_a_text_and_its_records_side_by_side(tree):
    Path("a.jsonl").touch()
    Path("a.txt.gz").touch()
    found = find_inputs(["a.txt", "a.jsonl", "a.txt.gz"])
    assert len(found) == 3
    assert [path.name for path in found.values()] == ["a.txt", "a.jsonl", "a.txt.gz"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere.txt", "nowhere.txt does not exist, but a file, a folder, a pattern or - for standard input was"),
        ("notes.md", r"notes.md has an ending that is not known here; .* cascade-srn extract - < notes.md"),
        ("*.pdf", r"no file matches '\*.pdf'; files that end in .txt"),
        ("n*", r"no file matches 'n\*'"),
    ],
)
def test_what_cannot_be_meant(tree, argument, message):
    with pytest.raises(DataError, match=message):
        find_inputs(["a.txt", argument])


def test_a_folder_without_text(tree):
    (tree / "empty").mkdir()
    with pytest.raises(DataError, match="the folder empty holds no text"):
        find_inputs(["empty"])
