import pytest
from accelerate.utils import LoggerType

from cascade_srn.errors import ConfigError
from cascade_srn.training import progress as trackers
from cascade_srn.training.progress import choose_trackers, flatten, tracker_options
from cascade_srn.training.settings import TrainingSettings


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [])
    for name, package in (("tensorboard", "'cascade-srn[train]'"), ("wandb", "wandb")):
        with pytest.raises(ConfigError, match=f"'{name}'") as caught:
            choose_trackers([name])
        assert f"pip install {package}" in caught.value.hint
        assert caught.value.option == "training.trackers"


def test_an_unknown_tracker(monkeypatch):
    with pytest.raises(ConfigError, match="'wand'.*'wandb'"):
        choose_trackers(["wand"])


def test_installed_trackers(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [LoggerType.TENSORBOARD])
    assert choose_trackers(["tensorboard"]) == choose_trackers(["auto"]) == ["tensorboard"]
    assert choose_trackers([]) == []


def test_the_default_tracker_may_be_missing(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [])
    with pytest.warns(UserWarning, match="cascade-srn\\[train\\]"):
        assert choose_trackers(TrainingSettings().trackers) == []


def test_no_trackers_need_no_options(tmp_path):
    assert tracker_options([], tmp_path) == {}


def test_flatten():
    line = {"step": 3, "loss": 2, "best": True, "dev": {"symmetric": "directed", "ner": 0.5}}
    assert flatten(line) == {"loss": 2.0, "best": 1.0, "dev/ner": 0.5}
