"""docs/distil.md: every option with its default, its Python code, and the form of the files."""

import inspect
import json
import re
from pathlib import Path

from safetensors.numpy import load_file
from tests.training.distil.teachers import saved_teacher, write_text

from cascade_srn.cli.distil import distil

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "distil.md").read_text(encoding="utf-8")


def test_every_option_with_its_default():
    documented = dict(re.findall(r"^\| `--([a-z-]+)` \| (?:`(.*?)`)? ?\|", PAGE, flags=re.MULTILINE))
    parameters = {
        "set" if name == "changes" else name.replace("_", "-"): ""
        if p.default is inspect.Parameter.empty
        else str(p.default)
        for name, p in inspect.signature(distil).parameters.items()
        if name != "teachers"
    }
    assert documented == parameters


def test_its_python_runs_and_writes_what_is_documented(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    saved_teacher(tmp_path / "models" / "teacher")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(block, "docs/distil.md", "exec"), names)
    assert len(names["labelled"]) == 20
    arrays = load_file("labels/shard-00000.safetensors")
    tables = {f"{turn}.{kind}" for turn in ("entity", "subject", "object") for kind in ("start", "end", "match")}
    parts = {f"{table}.{part}" for table in tables for part in ("counts", "position", "probability")}
    assert set(arrays) == {"certainty", "queries", *parts}
    documented = re.findall(r"^\| `([a-z.]+)` \| (\w+), (\S+?|\(.*?\)) \|", PAGE, flags=re.MULTILINE)
    assert [name for name, *_ in documented] == [
        "certainty",
        "queries",
        "entity.start.counts",
        "entity.start.position",
        "entity.start.probability",
    ]
    for name, kind, shape in documented:
        assert arrays[name].dtype == kind
        if shape == "flat":
            assert arrays[name].shape == (arrays["entity.start.counts"].sum(),)
        else:
            assert arrays[name].shape == eval(shape, {"S": 20})
    lines = Path("labels/shard-00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert {key for line in lines for key in json.loads(line)} == {"document", "text", "entities", "relations"}
