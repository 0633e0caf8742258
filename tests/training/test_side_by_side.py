import os
import signal

import pytest

from cascade_srn.training.side_by_side import side_by_side


def test_all_are_run_each_with_its_log_and_code(tmp_path):
    commands = {"good": ["--version"], "bad": ["no-such-command"], "other": ["--version"]}
    ended = {each.name: each for each in side_by_side(commands, 2, tmp_path / "logs")}
    assert {name: each.code for name, each in ended.items()} == {"good": 0, "bad": 2, "other": 0}
    assert ended["good"].last_words.startswith("cascade-srn ")
    assert "no-such-command" in ended["bad"].log.read_text(encoding="utf-8")
    assert ended["bad"].log == tmp_path / "logs" / "bad.log"


def test_nothing_to_run(tmp_path):
    assert list(side_by_side({}, 3, tmp_path)) == []


def test_whoever_stops_listening_ends_the_others(tmp_path, monkeypatch):
    started = []
    import subprocess

    true_popen = subprocess.Popen

    def popen(command, **options):
        # In place of the command one that would wait for very long, but for the first.
        replaced = ["sleep", "0" if not started else "600"]
        started.append(true_popen(replaced, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    runs = side_by_side({"short": [], "long": [], "longer": []}, 3, tmp_path)
    assert next(runs).name == "short"
    runs.close()
    assert [process.returncode for process in started] == [0, -signal.SIGTERM, -signal.SIGTERM]
    for process in started[1:]:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
