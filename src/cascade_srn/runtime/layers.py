"""Layers and the selection recurrent network in NumPy, in float32.

Each computes what the PyTorch module with the same name computes. See :mod:`cascade_srn.network.kernels.fused` for the
method of the recurrent network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.encoder.windows import Integers
from cascade_srn.network.kernels import CELL_BOUND, gate_coefficients, task_sets

Array = NDArray[np.float32]
Weights = Mapping[str, Array]

_LAYER_NORM_EPSILON = np.float32(1e-5)
# Rational approximation of the error function in float32, exact to about 2 units in the last place (as in Eigen).
_ERF_ABOVE = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_ERF_BELOW = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03),
    -1.42647390514189e-02,
)
_ERF_RANGE = np.float32(4)


def erf(values: Array) -> Array:
    """Compute the error function, which NumPy does not have."""
    clipped = np.clip(values, -_ERF_RANGE, _ERF_RANGE)
    square = clipped * clipped
    clipped *= _polynomial(square, _ERF_ABOVE)
    clipped /= _polynomial(square, _ERF_BELOW)
    return clipped


def _polynomial(values: Array, coefficients: tuple[float, ...]) -> Array:
    """Evaluate a polynomial, from the highest power on."""
    found: Array = np.full_like(values, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        found *= values
        found += np.float32(coefficient)
    return found


def gelu(values: Array) -> Array:
    """Compute x · Φ(x), in its exact form."""
    found = erf(values * np.float32(np.sqrt(0.5)))
    found += 1
    found *= values
    found *= np.float32(0.5)
    return found


def sum_segments(values: Array, starts: Integers, sizes: Integers, *, largest: bool = False) -> Array:
    """Sum contiguous rows, or return their largest values.

    A loop over the rows of the longest segment, because ``numpy.add.reduceat`` is slow along the first axis.

    Shapes: values (n, width); starts, sizes (n_segments,), sizes of at least 1; returns (n_segments, width)
    """
    combine: Any = np.maximum if largest else np.add
    found = values[starts]
    for step in range(1, int(sizes.max(initial=0))):
        (longer,) = (sizes > step).nonzero()
        found[longer] = combine(found[longer], values[starts[longer] + step])
    return found


@dataclass(frozen=True)
class Linear:
    """A linear layer. Shapes: weight (input_width, output_width); bias (output_width,) or None."""

    weight: Array
    bias: Array | None

    @classmethod
    def read(cls, weights: Weights, name: str) -> Linear:
        """Read the weights of a PyTorch layer, which are stored transposed."""
        return cls(np.ascontiguousarray(weights[f"{name}.weight"].T), weights.get(f"{name}.bias"))

    def __call__(self, values: Array) -> Array:
        """Shapes: (…, input_width) to (…, output_width)."""
        flat = values.reshape(-1, values.shape[-1]) @ self.weight
        if self.bias is not None:
            flat += self.bias
        found: Array = flat.reshape(*values.shape[:-1], self.weight.shape[1])
        return found


@dataclass(frozen=True)
class LayerNorm:
    """A layer norm. Shapes: weight, bias (width,)."""

    weight: Array
    bias: Array

    @classmethod
    def read(cls, weights: Weights, name: str) -> LayerNorm:
        """Read the weights of a layer."""
        return cls(weights[f"{name}.weight"], weights[f"{name}.bias"])

    def __call__(self, values: Array) -> Array:
        """Shapes: (…, width) to (…, width)."""
        centred = values - values.mean(-1, keepdims=True)
        variance = np.square(centred).mean(-1, keepdims=True)
        centred /= np.sqrt(variance + _LAYER_NORM_EPSILON)
        centred *= self.weight
        centred += self.bias
        found: Array = centred
        return found


@dataclass(frozen=True)
class SpanHead:
    """The span extraction model of a turn. See :class:`cascade_srn.network.span_extraction.SpanExtractor`.

    ``norm`` and ``output`` are None if the matcher is linear.
    """

    start: Linear
    end: Linear
    matcher_start: Linear
    matcher_last: Linear
    norm: LayerNorm | None
    output: Linear | None

    @classmethod
    def read(cls, weights: Weights, name: str) -> SpanHead:
        """Read the weights of a head."""
        matcher = f"{name}.matcher"
        is_linear = f"{matcher}.norm.weight" not in weights
        return cls(
            start=Linear.read(weights, f"{name}.start"),
            end=Linear.read(weights, f"{name}.end"),
            matcher_start=Linear.read(weights, f"{matcher}.start"),
            matcher_last=Linear.read(weights, f"{matcher}.last"),
            norm=None if is_linear else LayerNorm.read(weights, f"{matcher}.norm"),
            output=None if is_linear else Linear.read(weights, f"{matcher}.output"),
        )

    def match(self, first: Array, last: Array) -> Array:
        """Compute match logits of spans from their first and last words. Shapes: (n, width) to (n, n_labels)."""
        hidden = self.matcher_start(first)
        hidden += self.matcher_last(last)
        return hidden if self.norm is None or self.output is None else self.output(gelu(self.norm(hidden)))

    def spans(self, first: Array, last: Array) -> tuple[Array, Array, Array]:
        """Compute start, end and match logits of spans. Shapes: (n, width) to three of (n, n_labels)."""
        return self.start(first), self.end(last), self.match(first, last)


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

        All steps use the same buffers.

        Shapes: gates (n_real, n_gates × hidden); counts (n_items,), rows of each step; returns (n_real, n_sets, hidden)
        """
        hidden, n_sets, most = len(self.bias), len(self.to_gates), int(counts.max(initial=0))
        selected: Array = np.empty((len(gates), n_sets, hidden), dtype=np.float32)
        # What the master gates select from: the history and the candidate.
        sources: Array = np.empty((most, 2, 1, hidden), dtype=np.float32)
        products: Array = np.empty((most, 2, n_sets, hidden), dtype=np.float32)
        recurred = np.empty((most, gates.shape[1]), dtype=np.float32)
        cell = np.zeros((most, hidden), dtype=np.float32)
        state = np.empty_like(cell)
        begin = 0
        for n in counts[counts > 0].tolist():
            gate, chosen, c, h = gates[begin : begin + n], selected[begin : begin + n], cell[:n], state[:n]
            if begin:
                gate += np.matmul(h, self.recurrent, out=recurred[:n])
            np.tanh(gate[:, 2 * hidden : 3 * hidden], out=sources[:n, 1, 0])
            _sigmoid_in_place(gate)
            np.multiply(gate[:, :hidden], c, out=sources[:n, 0, 0])
            _select(gate[:, 3 * hidden :].reshape(n, 2, N_TASKS, hidden), sources[:n], products[:n])
            np.add(products[:n, 0], products[:n, 1], out=chosen)
            np.matmul(chosen.reshape(n, -1), self.combined, out=c)
            c += self.bias
            np.minimum(c, CELL_BOUND, out=c)
            np.maximum(c, -CELL_BOUND, out=c)
            np.tanh(c, out=h)
            h *= gate[:, hidden : 2 * hidden]
            begin += n
        return selected


def _sigmoid_in_place(values: Array) -> None:
    """Replace values by their logistic function. Those below -88 overflow to infinity on the way, which gives 0."""
    np.negative(values, out=values)
    with np.errstate(over="ignore"):
        np.exp(values, out=values)
    values += 1
    np.reciprocal(values, out=values)


def _select(masters: Array, sources: Array, products: Array) -> None:
    """Multiply sources by the products of the master gates of all task sets.

    Shapes: masters (…, n_tasks, hidden); sources (…, 1, hidden); products (…, n_sets, hidden), which is overwritten
    """
    for task in range(masters.shape[-2]):
        before, gate = 2**task - 1, masters[..., task : task + 1, :]
        np.multiply(sources, gate, out=products[..., before : before + 1, :])
        np.multiply(products[..., :before, :], gate, out=products[..., before + 1 : 2 * before + 1, :])


@dataclass(frozen=True)
class Srn:
    """An SRN, in one direction or both. See :class:`cascade_srn.network.srn.SelectionRecurrentNetwork`."""

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
