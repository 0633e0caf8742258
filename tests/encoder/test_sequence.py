from __future__ import annotations

import pytest
import torch
from tests.encoder import invariances
from tests.encoder.invariances import INPUT_WIDTH, LENGTHS, example, randomise

from cascade_srn.encoder.sequence import BiLSTM

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


def test_every_task_sees_the_same(bilstm: BiLSTM) -> None:
    features = bilstm(*example())
    assert bilstm.task_width == 2 * HIDDEN
    for task in range(3):
        assert torch.equal(bilstm.task(features, task), features)


def test_looks_both_ways(bilstm: BiLSTM) -> None:
    inputs = torch.randn(1, 5, INPUT_WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = inputs.clone()
    other[:, 2] += 1.0
    difference = (bilstm(inputs, torch.tensor([5])) - bilstm(other, torch.tensor([5]))).abs()[0]
    assert difference[:, :HIDDEN].amax(dim=1).gt(0).tolist() == [False, False, True, True, True]
    assert difference[:, HIDDEN:].amax(dim=1).gt(0).tolist() == [True, True, True, False, False]


def test_a_sentence_alone_equals_the_same_in_a_batch(bilstm: BiLSTM) -> None:
    invariances.check_alone_equals_batched(bilstm)


def test_zero_at_padding(bilstm: BiLSTM) -> None:
    invariances.check_zero_at_padding(bilstm)


@pytest.mark.parametrize("garbage", [1e6, float("inf"), float("nan")])
def test_what_stands_at_padding_is_ignored(bilstm: BiLSTM, garbage: float) -> None:
    invariances.check_what_stands_at_padding_is_ignored(bilstm, garbage)


def test_batch_order_is_kept(bilstm: BiLSTM) -> None:
    invariances.check_batch_order_is_kept(bilstm)


def test_nothing_to_encode(bilstm: BiLSTM) -> None:
    invariances.check_nothing_to_encode(bilstm)


def test_same_in_training_and_evaluation(bilstm: BiLSTM) -> None:
    invariances.check_same_in_training_and_evaluation(bilstm)


def test_task_of_selected_rows(bilstm: BiLSTM) -> None:
    invariances.check_task_of_selected_rows(bilstm)


def test_gradients_of_inputs() -> None:
    encoder = BiLSTM(2, 2).double()
    randomise(encoder)
    inputs = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: encoder(x, torch.tensor([3, 1])), (inputs,))
