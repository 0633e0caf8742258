"""Implementations of the recurrent part of the SRN, whose results differ only by rounding.

This module has what all of them share, with torch or without it: the sets of tasks and the polynomials of their gates.
"""

from itertools import combinations

# Deviation: cell states are clamped to ± this bound. In the paper's equations they can grow at every word, and they
# overflowed in training. Trained models stay far below the bound.
CELL_BOUND = 10_000.0


def task_sets(n_tasks: int) -> list[tuple[int, ...]]:
    """Return all non-empty sets of tasks, smallest first: for three tasks e, s, o, es, eo, so, eso.

    The SRN has one memory for each of the ``2 ** n_tasks - 1`` sets, in this order.
    """
    return [s for size in range(1, n_tasks + 1) for s in combinations(range(n_tasks), size)]


def monomials(n_tasks: int) -> list[tuple[int, ...]]:
    """Return the sets of tasks in the order of the scan: sets without the last task, the task alone, sets with it.

    In this order, the monomials that a task adds are one product of two contiguous blocks.
    """
    sets: list[tuple[int, ...]] = []
    for task in range(n_tasks):
        sets += [(task,), *((*members, task) for members in sets)]
    return sets


def gate_coefficients(n_tasks: int) -> list[list[float]]:
    """Return the matrix that converts monomials to gates, and to memories: (n_sets, n_sets), rows are gates."""
    return [[_coefficient(gate, monomial) for monomial in monomials(n_tasks)] for gate in task_sets(n_tasks)]


def _coefficient(gate: tuple[int, ...], monomial: tuple[int, ...]) -> float:
    """Return the coefficient of a monomial in a gate: inclusion–exclusion for one task (eq. 5), else 0 or 1 (eq. 4)."""
    if len(gate) > 1:
        return float(gate == monomial)
    return float((-1) ** (len(monomial) - 1)) if gate[0] in monomial else 0.0
