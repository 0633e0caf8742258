"""The table of costs."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cost(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import cost

    yield cost
    del sys.modules["cost"]


def test_the_documented_table_is_the_output(cost):
    assert "\n".join(cost.table()) in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_time_and_cost_grow_with_documents_and_words(cost):
    (machine,) = (row for row in cost.MACHINES if not row.file)
    hours = 57_600 / (machine.documents / machine.seconds) / 3600
    line = next(line for line in cost.table(57_600, 2 * cost.WORDS) if machine.name in line)
    assert line.endswith(f"| {2 * hours:,.1f} | {2 * hours * machine.price:,.2f} |")
    assert any("GPT-4o mini |" in line and line.endswith("| 0.70 |") for line in cost.table(1000, 2 * cost.WORDS))
