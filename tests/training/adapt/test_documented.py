"""docs/adapt.md: every option with its default, and its Python as it stands."""

import inspect
import re
from pathlib import Path

from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import write_text

from cascade_srn.cli.adapt import adapt
from cascade_srn.encoder.pretrained import load_encoder
from cascade_srn.training.adapt.packing import MIN_HELD_OUT, MIN_SEQUENCES

PAGE = (Path(__file__).parents[3] / "docs" / "adapt.md").read_text(encoding="utf-8")


def test_every_option_with_its_default():
    documented = dict(re.findall(r"^\| `--([a-z-]+)` \| (?:`(.*?)`)? ?\|", PAGE, flags=re.MULTILINE))
    parameters = {
        name.replace("_", "-"): "" if p.default is inspect.Parameter.empty else str(p.default)
        for name, p in inspect.signature(adapt).parameters.items()
        if name != "texts"
    }
    assert documented == parameters


def test_its_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    tiny_encoder("bert", tmp_path / "encoders" / "before")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(block, "docs/adapt.md", "exec"), names)
    assert names["last"] > 1
    assert load_encoder("encoders/mine").width == 32


def test_its_numbers():
    assert f"fewer than {MIN_SEQUENCES} sequences" in PAGE
    assert f"at least {MIN_HELD_OUT} sequences" in PAGE
