"""The scan without gradients, compared with the plain loop."""

from __future__ import annotations

import pytest
import torch

from cascade_srn.network.kernels import inference
from cascade_srn.network.kernels.inference import inference_srn_scan
from cascade_srn.network.kernels.reference import CELL_BOUND, Packing, srn_scan
from cascade_srn.network.sequence import padding_mask
from cascade_srn.network.srn import SelectionRecurrentCell


def arguments(n_tasks: int, batch: int, length: int, hidden: int) -> list[torch.Tensor]:
    n_gates, n_sets = 3 + 2 * n_tasks, 2**n_tasks - 1
    shapes = [(batch, length, n_gates * hidden), (hidden, n_gates * hidden), (n_sets * hidden, hidden), (hidden,)]
    return [torch.randn(shape, dtype=torch.double) * (1.0 if i in (0, 3) else 0.4) for i, shape in enumerate(shapes)]


def scan(given: list[torch.Tensor], n_tasks: int, lengths: list[int]) -> torch.Tensor:
    projected, *weights = given
    packing = Packing(torch.tensor(lengths), projected.shape[1])
    return packing.spread(inference_srn_scan(packing.pack(projected), *weights, n_tasks, packing.counts))


@pytest.mark.parametrize(
    ("n_tasks", "length", "hidden", "lengths"),
    [
        (3, 1, 1, [1]),
        (3, 9, 4, [9]),
        (3, 9, 4, [5]),
        (3, 4, 2, [0]),
        (3, 4, 2, [0, 0]),
        (3, 7, 5, [7, 7, 7]),
        (2, 7, 5, [3, 7, 5]),
        (4, 7, 5, [3, 7, 5]),
        (3, 12, 3, [2, 0, 9, 2]),
    ],
)
@pytest.mark.parametrize("inference_mode", [False, True])
def test_equals_the_plain_loop(
    n_tasks: int, length: int, hidden: int, lengths: list[int], inference_mode: bool
) -> None:
    given = arguments(n_tasks, len(lengths), length, hidden)
    with torch.inference_mode(inference_mode), torch.no_grad():
        real = padding_mask(torch.tensor(lengths), length)[:, :, None, None]
        expected = srn_scan(*given, n_tasks) * real
        torch.testing.assert_close(scan(given, n_tasks, lengths), expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_padding_is_ignored() -> None:
    given = arguments(3, 2, 4, 3)
    before = scan(given, 3, [2, 4])
    given[0][0, 2:] = torch.nan
    assert torch.equal(scan(given, 3, [2, 4]), before)


@torch.no_grad()
def test_cells_are_clamped() -> None:
    given = arguments(3, 2, 12, 4)
    given[2] *= 1000
    expected = srn_scan(*given, 3)
    assert expected.abs().max() > CELL_BOUND / 10
    torch.testing.assert_close(scan(given, 3, [12, 12]), expected)


def test_a_cell_uses_it_without_gradients_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(*arguments: object) -> torch.Tensor:
        calls.append(1)
        return inference_srn_scan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(inference, "inference_srn_scan", count)
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
