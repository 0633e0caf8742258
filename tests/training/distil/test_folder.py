import errno
import json
from pathlib import Path

import numpy as np
import pytest

from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.training.distil.labelling import LabelFolder
from cascade_srn.training.labelled import ShardFiles

MADE_WITH = {"teachers": ["abc"]}


@pytest.fixture
def finished(tmp_path):
    """Return a folder with two shards and files of the user."""
    folder = LabelFolder(tmp_path / "labels")
    folder.begin(MADE_WITH, {}, overwrite=True)
    for number in range(2):
        files = ShardFiles.of(folder.path, number)
        files.sentences.write_text(f"sentences {number}", encoding="utf-8")
        files.arrays.write_text(f"arrays {number}", encoding="utf-8")
    folder.finish(2, {})
    (folder.path / "notes.txt").write_text("mine", encoding="utf-8")
    (folder.path / "shard-notes.txt").write_text("mine", encoding="utf-8")
    (folder.path / "plots").mkdir()
    return folder


def names(folder):
    return {member.name for member in folder.path.iterdir()}


def test_overwriting_removes_what_is_of_the_labels_alone(finished):
    (finished.path / ".0123.tmp").write_text("", encoding="utf-8")
    finished.check_options(resume=False, overwrite=True)
    finished.begin(MADE_WITH, {}, overwrite=True)
    assert names(finished) == {"labels.json", "notes.txt", "plots", "shard-notes.txt"}
    assert not finished.is_finished


def test_leftovers_of_a_kill_at_the_end_are_removed(finished):
    before = names(finished)
    ShardFiles.of(finished.path, 1).sums.write_text("", encoding="utf-8")
    (finished.path / ".labels.json.tmp").mkdir()
    finished.clean_up()
    assert names(finished) == before


def test_overwriting_that_is_broken_off_leaves_nothing_finished(finished, monkeypatch):
    """It cannot be resumed either: the remaining shards may be from other teachers."""
    unlink = Path.unlink

    def refuse(path, missing_ok=False):
        if path.name == "shard-00001.jsonl":
            raise OSError(errno.EBUSY, "Device or resource busy")
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(CascadeError, match=r"labels.*\(Device or resource busy\)"):
            finished.begin({"teachers": ["other"]}, {}, overwrite=True)
    assert "shard-00001.jsonl" in names(finished)
    assert finished.is_begun
    assert not finished.is_finished
    for made_with in (MADE_WITH, {"teachers": ["other"]}):
        with pytest.raises(ConfigError, match="teachers") as caught:
            finished.refuse_other(made_with)
        assert caught.value.option == "overwrite"
    finished.begin(MADE_WITH, {}, overwrite=True)
    assert not any(name.startswith("shard-0") for name in names(finished))
    finished.refuse_other(MADE_WITH)


def test_whole_is_what_was_written(finished):
    assert finished.is_whole()
    path = finished.path / "shard-00001.safetensors"
    path.write_text("arrays 2", encoding="utf-8")
    assert not finished.is_whole()
    path.unlink()
    assert not finished.is_whole()
    path.write_text("arrays 1", encoding="utf-8")
    assert finished.is_whole()
    record = json.loads((finished.path / "labels.json").read_text(encoding="utf-8"))
    (finished.path / "labels.json").write_text(json.dumps({**record, "finished": False}), encoding="utf-8")
    assert not finished.is_whole()


class TestShards:
    @pytest.fixture
    def files(self, tmp_path):
        files = ShardFiles.of(tmp_path, 0)
        files.write([], [], {"queries": np.zeros(2, dtype=np.int32)})
        return files

    def test_a_shard_is_whole_when_its_checksums_are_written(self, files):
        assert files.is_whole()
        files.sums.unlink()
        assert not files.is_whole()

    @pytest.mark.parametrize("kind", ["sentences", "arrays", "sums"])
    def test_a_shard_that_was_damaged_is_labelled_again(self, files, kind):
        path = getattr(files, kind)
        path.write_bytes(path.read_bytes() + b"x")
        assert not files.is_whole()
