"""docs/paper-map.md: the symbol and the test of every row exist, and every equation has a row."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
N_EQUATIONS = 19  # of the paper: eleven in the method, four of span extraction and training, four for two tasks


def _rows():
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and not set(cells[0]) <= {"-"} and cells[0] != "in the paper":
            yield cells


ROWS = list(_rows())


def _resolved(dotted):
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:size]))
        except ModuleNotFoundError as error:
            if error.name is not None and not ".".join(parts[:size]).startswith(error.name):
                raise
            continue
        for name in parts[size:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


def test_there_are_rows():
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}, {row[1]}" for row in ROWS])
def test_row_resolves(row):
    symbol, test = (re.fullmatch(r"`([^`]+)`", cell) for cell in row[2:])
    assert symbol, row[2]
    assert test, row[3]
    if symbol[1].startswith("cascade_srn.network.kernels.triton_srn"):
        pytest.importorskip("triton", reason="the GPU kernels are written in triton, which is not installed")
    assert _resolved(symbol[1]) is not None
    path, _, name = test[1].partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    if name:
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_equation_has_a_row():
    named = {int(n) for row in ROWS for n in re.findall(r"^eq\. (\d+)$", row[0])}
    assert named == set(range(1, N_EQUATIONS + 1))


def test_every_adr_that_is_referred_to_exists():
    for path in (ROOT / "src").rglob("*.py"):
        for number in re.findall(r"docs/adr/(\d{4})", path.read_text(encoding="utf-8")):
            assert list((ROOT / "docs" / "adr").glob(f"{number}-*.md")), f"{path}: {number}"
