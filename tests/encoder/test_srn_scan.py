"""The scan that models run, against the plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cascade_srn.encoder.selection import selection_gates, task_sets
from cascade_srn.encoder.srn_plain import srn_scan
from cascade_srn.encoder.srn_scan import fused_srn_scan, monomials_to_gates


def arguments(n_tasks: int, batch: int, length: int, hidden: int) -> list[Tensor]:
    n_gates, n_sets = 3 + 2 * n_tasks, 2**n_tasks - 1
    shapes = [(batch, length, n_gates * hidden), (hidden, n_gates * hidden), (n_sets * hidden, hidden), (hidden,)]
    return [torch.randn(shape, dtype=torch.double) * (1.0 if i in (0, 3) else 0.4) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("n_tasks", [2, 3, 4])
@pytest.mark.parametrize(("batch", "length", "hidden"), [(1, 1, 1), (3, 7, 5), (2, 1, 4), (4, 12, 3)])
def test_equals_the_plain_loop(n_tasks: int, batch: int, length: int, hidden: int) -> None:
    given = arguments(n_tasks, batch, length, hidden)
    plain, fused = ([value.clone().requires_grad_() for value in given] for _ in range(2))
    expected, found = srn_scan(*plain, n_tasks), fused_srn_scan(*fused, n_tasks)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    for a, b in zip(plain, fused, strict=True):
        # With one word only, no weight of the recurrence is used.
        of_plain = torch.zeros_like(a) if a.grad is None and length == 1 else a.grad
        torch.testing.assert_close(b.grad, of_plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_tasks", [2, 3])
def test_gradients(n_tasks: int) -> None:
    given = [value.requires_grad_() for value in arguments(n_tasks, 2, 3, 2)]
    assert torch.autograd.gradcheck(lambda *values: fused_srn_scan(*values, n_tasks), given)


def test_inputs_are_left_as_they_were() -> None:
    given = arguments(3, 1, 4, 3)  # a batch of one, whose transpose is the same memory
    before = [value.clone() for value in given]
    fused_srn_scan(*given, 3)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("n_tasks", [2, 3, 4, 5])
def test_monomials_make_the_gates(n_tasks: int) -> None:
    masters = torch.rand(n_tasks, 6, dtype=torch.double)
    monomials = torch.stack([masters[list(members)].prod(0) for members in task_sets(n_tasks)])
    made = monomials_to_gates(n_tasks, masters) @ monomials
    torch.testing.assert_close(made, selection_gates(masters))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_nothing_to_scan(shape: tuple[int, int]) -> None:
    given = [value.requires_grad_() for value in arguments(3, *shape, 2)]
    found = fused_srn_scan(*given, 3)
    assert found.shape == (*shape, 7, 2)
    found.sum().backward()
