import ntpath
import os
from pathlib import Path

import pytest

from cascade_srn.errors import DataError
from cascade_srn.inputs import find
from cascade_srn.inputs.sources import Sources


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("a.txt", "b.jsonl.gz", "notes.rst", "one/x.txt", "one/.hidden.txt", "two/x.txt", "two/deep/y.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find_inputs(arguments, **options):
    return Sources(arguments, **options).inputs


def named(*arguments):
    return find_inputs(arguments)


def test_files_folders_patterns_and_standard_input(tree):
    assert named("a.txt", "-", "two") == {"a": "a.txt", "stdin": None, "deep/y": "two/deep/y.txt", "x": "two/x.txt"}
    assert named("*") == {"a": "a.txt", "b": "b.jsonl.gz"}
    assert named("**/y.*") == {"y": "two/deep/y.txt"}
    assert named(str(tree / "one")) == {"x": str(tree / "one" / "x.txt")}


def test_a_file_is_read_once(tree):
    assert named("a.txt", "./a.txt", "*.txt", "-", "-") == {"a": "a.txt", "stdin": None}


def test_equal_names_get_parent_folders(tree):
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
    assert list(found.values()) == ["a.txt", "a.jsonl", "a.txt.gz"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere.txt", "nowhere.txt does not exist"),
        ("notes.rst", r"notes.rst.*\.txt.* - < notes.rst"),
        ("*.pdf", r"no file matches '\*.pdf'"),
        ("*.rst", r"'\*.rst' matches notes.rst, but no file that ends in \.txt.*"),
        ("notes*", r"'notes\*' matches notes.rst, .*\.txt"),
        ("[nN]*.[rm][se]*", r"notes.rst and 1 more.*\.txt"),
    ],
)
def test_arguments_without_text_files(tree, argument, message):
    Path("notices.me").touch()
    with pytest.raises(DataError, match=message):
        find_inputs(["a.txt", argument])


class TestOutputAmongTheInputs:
    OURS = ("found.jsonl", "found.partial.jsonl", "found.partial-2.jsonl")

    @pytest.fixture(autouse=True)
    def results(self, tree):
        for name in self.OURS:
            Path("two", name).touch()

    @pytest.mark.parametrize("output", ["two/found.jsonl", "./one/../two/found.jsonl"])
    @pytest.mark.parametrize("argument", ["two", "two/*", "**/*"])
    def test_output_and_partial_outputs_are_skipped(self, argument, output):
        messages = []
        found = find_inputs([argument], output=Path(output), tell=messages.append)
        assert set(map(os.path.basename, found.values())) >= {"x.txt"}
        assert not set(map(os.path.basename, found.values())) & set(self.OURS)
        assert sum(message.startswith("skipped") for message in messages) == 3
        assert all(sum(name in message for message in messages) == 1 for name in self.OURS)

    def test_files_with_similar_names_are_read(self):
        messages = []
        for name in ("found.partially.jsonl", "found.partial.txt", "deep/found.jsonl", "deep/found.partial.jsonl"):
            Path("two", name).touch()
        found = find_inputs(["two"], output=Path("two/found.jsonl"), tell=messages.append)
        assert len(found) == 6
        assert len(messages) == 3
        assert len(find_inputs(["two"])) == 9

    @pytest.mark.parametrize("arguments", [["two/found.jsonl"], ["two", "one/../two/found.jsonl"], ["link.jsonl"]])
    def test_the_output_as_input_is_an_error(self, arguments):
        Path("link.jsonl").symlink_to(Path("two/found.jsonl"))
        with pytest.raises(DataError, match=r"\.jsonl") as error:
            find_inputs(arguments, output=Path("two/found.jsonl"))
        assert error.value.option == "output"

    def test_a_partial_output_as_input_is_read(self):
        assert list(find_inputs(["two/found.partial.jsonl"], output=Path("two/found.jsonl"))) == ["found.partial"]

    def test_a_partial_output_that_is_a_folder(self):
        Path("two/brat.partial").mkdir()
        Path("two/brat.partial/x.txt").touch()
        assert "brat.partial/x" not in find_inputs(["two"], output=Path("two/brat"))
        assert list(find_inputs(["two/brat.partial"], output=Path("two/brat"))) == ["x"]


def test_files_with_markup(tmp_path):
    for name in ("a.md", "b.markdown", "c.tex", "d.HTML", "e.htm.gz", "f.txt", "g.rst"):
        (tmp_path / name).write_bytes(b"")
    assert list(find_inputs([str(tmp_path)])) == ["a", "b", "c", "d", "e", "f"]


def test_a_folder_without_text(tree):
    (tree / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no file that ends in \.txt"):
        find_inputs(["empty"])


def test_remote_addresses(tree):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe({"/texts/a.txt": b"One.", "/texts/deep/a.jsonl": b'{"text": "Two."}'})
    sources = Sources(["a.txt", "memory://texts"])
    try:
        assert list(sources.inputs) == [f"{tree.name}/a", "texts/a", "deep/a"]
        assert [text.text for text in sources] == ["", "One.", "Two."]
        assert sources.n_bytes is None
    finally:
        memory.rm("/texts", recursive=True)


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_with_the_name_of_standard_input(tree, turned):
    (tree / "one" / "stdin.txt").touch()
    arguments = ["-", "one/stdin.txt"]
    found = named(*(arguments[::-1] if turned else arguments))
    assert found == {"stdin": None, "one/stdin": "one/stdin.txt"}


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname != "Linux", reason="names are UTF-8 here")
def test_names_that_are_not_utf_8(tree):
    for name in (b"caf\xe9.txt", b"caf\xe8.txt"):
        open(os.path.join(os.fsencode(tree / "one"), name), "wb").close()
    found = find_inputs(["one"])
    assert list(found) == ["caf\ufffd", "caf\ufffd-2", "x"]
    assert [os.path.basename(os.fsencode(path)) for path in found.values()] == [
        b"caf\xe8.txt",
        b"caf\xe9.txt",
        b"x.txt",
    ]


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (r"C:\d\a.txt", r"D:\d\a.txt", ["C/d/a", "D/d/a"]),
        (r"C:\d\a.txt", r"\\host\share\d\a.txt", ["C/d/a", "share/d/a"]),
        (r"\\one\share\a.txt", r"\\one\share\a.jsonl", ["one/share/a.txt", "one/share/a.jsonl"]),
        (r"C:\d\a.txt", r"C:\e\a.txt", ["d/a", "e/a"]),
        (r"\\C\share\d\a.txt", r"C:\share\d\a.txt", ["C/share/d/a.txt", "C/share/d/a.txt-2"]),
    ],
)
def test_files_on_two_drives(monkeypatch, first, second, names):
    monkeypatch.setattr(os.path, "splitdrive", ntpath.splitdrive)
    files = {path: (path, "a") for path in (first.replace("\\", "/"), second.replace("\\", "/"))}
    assert list(find._choose_names(files).values()) == names


@pytest.mark.parametrize(("name", "advice"), [("a.docx", "PDF"), ("a.tar.gz", "Unpack"), ("a.json", ".jsonl")])
def test_files_that_are_not_read(tmp_path, name, advice):
    path = tmp_path / name
    path.write_bytes(b"PK")
    with pytest.raises(DataError, match="which is not read") as caught:
        Sources([str(path)])
    assert advice in caught.value.hint
    assert "Rename" not in caught.value.hint


@pytest.mark.parametrize("argument", ["", "/*"])
def test_files_of_a_folder_that_are_not_read_are_reported(tmp_path, argument):
    for name in ("a.txt", "b.docx", "c.docx", "d.csv", "README", ".hidden.csv"):
        tmp_path.joinpath(name).write_text("A text.")
    notes = []
    assert list(Sources([f"{tmp_path}{argument}"], tell=notes.append).inputs) == ["a"]
    assert notes == [f"{tmp_path}{argument}: files that are not read: 1 .csv, 2 .docx, 1 without a suffix"]
    with pytest.warns(UserWarning, match="1 .csv, 2 .docx, 1 without a suffix"):
        find.find_files(f"{tmp_path}{argument}", ("text",))
