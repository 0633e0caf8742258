import json

import torch
from rich.console import Console

from cascade_srn.lab.benchmarks.measuring import Result, environment, milliseconds, number, text
from cascade_srn.lab.benchmarks.options import ExtractOptions
from cascade_srn.runs.environment import shareable

COLUMNS = (text("name", "name"), milliseconds("time, ms", lambda row: row["s"]), number("n", lambda row: row["n"]))
ROWS = [{"name": "a", "s": 0.0125, "n": 1234.0}, {"name": "b", "s": None, "n": None}]


def _result():
    return Result("speed", "cpu", {"repeats": 2}, environment(torch.device("cpu"), "float32"), ROWS, COLUMNS, ("why",))


def test_a_result_is_written_as_json(tmp_path):
    path = _result().save(tmp_path / "new" / "file.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["name"] == "speed"
    assert found["rows"] == ROWS
    assert found["settings"] == {"repeats": 2}
    assert found["notes"] == ["why"]


def test_the_table():
    console = Console(width=100)
    with console.capture() as captured:
        console.print(_result().table())
    shown = captured.get()
    assert "speed on" in shown
    assert "12.50" in shown
    assert "1,234" in shown
    assert "–" in shown
    assert "why" in shown


def test_folders_of_the_machine_stay_out():
    settings = shareable(ExtractOptions(data="/home/me/a.json", repeats=3).to_dict())
    assert settings["data"] == "…/a.json"
    assert settings["repeats"] == 3
