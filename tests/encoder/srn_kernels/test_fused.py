"""The scan that models run, against the plain loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.encoder.srn_kernels.fused import fused_srn_scan, monomials, monomials_to_gates
from cascade_srn.encoder.srn_kernels.reference import CELL_BOUND, Packing, selection_gates, srn_scan


def scanned(projected: Tensor, *rest: Any) -> Tensor:
    """The scan under test, on a padded batch."""
    *weights, n_tasks, lengths = rest
    packing = Packing(lengths, projected.shape[1])
    return packing.unpack(fused_srn_scan(packing.pack(projected), *weights, n_tasks, packing.counts))


def arguments(n_tasks: int, batch: int, length: int, hidden: int) -> list[Tensor]:
    n_gates, n_sets = 3 + 2 * n_tasks, 2**n_tasks - 1
    shapes = [(batch, length, n_gates * hidden), (hidden, n_gates * hidden), (n_sets * hidden, hidden), (hidden,)]
    return [torch.randn(shape, dtype=torch.double) * (1.0 if i in (0, 3) else 0.4) for i, shape in enumerate(shapes)]


CASES = [  # length, hidden, and the lengths of the rows
    (1, 1, [1]),
    (7, 5, [7, 7, 7]),
    (7, 5, [3, 7, 5]),
    (1, 4, [1, 0]),
    (12, 3, [2, 0, 9, 2]),
]


@pytest.mark.parametrize("n_tasks", [2, 3, 4])
@pytest.mark.parametrize(("length", "hidden", "lengths"), CASES)
def test_equals_the_plain_loop(n_tasks: int, length: int, hidden: int, lengths: list[int]) -> None:
    given = arguments(n_tasks, len(lengths), length, hidden)
    plain, fused = ([value.clone().requires_grad_() for value in given] for _ in range(2))
    real = padding_mask(torch.tensor(lengths), length)[:, :, None, None]
    expected, found = srn_scan(*plain, n_tasks) * real, scanned(*fused, n_tasks, torch.tensor(lengths))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    for a, b in zip(plain, fused, strict=True):
        # With one word only, no weight of the recurrence is used.
        of_plain = torch.zeros_like(a) if a.grad is None and length == 1 else a.grad
        torch.testing.assert_close(b.grad, of_plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_tasks", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cells_that_grow_at_every_word_are_held(n_tasks: int, dtype: torch.dtype) -> None:
    given = [value.to(dtype) for value in arguments(n_tasks, 2, 400, 4)]
    given[2] *= 10
    plain, fused = ([value.clone().requires_grad_() for value in given] for _ in range(2))
    expected, found = srn_scan(*plain, n_tasks), scanned(*fused, n_tasks, torch.tensor([400, 350]))
    # Without, they would be infinite long before the end.
    assert CELL_BOUND / 100 < expected.abs().max() <= CELL_BOUND + 1
    assert found.abs().max() <= CELL_BOUND + 1
    (found.tanh() * padding_mask(torch.tensor([400, 350]), 400)[:, :, None, None]).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in fused)
    # Over a few words, some of which are held, both are the same, and so are their gradients.
    few = [value[:, :12] if i == 0 else value for i, value in enumerate(given)]
    few[2] = few[2] * 100
    plain, fused = ([value.double().clone().requires_grad_() for value in few] for _ in range(2))
    expected, found = srn_scan(*plain, n_tasks), scanned(*fused, n_tasks, torch.tensor([12, 12]))
    assert expected.abs().max() > CELL_BOUND / 10
    torch.testing.assert_close(found, expected)
    expected.tanh().sum().backward()
    found.tanh().sum().backward()
    for a, b in zip(plain, fused, strict=True):
        torch.testing.assert_close(b.grad, a.grad)


@pytest.mark.parametrize("n_tasks", [2, 3])
def test_gradients(n_tasks: int) -> None:
    given = [value.requires_grad_() for value in arguments(n_tasks, 3, 3, 2)]
    lengths = torch.tensor([1, 3, 2])
    assert torch.autograd.gradcheck(lambda *values: scanned(*values, n_tasks, lengths), given)


def test_what_stands_at_padding_does_not_matter() -> None:
    given = arguments(3, 2, 4, 3)
    lengths = torch.tensor([2, 4])
    before = scanned(*given, 3, lengths)
    given[0][0, 2:] = torch.nan
    assert torch.equal(scanned(*given, 3, lengths), before)


def test_inputs_are_left_as_they_were() -> None:
    given = arguments(3, 1, 4, 3)  # a batch of one, whose transpose is the same memory
    before = [value.clone() for value in given]
    scanned(*given, 3, torch.tensor([4]))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("n_tasks", [2, 3, 4, 5])
def test_monomials_make_the_gates(n_tasks: int) -> None:
    masters = torch.rand(n_tasks, 6, dtype=torch.double)
    products = torch.stack([masters[list(members)].prod(0) for members in monomials(n_tasks)])
    made = monomials_to_gates(n_tasks, masters) @ products
    torch.testing.assert_close(made, selection_gates(masters))


def test_the_order_of_the_monomials() -> None:
    assert monomials(3) == [(0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_nothing_to_scan(shape: tuple[int, int]) -> None:
    given = [value.requires_grad_() for value in arguments(3, *shape, 2)]
    found = scanned(*given, 3, torch.full(shape[:1], shape[1]))
    assert found.shape == (*shape, 7, 2)
    found.sum().backward()
