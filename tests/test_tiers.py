"""The test tiers: every marker is left out by ``make test`` and run by ``make test-all``."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_two_commands_share_all_tests_between_them():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = [line.partition(":")[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    chosen = dict(re.findall(r'^(test|test-all):.*\n\t\$\(PYTEST\) -m "(.*)"$', makefile, flags=re.MULTILINE))
    assert chosen["test"] == " and ".join(f"not {marker}" for marker in markers)
    assert chosen["test-all"] == " or ".join(markers)
