"""The Triton kernels, compared with the plain loop in float64, on a GPU or in Triton's interpreter.

The kernels run in another process, because the interpreter has to be chosen before triton is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="the GPU kernels are written in triton, which is not installed")

GPU = torch.cuda.is_available()
SMALL = [  # n_tasks, batch, length, hidden
    (2, 3, 5, 16),
    (3, 3, 5, 16),
    (3, 1, 1, 16),
    (3, 18, 4, 20),  # two tiles, and a width that is no power of two
    (2, 5, 3, 7),
]
# With larger weights for cells, some of which are clamped.
GROWING = [(n_tasks, batch, length, 16, 100.0) for n_tasks in (2, 3) for batch, length in ((2, 5), (8, 40))]
LARGE = [
    (n_tasks, batch, length, hidden)
    for n_tasks in (2, 3)
    for batch, length, hidden in ((1, 1, 64), (1, 512, 128), (7, 33, 96), (32, 40, 128), (128, 40, 256), (512, 64, 64))
]


@pytest.fixture(scope="module")
def errors() -> dict[str, dict[str, float]]:
    """Return the relative errors of the features and of each gradient for each case."""
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if not GPU:
        environment["TRITON_INTERPRET"] = "1"
    cases = json.dumps([*SMALL, *GROWING, *(LARGE if GPU else [])])
    command = [sys.executable, "-m", "tests.network.kernel_errors", cases]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    found: dict[str, dict[str, float]] = json.loads(shown.stdout)
    return found


@pytest.mark.slow
def test_equals_the_plain_loop(errors: dict[str, dict[str, float]]) -> None:
    for kind, bound in (("exact", 1e-5), ("float32", 3e-3), ("bfloat16", 2e-2)):
        for case in SMALL + (LARGE if GPU else []):
            found = errors[f"{kind} {list(case)}"]
            assert set(found) == {"features", "projected", "recurrent", "cell_weight", "cell_bias", "padding"}
            assert found["padding"] == 0.0, (kind, case)
            assert max(found.values()) < bound, (kind, case)


@pytest.mark.slow
def test_cells_are_clamped_as_in_the_plain_loop(errors: dict[str, dict[str, float]]) -> None:
    for case in GROWING:
        # Rounding errors grow with the cells: over 5 words they are small. Over 40 words, gradients through clamped
        # cells would be wrong by sixteen orders of magnitude.
        assert max(errors[f"exact {list(case)}"].values()) < (0.1 if case[2] == 5 else 1e9), case


def test_unsupported_inputs() -> None:
    from cascade_srn.network.kernels.triton_srn import covers

    projected = torch.zeros(2, 3, 9 * 16)
    assert covers(projected, 16, 3)
    assert not covers(projected, 16, 4)
    assert not covers(projected, 512, 3)
    assert not covers(projected[:0], 16, 3)
    assert not covers(projected[:, :0], 16, 3)
