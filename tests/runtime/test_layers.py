"""Each layer in NumPy computes what its layer of torch computes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from cascade_srn.network.span_extraction import LinearMatcher, MlpMatcher, SpanExtractor
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.runtime.layers import LayerNorm, Linear, SpanHead, Srn, erf, gelu, sigmoid, sum_segments


def weights_of(module, name="part"):
    return {f"{name}.{key}": value.detach().numpy() for key, value in module.state_dict().items()}


def close(found, expected, tolerance=2e-6):
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=0, atol=tolerance)


def test_functions():
    values = np.concatenate((np.linspace(-6, 6, 2001), [-200, 200, 0])).astype(np.float32)
    np.testing.assert_allclose(erf(values), [math.erf(v) for v in values.tolist()], rtol=0, atol=5e-7)
    close(gelu(values), nn.functional.gelu(torch.from_numpy(values)))
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        found = sigmoid(values)
    close(found, torch.from_numpy(values).sigmoid(), 3e-7)


@pytest.mark.parametrize("largest", [False, True])
def test_segments(largest):
    values = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    starts, sizes = np.array([0, 1, 4, 11]), np.array([1, 3, 7, 1])
    found = sum_segments(values, starts, sizes, largest=largest)
    for row, start, size in zip(found, starts, sizes, strict=True):
        part = values[start : start + size]
        np.testing.assert_allclose(row, part.max(0) if largest else part.sum(0), atol=1e-5)
    assert sum_segments(values, starts[:0], sizes[:0]).shape == (0, 3)


def test_linear_and_norm():
    values = torch.randn(2, 5, 7) * 3 + 1
    layer, norm = nn.Linear(7, 4), nn.LayerNorm(7)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    close(Linear.read(weights_of(layer), "part")(values.numpy()), layer(values))
    close(LayerNorm.read(weights_of(norm), "part")(values.numpy()), norm(values))


@pytest.mark.parametrize("matcher", [LinearMatcher(6, 3), MlpMatcher(6, 3, hidden_width=5)])
def test_heads(matcher):
    head = SpanExtractor(6, 3, matcher=matcher)
    first, last = torch.randn(9, 6), torch.randn(9, 6)
    found = SpanHead.read(weights_of(head), "part").spans(first.numpy(), last.numpy())
    for part, expected in zip(found, head.spans(first, last), strict=True):
        close(part, expected)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [[4, 0, 6, 6, 1], [1], [3, 3]])
def test_srn(bidirectional, lengths):
    network = SelectionRecurrentNetwork(5, 4, n_tasks=3, bidirectional=bidirectional)
    items, counts = torch.randn(len(lengths), max(lengths), 5), torch.tensor(lengths)
    with torch.no_grad():
        expected = network(items, counts)
        found = Srn.read(weights_of(network), "part")(items.numpy(), counts.numpy())
        close(found, expected)
        for task in range(3):
            close(Srn.task(found, task), network.task(expected, task))
