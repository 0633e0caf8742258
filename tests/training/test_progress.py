import pytest
from accelerate.utils import LoggerType

from cascade_srn.errors import ConfigError
from cascade_srn.training import progress
from cascade_srn.training.progress import choose_trackers, draw_curves, flatten
from cascade_srn.training.settings import TrainingSettings


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr(progress, "get_available_trackers", lambda: [])
    for name, package in (("tensorboard", "'cascade-srn[train]'"), ("wandb", "wandb")):
        with pytest.raises(ConfigError, match=f"'{name}'") as caught:
            choose_trackers([name])
        assert f"pip install {package}" in caught.value.hint
        assert caught.value.option == "training.trackers"


def test_an_unknown_tracker(monkeypatch):
    with pytest.raises(ConfigError, match="'wand'.*'wandb'"):
        choose_trackers(["wand"])


def test_installed_trackers(monkeypatch):
    monkeypatch.setattr(progress, "get_available_trackers", lambda: [LoggerType.TENSORBOARD])
    assert choose_trackers(["tensorboard"]) == choose_trackers(["auto"]) == ["tensorboard"]
    assert choose_trackers([]) == []


def test_the_default_tracker_may_be_missing(monkeypatch):
    monkeypatch.setattr(progress, "get_available_trackers", lambda: [])
    with pytest.warns(UserWarning, match="cascade-srn\\[train\\]"):
        assert choose_trackers(TrainingSettings().trackers) == []


def test_flatten():
    line = {"step": 3, "loss": 2, "best": True, "dev": {"symmetric": "directed", "ner": 0.5}}
    assert flatten(line) == {"loss": 2.0, "best": 1.0, "dev/ner": 0.5}


LINES = [
    {"step": 1, "loss": 9.0, "loss_entity": 5.0, "loss_subject": 3.0, "loss_object": 1.0},
    {"step": 2, "loss": 4.0, "loss_entity": 2.0, "loss_subject": 1.0, "loss_object": 1.0},
]
SCORED = {"best": True, "dev": {"symmetric": "directed", "ner": 0.5, "re_boundaries": 0.2, "re_strict": 0.1}}


@pytest.mark.slow
def test_a_picture_of_what_was_logged(tmp_path):
    pictures = []
    for lines in ([], LINES, [LINES[0], LINES[1] | SCORED]):
        draw_curves(lines, tmp_path / "curves.png")
        pictures.append((tmp_path / "curves.png").read_bytes())
        assert pictures[-1].startswith(b"\x89PNG")
    assert len(set(pictures)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
