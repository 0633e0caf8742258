"""Print the errors of the Triton kernels against the plain loop in float64 as JSON. Run by test_triton_srn.py."""

from __future__ import annotations

import json
import sys

import torch

from cascade_srn.network.kernels.reference import srn_scan
from cascade_srn.network.kernels.triton_srn import triton_srn_scan

NAMES = ("projected", "recurrent", "cell_weight", "cell_bias")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def errors(kind: str, n_tasks: int, batch: int, length: int, hidden: int, growth: float = 1) -> dict[str, float]:
    n_gates, n_sets = 3 + 2 * n_tasks, 2**n_tasks - 1
    lengths = torch.randint(1, length + 1, (batch,), device=DEVICE)
    real = (torch.arange(length, device=DEVICE) < lengths[:, None])[:, :, None]
    bound = hidden**-0.5
    given = [
        torch.randn(batch, length, n_gates * hidden, device=DEVICE) * real,
        (torch.rand(hidden, n_gates * hidden, device=DEVICE) * 2 - 1) * bound,
        (torch.rand(n_sets * hidden, hidden, device=DEVICE) * 2 - 1) * bound * growth,
        torch.randn(hidden, device=DEVICE) * 0.1,
    ]
    if kind == "bfloat16":
        given[0] = given[0].bfloat16()
    # Padding is not read.
    given[0] = torch.where(real, given[0], torch.nan)
    ours = [value.clone().requires_grad_() for value in given]
    exact = [value.double().nan_to_num(nan=0.0).requires_grad_() for value in given]
    precision = "ieee" if kind == "exact" else "tf32"
    found = triton_srn_scan(*ours, n_tasks, lengths, precision)
    outside = found.detach().masked_select(~real[..., None])
    expected = srn_scan(*exact, n_tasks).tanh() * real[..., None]
    gradient = torch.randn_like(found)
    found.backward(gradient)
    expected.backward(gradient.double())
    measured = {"features": _relative(found, expected)}
    for name, a, b in zip(NAMES, ours, exact, strict=True):
        assert a.grad is not None
        # With one word only, no weight of the recurrence is used.
        measured[name] = _relative(a.grad, torch.zeros_like(b) if b.grad is None else b.grad)
    return {**measured, "padding": max(_largest(outside), _largest(ours[0].grad.masked_select(~real)))}


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    size = float(expected.norm())
    return float((found.double() - expected).norm()) / size if size > 0 else float(found.double().norm())


def _largest(values: torch.Tensor) -> float:
    """Return the largest absolute value at padding. NaN counts as 1."""
    return float(values.float().abs().nan_to_num(nan=1.0).max()) if values.numel() else 0.0


if __name__ == "__main__":
    torch.manual_seed(int(torch.seed() % 2**31))
    cases = json.loads(sys.argv[1])
    kinds = ("exact", "float32", "bfloat16")
    print(json.dumps({f"{kind} {case}": errors(kind, *case) for kind in kinds for case in cases}))  # noqa: T201
