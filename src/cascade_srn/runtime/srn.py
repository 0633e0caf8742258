"""The selection recurrent network in NumPy. See :mod:`cascade_srn.encoder.srn_kernels.fused` for the method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cascade_srn.encoder.windows import Integers
from cascade_srn.network.task_sets import CELL_BOUND, gate_coefficients, task_sets
from cascade_srn.runtime.layers import Array, Linear, Weights, sigmoid

N_TASKS = 3


@dataclass(frozen=True)
class SrnCell:
    """An SRN in one direction.

    Shapes:
        recurrent: (hidden, n_gates × hidden)
        combined: (n_sets × hidden, hidden), the weight of the cell for monomials of the master gates
        bias: (hidden,)
        to_gates: (n_sets, n_sets), converts monomials to memories
    """

    project: Linear
    recurrent: Array
    combined: Array
    bias: Array
    to_gates: Array

    @classmethod
    def read(cls, weights: Weights, name: str) -> SrnCell:
        """Read the weights of a cell."""
        to_gates = np.array(gate_coefficients(N_TASKS), dtype=np.float32)
        recurrent, cell = weights[f"{name}.recurrent_weight"], weights[f"{name}.cell_weight"]
        hidden = recurrent.shape[0]
        combined = np.einsum("gm,ghk->mhk", to_gates, cell.reshape(-1, hidden, hidden)).reshape(-1, hidden)
        project = Linear.read(weights, f"{name}.input_projection")
        return cls(project, recurrent, np.ascontiguousarray(combined), weights[f"{name}.cell_bias"], to_gates)

    def __call__(self, items: Array, lengths: Integers) -> Array:
        """Compute the representations of all task sets: tanh of their memories, zero at padding.

        Shapes: items (n_rows, n_items, width); lengths (n_rows,); returns (n_rows, n_items, n_sets, hidden)
        """
        n_rows, n_items = items.shape[:2]
        n_sets, hidden = len(self.to_gates), len(self.bias)
        # By step and then longest row first, so that the rows that continue after a step are its first rows.
        order = np.argsort(-lengths, kind="stable")
        step = np.arange(n_items)[:, None]
        is_real = lengths[order] > step
        positions = (order * n_items + step)[is_real]
        selected = self._scan(self.project(items.reshape(n_rows * n_items, items.shape[2])[positions]), is_real.sum(1))
        memories = np.matmul(self.to_gates, selected)
        found: Array = np.zeros((n_rows * n_items, n_sets, hidden), dtype=np.float32)
        found[positions] = np.tanh(memories, out=memories)
        return found.reshape(n_rows, n_items, n_sets, hidden)

    def _scan(self, gates: Array, counts: Integers) -> Array:
        """Compute the selected monomials of all steps. ``gates`` is overwritten.

        Shapes: gates (n_real, n_gates × hidden); counts (n_items,), rows of each step; returns (n_real, n_sets, hidden)
        """
        hidden, n_sets = len(self.bias), len(self.to_gates)
        selected: Array = np.empty((len(gates), n_sets, hidden), dtype=np.float32)
        begin = 0
        cell = state = np.zeros((0, hidden), dtype=np.float32)
        for n in counts[counts > 0].tolist():
            gate, chosen = gates[begin : begin + n], selected[begin : begin + n]
            if begin:
                gate += state[:n] @ self.recurrent
            masters = sigmoid(gate[:, 3 * hidden :]).reshape(n, 2, N_TASKS, hidden)
            forget_output = sigmoid(gate[:, : 2 * hidden])
            products = _monomials(masters)
            np.multiply(products[:, 1], np.tanh(gate[:, None, 2 * hidden : 3 * hidden]), out=chosen)
            if begin:
                chosen += products[:, 0] * (forget_output[:, None, :hidden] * cell[:n, None])
            cell = chosen.reshape(n, -1) @ self.combined
            cell += self.bias
            np.clip(cell, -CELL_BOUND, CELL_BOUND, out=cell)
            state = forget_output[:, hidden:] * np.tanh(cell)
            begin += n
        return selected


def _monomials(masters: Array) -> Array:
    """Compute the products of master gates. Shapes: masters (…, n_tasks, hidden); returns (…, n_sets, hidden)."""
    *shape, n_tasks, hidden = masters.shape
    found: Array = np.empty((*shape, 2**n_tasks - 1, hidden), dtype=np.float32)
    for task in range(n_tasks):
        before, gate = 2**task - 1, masters[..., task : task + 1, :]
        found[..., before : before + 1, :] = gate
        np.multiply(found[..., :before, :], gate, out=found[..., before + 1 : 2 * before + 1, :])
    return found


@dataclass(frozen=True)
class Srn:
    """An SRN, in one direction or both. See :class:`cascade_srn.encoder.srn.SelectionRecurrentNetwork`."""

    forward: SrnCell
    backward: SrnCell | None

    @classmethod
    def read(cls, weights: Weights, name: str) -> Srn:
        """Read the weights of both directions, if there are two."""
        both = f"{name}.backward_cell.recurrent_weight" in weights
        forward = SrnCell.read(weights, f"{name}.forward_cell")
        return cls(forward, SrnCell.read(weights, f"{name}.backward_cell") if both else None)

    def __call__(self, items: Array, lengths: Integers) -> Array:
        """Encode items. Shapes: as of :class:`SrnCell`, with features twice as wide in both directions."""
        features = self.forward(items, lengths)
        if self.backward is None:
            return features
        backward = self.backward(_reverse(items, lengths), lengths)
        return np.concatenate((features, _reverse(backward, lengths)), axis=-1)

    @staticmethod
    def task(features: Array, task: int) -> Array:
        """Return the representation of one task. Shapes: features (…, n_sets, width); returns (…, task_width)."""
        members = [i for i, tasks in enumerate(task_sets(N_TASKS)) if task in tasks]
        chosen: Array = features[..., members, :]
        # Without -1, which has no meaning if there are no words.
        return chosen.reshape(*chosen.shape[:-2], chosen.shape[-2] * chosen.shape[-1])


def _reverse(values: Array, lengths: Integers) -> Array:
    """Reverse each sequence and leave its padding at the end. Shapes: values, returns (n_rows, n_items, …)."""
    item = np.arange(values.shape[1])
    mirrored = np.where(item < lengths[:, None], lengths[:, None] - 1 - item, item)
    found: Array = values[np.arange(len(values))[:, None], mirrored]
    return found
