"""Results as files and tables."""

import json
from pathlib import Path

import torch
from rich.console import Console

from cascade_srn.lab.benchmarks.measuring import (
    RESULTS,
    Result,
    environment,
    milliseconds,
    number,
    text,
)
from cascade_srn.lab.benchmarks.options import ExtractOptions
from cascade_srn.runs.environment import shareable
from cascade_srn.runs.resources import cpu_instructions

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


def test_the_default_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _result().save() == RESULTS / "speed-cpu.json" == Path("benchmarks/results/speed-cpu.json")
    assert (tmp_path / "benchmarks" / "results" / "speed-cpu.json").is_file()


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


def test_the_environment_names_hardware_versions_and_command():
    found = environment(torch.device("cpu"), "bf16")
    assert found["cpu"]
    assert found["instructions"] == list(cpu_instructions())
    assert found["cores"] >= 1
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None
    assert found["precision"] == "bf16"
    assert set(found["versions"]) == {"python", "cascade-srn", "torch", "transformers", "triton"}
    assert found["versions"]["torch"] == torch.__version__
    assert found["date"].endswith("+00:00")
    assert found["command"]


def test_folders_of_the_machine_stay_out():
    settings = shareable(ExtractOptions(data="/home/me/a.json", repeats=3).to_dict())
    assert settings["data"] == "…/a.json"
    assert settings["repeats"] == 3
