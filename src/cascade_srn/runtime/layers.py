"""Layers in NumPy, in float32. Each computes what the layer of torch with the same name computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.encoder.windows import Integers

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


def sigmoid(values: Array) -> Array:
    """Compute the logistic function, also of large values."""
    with np.errstate(over="ignore"):
        found: Array = np.reciprocal(np.exp(-values) + np.float32(1))
    return found


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
        """Read the weights of a layer of torch, which are stored transposed."""
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
