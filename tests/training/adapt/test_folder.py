import errno
from pathlib import Path

import pytest

from cascade_srn.errors import CascadeError
from cascade_srn.training.adapt.folder import AdaptFolder
from cascade_srn.training.adapt.settings import AdaptSettings

SETTINGS = AdaptSettings(encoder="some-encoder")


@pytest.fixture
def finished(tmp_path):
    """As an adaptation leaves it."""
    folder = AdaptFolder(tmp_path / "out")
    folder.begin(SETTINGS, "abc")
    files = ["config.json", "added.json", "model.safetensors"]
    folder.write_json("adapt.json", {**folder.read_json("adapt.json"), "files": files})
    for name in (*files, "log.jsonl", "notes.txt"):
        (folder.path / name).write_text("", encoding="utf-8")
    folder.finish({"steps": 1})
    return folder


def names(folder):
    return {member.name for member in folder.path.iterdir()}


@pytest.mark.parametrize("last", ["added.json", "log.jsonl", "model.safetensors"])
def test_overwriting_that_is_broken_off_leaves_nothing_finished(finished, last, monkeypatch):
    unlink = Path.unlink

    def refuse(path, missing_ok=False):
        if path.name == last:
            raise OSError(errno.EBUSY, "Device or resource busy")
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(CascadeError, match="Device or resource busy"):
            finished.begin(SETTINGS, "abc", overwrite=True)
    # Neither a finished adaptation, nor, by its config.json, an encoder; but an adaptation that was begun.
    assert not finished.is_finished
    assert "config.json" not in names(finished)
    assert finished.is_begun
    finished.check(SETTINGS, overwrite=True)
    finished.begin(SETTINGS, "abc", overwrite=True)
    assert names(finished) == {"adapt.json", "notes.txt"}
