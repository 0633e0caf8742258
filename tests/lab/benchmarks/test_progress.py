"""Progress of benchmarks, and what an interrupted one keeps. No time is asserted."""

import json
import os
import signal

import pytest
import torch
from rich.console import Console

from cascade_srn.cli import main
from cascade_srn.lab.benchmarks import srn
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun, measure_in_turns
from cascade_srn.lab.benchmarks.options import SrnOptions

OPTIONS = SrnOptions(
    shapes=((1, 2), (2, 3)), input_width=4, hidden_width=2, n_tasks=2, repeats=2, warmup=0, device="cpu"
)


class InterruptedRun(BenchmarkRun):
    """A run that is interrupted at its nth step."""

    def __init__(self, n_steps):
        super().__init__()
        self.n_left = n_steps

    def step(self, *arguments, **named):
        super().step(*arguments, **named)
        self.n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt


def test_complete_turns_are_kept():
    run = InterruptedRun(6)  # in the third turn, before b
    timings = measure_in_turns({"a": list, "b": list}, repeats=5, warmup=0, device=torch.device("cpu"), run=run)
    assert {name: len(timing.times) for name, timing in timings.items()} == {"a": 2, "b": 2}
    assert run.is_partial
    with pytest.raises(KeyboardInterrupt):
        run.step("the next measurement")


def test_a_part_is_left_out_after_an_interruption():
    run = BenchmarkRun()
    assert run.part("one", lambda: 1) == 1

    def interrupt():
        raise SystemExit(143)

    assert run.part("two", interrupt) is None
    assert run.part("three", lambda: 3) is None
    assert run.is_partial


def test_an_interrupted_benchmark_keeps_its_rows(tmp_path):
    whole = srn.measure(OPTIONS, BenchmarkRun())
    assert not whole.partial
    n_steps = 3 * OPTIONS.repeats  # of the first shape and pass
    result = srn.measure(OPTIONS, InterruptedRun(n_steps + 4))
    assert result.partial
    assert [(row["shape"], row["pass"]) for row in result.rows] == 3 * [("1 × 2", "forward")] + 3 * [
        ("1 × 2", "forward+backward")
    ]
    assert [len(row["call"]["times_s"]) for row in result.rows] == 3 * [2] + 3 * [1]
    assert result.default_path != whole.default_path
    assert json.loads(result.save(tmp_path / "a.json").read_text(encoding="utf-8"))["partial"] is True
    console = Console(width=100)
    with console.capture() as captured:
        console.print(result.table())
    assert "partial" in captured.get()


@pytest.fixture
def default_signals():
    """Handle SIGINT, which a process in the background of a shell ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_command_with_partial_results(number, code, monkeypatch, tmp_path, capsys):
    calls = iter(range(100))

    def interrupt_later(*arguments, **named):
        if next(calls) == 1:
            os.kill(os.getpid(), number)
        return measure_in_turns(*arguments, **named)

    monkeypatch.setattr(srn, "measure_in_turns", interrupt_later)
    path = tmp_path / "srn.json"
    arguments = [
        "--shapes", "1x2,2x3", "--input-width", "4", "--hidden-width", "2", "--repeats", "1", "--device",
        "cpu",
    ]  # fmt: skip
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        main(["benchmark", "srn", *arguments, "--output", str(path)])
    assert stopped.value.code == code
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["partial"] is True
    assert {row["pass"] for row in found["rows"]} == {"forward"}
    told = capsys.readouterr()
    assert "1 × 2, forward: turn 1 of 1" in told.err
    assert "partial" in told.err
    assert str(path) in told.out
    assert signal.getsignal(signal.SIGTERM) == before
