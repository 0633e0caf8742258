"""Each layer in NumPy computes what the PyTorch layer computes, for random weights and shapes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from cascade_srn.inference.decode import sigmoid
from cascade_srn.network.fusion import Queries, SubjectSpan, SubjectTag, subject_means
from cascade_srn.network.kernels import task_sets
from cascade_srn.network.span_extraction import LinearMatcher, MlpMatcher, SpanExtractor
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.runtime.layers import LayerNorm, Linear, SpanHead, Srn, erf, gelu, sum_segments
from cascade_srn.runtime.turns import SubjectFusion


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


@pytest.mark.parametrize("shape", [(7,), (1, 7), (2, 5, 7), (0, 7), (3, 0, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_norm(shape, bias):
    values = torch.randn(shape) * 3 + 1
    layer, norm = nn.Linear(7, 4, bias=bias), nn.LayerNorm(7)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    close(Linear.read(weights_of(layer), "part")(values.numpy()), layer(values))
    close(LayerNorm.read(weights_of(norm), "part")(values.numpy()), norm(values))


@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("n_spans", [0, 1, 9])
@pytest.mark.parametrize("matcher", ["linear", "mlp"])
def test_heads(matcher, n_spans, n_labels):
    made = LinearMatcher(6, n_labels) if matcher == "linear" else MlpMatcher(6, n_labels, hidden_width=5)
    head = SpanExtractor(6, n_labels, matcher=made)
    first, last = torch.randn(n_spans, 6), torch.randn(n_spans, 6)
    found = SpanHead.read(weights_of(head), "part").spans(first.numpy(), last.numpy())
    for part, expected in zip(found, head.spans(first, last), strict=True):
        close(part, expected)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("hidden", [1, 4])
@pytest.mark.parametrize("lengths", [[4, 0, 6, 6, 1], [1], [3, 3], [0, 0], [300, 2]])
def test_srn(bidirectional, lengths, hidden):
    network = SelectionRecurrentNetwork(5, hidden, n_tasks=3, bidirectional=bidirectional)
    items, counts = torch.randn(len(lengths), max(lengths), 5), torch.tensor(lengths)
    with torch.no_grad():
        expected = network(items, counts)
        found = Srn.read(weights_of(network), "part")(items.numpy(), counts.numpy())
        close(found, expected)
        for task in range(3):
            close(Srn.task(found, task), network.task(expected, task))


def slow_srn(items, lengths, weights):
    """Compute the equations of the paper in float64, one row and one word after the other."""
    recurrent, cell_weight, bias = (
        weights[f"part.forward_cell.{n}"] for n in ("recurrent_weight", "cell_weight", "cell_bias")
    )
    project = [weights[f"part.forward_cell.input_projection.{name}"] for name in ("weight", "bias")]
    hidden, sets = len(bias), task_sets(3)
    found = np.zeros((*items.shape[:2], len(sets), hidden))
    for row, length in enumerate(lengths):
        state = cell = np.zeros(hidden)
        for word in range(length):
            gates = (project[0] @ items[row, word] + project[1] + state @ recurrent).reshape(9, hidden)
            forget, output, *masters = 1 / (1 + np.exp(-gates[[0, 1, 3, 4, 5, 6, 7, 8]]))
            memories = np.zeros((len(sets), hidden))
            for gate, source in ((masters[:3], forget * cell), (masters[3:], np.tanh(gates[2]))):
                for number, tasks in enumerate(sets):
                    inside = np.prod([gate[task] for task in tasks], axis=0)
                    outside = np.prod([1 - gate[task] for task in range(3) if task not in tasks], axis=0)
                    memories[number] += source * inside * (outside if len(tasks) == 1 else 1)
            cell = memories.reshape(-1) @ cell_weight + bias
            state = output * np.tanh(cell)
            found[row, word] = np.tanh(memories)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_srn_computes_the_equations(seed):
    """Random sizes and lengths, in any order, with values in the padding that must not be read."""
    rng = np.random.default_rng(seed)
    width, hidden, n_rows, n_items = (int(rng.integers(1, most)) for most in (7, 20, 9, 30))
    network = SelectionRecurrentNetwork(width, hidden, n_tasks=3)
    weights = weights_of(network)
    lengths = rng.integers(0, n_items + 1, n_rows)
    items = rng.normal(size=(n_rows, n_items, width)).astype(np.float32)
    items[np.arange(n_items) >= lengths[:, None]] = np.inf
    srn = Srn.read(weights, "part")
    found = srn(items, lengths)
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    np.testing.assert_allclose(found, slow_srn(items, lengths, exact), rtol=0, atol=2e-6)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(srn(items[row : row + 1], lengths[row : row + 1])[0], found[row], rtol=0, atol=1e-6)
        assert not found[row, length:].any()


def test_cells_are_clamped():
    """Large weights would let the states of a long sequence grow without bound."""
    network = SelectionRecurrentNetwork(5, 4, n_tasks=3, backend="plain")
    with torch.no_grad():
        network.forward_cell.cell_weight.mul_(5000)
        items, counts = torch.randn(2, 40, 5), torch.tensor([40, 17])
        found = Srn.read(weights_of(network), "part")(items.numpy(), counts.numpy())
        close(found, network(items, counts), 1e-3)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", ["tag", "span"])
def test_subject_fusions(kind):
    fusion = SubjectTag(6, 3) if kind == "tag" else SubjectSpan(6, 4, max_distance=3)
    words, queries = torch.randn(2, 9, 6), Queries(*torch.tensor([(0, 2, 4), (1, 0, 0), (0, 8, 8)]).unbind(1))
    own = fusion.words(words).index_select(0, queries.sentence)
    subjects = fusion.subjects(subject_means(words, queries))
    distances = queries.distances(9)
    expected = fusion.join(own, subjects[:, None], *distances)
    light = SubjectFusion.read(weights_of(fusion), "part", kind)
    for query in range(3):
        given = own[query], subjects[query].expand(9, -1), *(each[query] for each in distances)
        close(light.join(*(each.detach().numpy() for each in given)), expected[query])
    assert SubjectFusion.read({}, "part", "markers") is None
