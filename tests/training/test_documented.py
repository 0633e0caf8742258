"""docs/training.md lists all settings with their defaults, and its example runs."""

import dataclasses
import re
from itertools import islice
from pathlib import Path

import pytest
import yaml
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.formats.registry import write_documents
from cascade_srn.model.model import Model
from cascade_srn.training.recipe import CardSettings, DataSettings, FreshEncoderSettings
from cascade_srn.training.settings import DistillationSettings, TrainingSettings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def _section(name):
    return TEXT.partition(f"\n### {name}\n")[2].partition("\n#")[0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("data", DataSettings),
        ("training", TrainingSettings),
        ("distillation", DistillationSettings),
        ("fresh", FreshEncoderSettings),
        ("card", CardSettings),
    ],
)
def test_every_setting_and_its_default(name, settings):
    rows = re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\|", _section(name), flags=re.MULTILINE)
    assert [key for key, _ in rows] == [field.name for field in dataclasses.fields(settings)]
    for (key, shown), field in zip(rows, dataclasses.fields(settings), strict=True):
        if field.default is dataclasses.MISSING:
            assert shown == "", key
        else:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            read = yaml.safe_load(shown)
            assert (float(read) if isinstance(default, float) else read) == default, key


def _example(name):
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL) if name in code]
    return code


@pytest.mark.slow
def test_the_example_that_starts_from_a_trained_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents(DOCUMENTS[:4], "train.jsonl")
    exec(
        _example("start_model").replace("train(model, documents)", "islice(train(model, documents), 1)"),
        {"islice": islice},
    )
    assert Model.load("my-model").schema.entity_types == ("Organization", "Person", "Place")


@pytest.mark.slow
def test_the_example_in_python(tmp_path, monkeypatch, capsys):
    code = _example("load_recipe")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    exec(code.replace("training.epochs=3", "training.epochs=1"), {})
    assert capsys.readouterr().out.startswith("preflight:")
    assert (tmp_path / "runs" / "from-python" / "best" / "model.safetensors").is_file()
