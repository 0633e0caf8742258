from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cascade_srn.network.kernels.reference import selection_gates, task_sets

probabilities = st.floats(0, 1)


def gates_by_set(*masters: float) -> dict[str, float]:
    """Return the gates of up to four tasks by their letters: ``{"e": …, "s": …, "es": …}``."""
    gates = selection_gates(torch.tensor(masters, dtype=torch.float64))
    return {
        "".join("esox"[t] for t in members): float(g) for members, g in zip(task_sets(len(masters)), gates, strict=True)
    }


def test_sets_of_two_and_three_tasks_in_the_papers_order() -> None:
    assert task_sets(2) == [(0,), (1,), (0, 1)]
    assert task_sets(3) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]

    # One for each non-empty choice of tasks.
    for n_tasks in (2, 3, 4, 5):
        sets = task_sets(n_tasks)
        assert len(sets) == len(set(sets)) == 2**n_tasks - 1
        assert {frozenset(s) for s in sets} == {
            frozenset(t for t in range(n_tasks) if choice >> t & 1) for choice in range(1, 2**n_tasks)
        }
        assert [len(s) for s in sets] == sorted(len(s) for s in sets)


@given(probabilities, probabilities)
def test_two_tasks_as_the_appendix_writes_them(rho_e: float, rho_r: float) -> None:
    g_er = rho_e * rho_r
    g_e = rho_e - g_er
    g_r = rho_r - g_er
    assert gates_by_set(rho_e, rho_r) == pytest.approx({"e": g_e, "s": g_r, "es": g_er}, abs=1e-14)


@given(probabilities, probabilities, probabilities)
def test_three_tasks_as_equations_4_and_5_write_them(rho_e: float, rho_s: float, rho_o: float) -> None:
    g_es = rho_e * rho_s
    g_eo = rho_e * rho_o
    g_so = rho_s * rho_o
    g_eso = rho_e * rho_s * rho_o
    g_e = rho_e - g_es - g_eo + g_eso
    g_s = rho_s - g_es - g_so + g_eso
    g_o = rho_o - g_eo - g_so + g_eso
    expected = {"e": g_e, "s": g_s, "o": g_o, "es": g_es, "eo": g_eo, "so": g_so, "eso": g_eso}
    assert gates_by_set(rho_e, rho_s, rho_o) == pytest.approx(expected, abs=1e-14)


def inclusion_exclusion(masters: Tensor, members: tuple[int, ...]) -> Tensor:
    """Compute a shared gate as a product, and an independent gate as the alternating sum over supersets."""
    n_tasks = masters.shape[0]
    if len(members) > 1:
        return masters[list(members)].prod(dim=0)
    others = [t for t in range(n_tasks) if t != members[0]]
    total = torch.zeros_like(masters[0])
    for size in range(n_tasks):
        for joined in combinations(others, size):
            total += (-1) ** size * masters[[members[0], *joined]].prod(dim=0)
    return total


@pytest.mark.parametrize("n_tasks", [2, 5])
def test_any_number_of_tasks_follows_inclusion_exclusion(n_tasks: int) -> None:
    masters = torch.rand(n_tasks, 3, 2, 4, generator=torch.Generator().manual_seed(n_tasks), dtype=torch.float64)
    expected = torch.stack([inclusion_exclusion(masters, members) for members in task_sets(n_tasks)])
    gates = selection_gates(masters)
    assert gates.shape == (2**n_tasks - 1, 3, 2, 4)
    torch.testing.assert_close(gates, expected, rtol=0, atol=1e-14)


@given(st.lists(probabilities, min_size=2, max_size=4))
def test_gates_lie_between_0_and_1_and_never_above_a_members_master_gate(masters: list[float]) -> None:
    gates = selection_gates(torch.tensor(masters, dtype=torch.float64))
    for members, gate in zip(task_sets(len(masters)), gates.tolist(), strict=True):
        assert 0 <= gate <= min(masters[t] for t in members)


def test_a_neuron_of_one_task_only_goes_to_its_independent_memory() -> None:
    for n_tasks, open_task in ((2, 0), (3, 1), (4, 3)):
        masters = torch.zeros(n_tasks, dtype=torch.float64)
        masters[open_task] = 1.0
        assert selection_gates(masters).tolist() == [float(s == (open_task,)) for s in task_sets(n_tasks)]
