"""Where models are found; more is tested with the extractor."""

from pathlib import Path

import pytest

from cascade_srn.bundled import find_model
from cascade_srn.errors import ModelError


@pytest.mark.parametrize("name", ["~nosuchuser/x", Path("~nosuchuser/x")], ids=["text", "path"])
def test_a_home_that_is_nobodys(name):
    with pytest.raises(ModelError, match="there is no model folder '~nosuchuser/x'; give a folder"):
        find_model(name)


def test_a_folder_in_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert find_model("~/model") == tmp_path / "model"
