import io

import pytest
from rich.console import Console

from cascade_srn.runs import display as module
from cascade_srn.runs.display import ProgressRow, console_for, duration, show_progress


def _row(step):
    return ProgressRow(
        "working", step, 100, f"loss {step}", line=f"line {step}", to_file=step % 2 == 0, to_terminal=step == 3
    )


def _shown(*steps, **options):
    console = Console(file=io.StringIO(), width=120, color_system=None, **options)
    with show_progress(console, _row) as display:
        for step in steps:
            display.progress(step)
    return console.file.getvalue()


def test_a_file_gets_the_lines_that_are_due():
    assert _shown(1, 2, 3, 4) == "line 2\nline 4\n"


def test_a_file_gets_a_line_after_a_long_silence(monkeypatch):
    monkeypatch.setattr(module, "_MAX_SILENCE", -1.0)
    assert _shown(1, 3) == "line 1\nline 3\n"


def test_a_terminal_gets_a_bar_and_the_lines_above_it():
    text = _shown(1, 2, 3, force_terminal=True)
    assert "line 3" in text
    assert "line 2" not in text
    for part in ("working", "3/100", "loss 3"):
        assert part in text


def test_steps_move_the_bar_now_and_then(monkeypatch):
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with show_progress(console, _row) as display:
        display.progress(1)
        display.step(5)
        display.step(6)
        assert display.bar.tasks[0].completed == 5
        monkeypatch.setattr(module, "_REFRESH", -1.0)
        display.step(7)
        assert display.bar.tasks[0].completed == 7


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7200, "2.0 h")]
)
def test_durations(seconds, expected):
    assert duration(seconds) == expected


def test_only_the_main_process_prints(capsys):
    console_for(is_main=False).print("x")
    console_for(is_main=True).print("y")
    assert capsys.readouterr().out == "y\n"
