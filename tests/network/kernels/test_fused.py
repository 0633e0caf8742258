"""The fused scans, with and without gradients, compared with the plain loop, and the packing of sequences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as given_by
from hypothesis import strategies as st
from torch import Tensor

from cascade_srn.network.kernels import CELL_BOUND, fused, monomials
from cascade_srn.network.kernels.fused import Packing, fused_srn_scan, inference_srn_scan, monomials_to_gates
from cascade_srn.network.kernels.reference import selection_gates, srn_scan
from cascade_srn.network.sequence import padding_mask
from cascade_srn.network.srn import SelectionRecurrentCell


def scan(projected: Tensor, *rest: Any) -> Tensor:
    """Run the scan under test on a padded batch."""
    *weights, n_tasks, lengths = rest
    packing = Packing(lengths, projected.shape[1])
    return packing.unpack(fused_srn_scan(packing.pack(projected), *weights, n_tasks, packing.counts))


def arguments(n_tasks: int, batch: int, length: int, hidden: int) -> list[Tensor]:
    n_gates, n_sets = 3 + 2 * n_tasks, 2**n_tasks - 1
    shapes = [(batch, length, n_gates * hidden), (hidden, n_gates * hidden), (n_sets * hidden, hidden), (hidden,)]
    return [torch.randn(shape, dtype=torch.double) * (1.0 if i in (0, 3) else 0.4) for i, shape in enumerate(shapes)]


CASES = [  # number of tasks, length, hidden, and the lengths of the rows
    (3, 1, 1, [1]),
    (3, 7, 5, [7, 7, 7]),
    (2, 7, 5, [3, 7, 5]),
    (4, 7, 5, [3, 7, 5]),
    (3, 12, 3, [2, 0, 9, 2]),
]


@pytest.mark.parametrize(("n_tasks", "length", "hidden", "lengths"), CASES)
def test_equals_the_plain_loop(n_tasks: int, length: int, hidden: int, lengths: list[int]) -> None:
    given = arguments(n_tasks, len(lengths), length, hidden)
    plain, fused = ([value.clone().requires_grad_() for value in given] for _ in range(2))
    real = padding_mask(torch.tensor(lengths), length)[:, :, None, None]
    expected, found = srn_scan(*plain, n_tasks) * real, scan(*fused, n_tasks, torch.tensor(lengths))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    for a, b in zip(plain, fused, strict=True):
        # With one word only, no weight of the recurrence is used.
        of_plain = torch.zeros_like(a) if a.grad is None and length == 1 else a.grad
        torch.testing.assert_close(b.grad, of_plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n_tasks", "dtype"), [(2, torch.float64), (3, torch.float32)])
def test_cells_that_grow_at_every_word_are_clamped(n_tasks: int, dtype: torch.dtype) -> None:
    given = [value.to(dtype) for value in arguments(n_tasks, 2, 400, 4)]
    given[2] *= 10
    plain, fused = ([value.clone().requires_grad_() for value in given] for _ in range(2))
    expected, found = srn_scan(*plain, n_tasks), scan(*fused, n_tasks, torch.tensor([400, 350]))
    # Without clamping, they would overflow long before the end.
    assert CELL_BOUND / 100 < expected.abs().max() <= CELL_BOUND + 1
    assert found.abs().max() <= CELL_BOUND + 1
    (found.tanh() * padding_mask(torch.tensor([400, 350]), 400)[:, :, None, None]).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in fused)
    # Over a few words with some clamped cells, both have the same values and gradients.
    few = [value[:, :12] if i == 0 else value for i, value in enumerate(given)]
    few[2] = few[2] * 100
    plain, fused = ([value.double().clone().requires_grad_() for value in few] for _ in range(2))
    expected, found = srn_scan(*plain, n_tasks), scan(*fused, n_tasks, torch.tensor([12, 12]))
    assert expected.abs().max() > CELL_BOUND / 10
    torch.testing.assert_close(found, expected)
    expected.tanh().sum().backward()
    found.tanh().sum().backward()
    for a, b in zip(plain, fused, strict=True):
        torch.testing.assert_close(b.grad, a.grad)


def test_gradients() -> None:
    given = [value.requires_grad_() for value in arguments(3, 2, 3, 1)]
    lengths = torch.tensor([1, 3])
    assert torch.autograd.gradcheck(lambda *values: scan(*values, 3, lengths), given)


def test_padding_is_ignored() -> None:
    given = arguments(3, 2, 4, 3)
    lengths = torch.tensor([2, 4])
    before = scan(*given, 3, lengths)
    given[0][0, 2:] = torch.nan
    assert torch.equal(scan(*given, 3, lengths), before)


def test_inputs_are_not_changed() -> None:
    given = arguments(3, 1, 4, 3)  # a batch of one, whose transpose is the same memory
    before = [value.clone() for value in given]
    scan(*given, 3, torch.tensor([4]))
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))


def test_monomials_combine_to_the_gates() -> None:
    for n_tasks in (2, 3, 4, 5):
        masters = torch.rand(n_tasks, 6, dtype=torch.double)
        products = torch.stack([masters[list(members)].prod(0) for members in monomials(n_tasks)])
        gates = monomials_to_gates(n_tasks, masters) @ products
        torch.testing.assert_close(gates, selection_gates(masters))
    assert monomials(3) == [(0,), (1,), (0, 1), (2,), (0, 2), (1, 2), (0, 1, 2)]


def test_nothing_to_scan() -> None:
    for shape in ((0, 4), (3, 0), (0, 0)):
        given = [value.requires_grad_() for value in arguments(3, *shape, 2)]
        found = scan(*given, 3, torch.full(shape[:1], shape[1]))
        assert found.shape == (*shape, 7, 2)
        found.sum().backward()


@given_by(st.lists(st.integers(0, 6), max_size=5), st.integers(0, 2))
def test_real_positions_step_by_step_and_back(lengths: list[int], padding: int) -> None:
    length = max(lengths, default=0) + padding
    packing = Packing(torch.tensor(lengths, dtype=torch.long), length)
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    expected = [(row, step) for step in range(length) for row in order if lengths[row] > step]
    assert [(int(p) // length, int(p) % length) for p in packing.positions] == expected
    assert packing.counts == [n for n in (sum(k > step for k in lengths) for step in range(length)) if n]
    values = torch.randn(len(lengths), length, 3)
    found = packing.unpack(packing.pack(values))
    assert found.shape == values.shape
    for row, n in enumerate(lengths):
        assert torch.equal(found[row, :n], values[row, :n])
        assert not found[row, n:].any()


def scan_without_gradients(given: list[Tensor], n_tasks: int, lengths: list[int]) -> Tensor:
    projected, *weights = given
    packing = Packing(torch.tensor(lengths), projected.shape[1])
    return packing.spread(inference_srn_scan(packing.pack(projected), *weights, n_tasks, packing.counts))


@pytest.mark.parametrize(
    ("n_tasks", "length", "hidden", "lengths"),
    [
        (3, 1, 1, [1]), (3, 9, 4, [9]), (3, 9, 4, [5]), (3, 4, 2, [0]), (3, 4, 2, [0, 0]),
        (3, 7, 5, [7, 7, 7]), (2, 7, 5, [3, 7, 5]), (4, 7, 5, [3, 7, 5]), (3, 12, 3, [2, 0, 9, 2]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inference_mode", [False, True])
def test_the_scan_without_gradients_equals_the_plain_loop(
    n_tasks: int, length: int, hidden: int, lengths: list[int], inference_mode: bool
) -> None:
    given = arguments(n_tasks, len(lengths), length, hidden)
    with torch.inference_mode(inference_mode), torch.no_grad():
        real = padding_mask(torch.tensor(lengths), length)[:, :, None, None]
        expected = srn_scan(*given, n_tasks) * real
        torch.testing.assert_close(scan_without_gradients(given, n_tasks, lengths), expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_the_scan_without_gradients_ignores_padding() -> None:
    given = arguments(3, 2, 4, 3)
    before = scan_without_gradients(given, 3, [2, 4])
    given[0][0, 2:] = torch.nan
    assert torch.equal(scan_without_gradients(given, 3, [2, 4]), before)


@torch.no_grad()
def test_the_scan_without_gradients_clamps_cells() -> None:
    given = arguments(3, 2, 12, 4)
    given[2] *= 1000
    expected = srn_scan(*given, 3)
    assert expected.abs().max() > CELL_BOUND / 10
    torch.testing.assert_close(scan_without_gradients(given, 3, [12, 12]), expected)


def test_a_cell_uses_it_without_gradients_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(*arguments: object) -> Tensor:
        calls.append(1)
        return inference_srn_scan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(fused, "inference_srn_scan", count)
    cell = SelectionRecurrentCell(6, 4, n_tasks=3)
    inputs, lengths = torch.randn(3, 5, 6), torch.tensor([5, 2, 0])
    with_gradients = cell(inputs, lengths)
    assert not calls
    with torch.inference_mode():
        found = cell(inputs, lengths)
    assert calls == [1]
    torch.testing.assert_close(found, with_gradients)
    # Nothing that was made in inference mode is used in training.
    cell(inputs, lengths).sum().backward()
