"""PFN's encoder, compared with its equations, word by word and neuron by neuron."""

from __future__ import annotations

import math

import pytest
import torch
from tests.network import invariances
from tests.network.invariances import INPUT_WIDTH, example, randomise
from torch import Tensor

from cascade_srn.lab.baselines.table_filling import ENTITY, RELATION, PartitionFilterNetwork


def network_of(hidden: int = 4, *, drop_connect: float = 0.0, input_width: int = INPUT_WIDTH) -> PartitionFilterNetwork:
    network = PartitionFilterNetwork(input_width, hidden, drop_connect=drop_connect).double().eval()
    randomise(network)
    return network


# The equations of PFN, written out ---------------------------------------------------------------------------


def cummax(logits: list[float]) -> list[float]:
    """Compute cumsum(softmax(x))."""
    powers = [math.exp(x) for x in logits]
    return [sum(powers[: i + 1]) / sum(powers) for i in range(len(powers))]


def linear(weight: Tensor, bias: Tensor, x: list[float]) -> list[float]:
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


def partitions(
    entity_logits: list[float], relation_logits: list[float]
) -> tuple[list[float], list[float], list[float]]:
    """Compute ρ_e, ρ_r and ρ_s of one state."""
    entity = cummax(entity_logits)
    relation = [1 - value for value in cummax(relation_logits)]
    shared = [e * r for e, r in zip(entity, relation, strict=True)]
    own_entity = [e - s for e, s in zip(entity, shared, strict=True)]
    own_relation = [r - s for r, s in zip(relation, shared, strict=True)]
    return own_entity, own_relation, shared


def literal_pfn(network: PartitionFilterNetwork, words: Tensor, recurrent: Tensor) -> list[list[list[float]]]:
    """Compute h_e, h_r and h_s of every word of one sentence with the given recurrent weights."""
    n = network.hidden_width
    both = torch.cat((network.input_projection.weight, recurrent.T), dim=1)
    blocks = [(both[k * n : (k + 1) * n], network.input_projection.bias[k * n : (k + 1) * n]) for k in range(5)]
    h, c = [0.0] * n, [0.0] * n
    features = []
    for x in words.tolist():
        candidate_logits, *gate_logits = (linear(weight, bias, x + h) for weight, bias in blocks)
        candidate = [math.tanh(value) for value in candidate_logits]
        of_history = partitions(gate_logits[0], gate_logits[1])
        of_candidate = partitions(gate_logits[2], gate_logits[3])
        rho_e, rho_r, rho_s = (
            [p * old + q * new for p, old, q, new in zip(ps, c, qs, candidate, strict=True)]
            for ps, qs in zip(of_history, of_candidate, strict=True)
        )
        mu_e = [e + s for e, s in zip(rho_e, rho_s, strict=True)]
        mu_r = [r + s for r, s in zip(rho_r, rho_s, strict=True)]
        c = linear(network.cell.weight, network.cell.bias, mu_e + mu_r + rho_s)
        h = [math.tanh(value) for value in c]
        features.append([[math.tanh(value) for value in memory] for memory in (mu_e, mu_r, rho_s)])
    return features


@pytest.mark.parametrize(("hidden", "input_width", "length"), [(1, 1, 6), (5, 3, 1), (5, 3, 6)])
def test_equals_the_equations(hidden, input_width, length):
    network = network_of(hidden, input_width=input_width)
    words = torch.randn(2, length, input_width, dtype=torch.float64)
    for mode in (True, False):
        found = network.train(mode)(words, torch.tensor([length, length]))
        for sentence, features in zip(words, found, strict=True):
            expected = torch.tensor(literal_pfn(network, sentence, network.recurrent_weight), dtype=torch.float64)
            torch.testing.assert_close(features, expected, rtol=0, atol=1e-12)


def test_drop_connect_drops_weights_in_training_and_scales_them_in_evaluation():
    network = network_of(drop_connect=0.4)
    words, lengths = torch.randn(2, 5, INPUT_WIDTH, dtype=torch.float64), torch.tensor([5, 5])
    torch.manual_seed(5)
    found = network.train()(words, lengths)
    torch.manual_seed(5)
    dropped = torch.rand_like(network.recurrent_weight) < 0.4
    assert 0 < dropped.sum() < dropped.numel()
    for weight, features in (
        (network.recurrent_weight.masked_fill(dropped, 0.0), found),
        (network.recurrent_weight * 0.6, network.eval()(words, lengths)),
    ):
        for sentence, of_sentence in zip(words, features, strict=True):
            expected = torch.tensor(literal_pfn(network, sentence, weight), dtype=torch.float64)
            torch.testing.assert_close(of_sentence, expected, rtol=0, atol=1e-12)


def test_invariances():
    invariances.check_all(network_of())


def test_the_representation_of_a_task_is_its_partition_plus_the_shared_one():
    network = network_of()
    features = network(*example())
    assert network.task_width == network.hidden_width
    assert torch.equal(network.task(features, ENTITY), features[:, :, 0])
    assert torch.equal(network.task(features, RELATION), features[:, :, 1])


def test_states_stay_in_full_precision():
    network = PartitionFilterNetwork(INPUT_WIDTH, 4).eval()
    inputs, lengths = example()
    exact = network(inputs.float(), lengths)
    bf16 = network(inputs.float(), lengths, bf16=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trained = network(inputs.float(), lengths)
    assert bf16.dtype == trained.dtype == torch.float32
    assert torch.equal(bf16, trained)
    assert not torch.equal(exact, bf16)
    torch.testing.assert_close(bf16, exact, rtol=0.05, atol=0.02)
