from __future__ import annotations

import pytest
import torch
from tests.network import invariances
from tests.network.invariances import INPUT_WIDTH, LENGTHS, example, randomise

from cascade_srn.network.sequence import BiLSTM

HIDDEN = 3


@pytest.fixture
def bilstm() -> BiLSTM:
    encoder = BiLSTM(INPUT_WIDTH, HIDDEN).double()
    randomise(encoder)
    return encoder


def test_equals_an_lstm_run_sentence_by_sentence(bilstm: BiLSTM) -> None:
    inputs, lengths = example()
    features = bilstm(inputs, lengths)
    assert features.shape == (*inputs.shape[:2], 2 * HIDDEN)
    for i, n in enumerate(LENGTHS):
        if n:
            expected, _ = bilstm.lstm(inputs[i : i + 1, :n])
            torch.testing.assert_close(features[i : i + 1, :n], expected, rtol=0, atol=1e-12)


def test_all_tasks_have_the_same_representation(bilstm: BiLSTM) -> None:
    features = bilstm(*example())
    assert bilstm.task_width == 2 * HIDDEN
    for task in range(3):
        assert torch.equal(bilstm.task(features, task), features)


def test_reads_in_both_directions(bilstm: BiLSTM) -> None:
    inputs = torch.randn(1, 5, INPUT_WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = inputs.clone()
    other[:, 2] += 1.0
    difference = (bilstm(inputs, torch.tensor([5])) - bilstm(other, torch.tensor([5]))).abs()[0]
    assert difference[:, :HIDDEN].amax(dim=1).gt(0).tolist() == [False, False, True, True, True]
    assert difference[:, HIDDEN:].amax(dim=1).gt(0).tolist() == [True, True, True, False, False]


def test_invariances(bilstm: BiLSTM) -> None:
    invariances.check_all(bilstm)


def test_gradients_of_inputs() -> None:
    encoder = BiLSTM(2, 2).double()
    randomise(encoder)
    inputs = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: encoder(x, torch.tensor([3, 1])), (inputs,))
