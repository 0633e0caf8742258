import pytest
from accelerate.utils import LoggerType

from cascade_srn.errors import ConfigError
from cascade_srn.training import progress as trackers
from cascade_srn.training.progress import check_trackers, flatten, tracker_options


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [])
    with pytest.raises(
        ConfigError, match=r"'tensorboard' is not installed; install it by .*'cascade-srn\[train\]', or"
    ):
        check_trackers(["tensorboard"])
    with pytest.raises(ConfigError, match="'wandb' is not installed; install it by pip install wandb, or leave it out"):
        check_trackers(["wandb"])


def test_an_unknown_one(monkeypatch):
    with pytest.raises(ConfigError, match="names 'wand', which is no tracker. Did you mean 'wandb'?"):
        check_trackers(["wand"])


def test_one_that_is_there(monkeypatch):
    monkeypatch.setattr(trackers, "get_available_trackers", lambda: [LoggerType.TENSORBOARD])
    check_trackers(["tensorboard"])
    check_trackers([])


def test_none_need_no_options(tmp_path):
    assert tracker_options([], tmp_path) == {}


def test_lines_become_named_numbers():
    line = {"step": 3, "loss": 2, "best": True, "dev": {"symmetric": "directed", "ner": 0.5}}
    assert flatten(line) == {"loss": 2.0, "best": 1.0, "dev/ner": 0.5}
