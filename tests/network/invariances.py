"""Invariances of all sequence encoders. Each function asserts one of them."""

from __future__ import annotations

import torch
from torch import Tensor

from cascade_srn.network.sequence import SequenceEncoder

INPUT_WIDTH = 5
LENGTHS = (4, 7, 0, 1, 6)


def example() -> tuple[Tensor, Tensor]:
    """Return five sequences, one of them empty, padded to two more items than the longest has."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(len(LENGTHS), max(LENGTHS) + 2, INPUT_WIDTH, generator=generator, dtype=torch.float64)
    return inputs, torch.tensor(LENGTHS)


def randomise(module: torch.nn.Module, seed: int = 0) -> None:
    """Set large weights and non-zero biases, so that every term of an equation has an effect."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.7)


def check_alone_equals_batched(encoder: SequenceEncoder) -> None:
    inputs, lengths = example()
    batched = encoder(inputs, lengths)
    for i, n in enumerate(LENGTHS):
        alone = encoder(inputs[i : i + 1, :n], lengths[i : i + 1])
        assert alone.shape[1] == n
        torch.testing.assert_close(batched[i : i + 1, :n], alone, rtol=0, atol=1e-12)


def check_zero_at_padding(encoder: SequenceEncoder) -> None:
    inputs, lengths = example()
    features = encoder(inputs, lengths)
    assert features.shape[:2] == inputs.shape[:2]
    for i, n in enumerate(LENGTHS):
        assert torch.count_nonzero(features[i, n:]) == 0
        assert features[i, :n].abs().amax(dim=-1).gt(0).all()


def check_padding_is_ignored(encoder: SequenceEncoder, garbage: float) -> None:
    def run(fill: float) -> tuple[Tensor, Tensor, list[Tensor]]:
        inputs, lengths = example()
        for i, n in enumerate(LENGTHS):
            inputs[i, n:] = fill
        inputs.requires_grad_()
        encoder.zero_grad()
        features = encoder(inputs, lengths)
        weights = torch.linspace(-1, 2, features.numel(), dtype=torch.float64).view_as(features)
        (features * weights).sum().backward()
        assert inputs.grad is not None
        return features.detach(), inputs.grad, [p.grad.clone() for p in encoder.parameters() if p.grad is not None]

    clean, dirty = run(0.0), run(garbage)
    assert len(clean[2]) == len(list(encoder.parameters()))
    assert torch.equal(clean[0], dirty[0])
    assert torch.equal(clean[1], dirty[1])
    assert all(torch.equal(a, b) for a, b in zip(clean[2], dirty[2], strict=True))
    for i, n in enumerate(LENGTHS):
        assert torch.count_nonzero(dirty[1][i, n:]) == 0
        assert torch.count_nonzero(dirty[1][i, :n]) == n * INPUT_WIDTH


def check_batch_order_is_kept(encoder: SequenceEncoder) -> None:
    inputs, lengths = example()
    order = torch.tensor([3, 0, 4, 2, 1])
    expected = encoder(inputs, lengths)[order]
    torch.testing.assert_close(encoder(inputs[order], lengths[order]), expected, rtol=0, atol=1e-12)


def check_nothing_to_encode(encoder: SequenceEncoder) -> None:
    encoder.zero_grad()
    for batch, length in ((0, 3), (2, 0), (0, 0), (2, 3)):
        inputs = torch.randn(batch, length, INPUT_WIDTH, dtype=torch.float64, requires_grad=True)
        features = encoder(inputs, torch.zeros(batch, dtype=torch.long))
        assert features.shape[:2] == (batch, length)
        assert features.dtype == torch.float64
        assert torch.count_nonzero(features) == 0
        assert encoder.task(features, 1).shape == (batch, length, encoder.task_width)
        if features.requires_grad:
            features.sum().backward()
        assert all(p.grad is None or torch.count_nonzero(p.grad) == 0 for p in encoder.parameters())


def check_same_in_training_and_evaluation(encoder: SequenceEncoder) -> None:
    inputs, lengths = example()
    trained = encoder.train()(inputs, lengths)
    with torch.no_grad():
        evaluated = encoder.eval()(inputs, lengths)
    # Without gradients, another implementation may run, which rounds differently.
    torch.testing.assert_close(trained, evaluated)


def check_task_of_selected_rows(encoder: SequenceEncoder) -> None:
    inputs, lengths = example()
    features = encoder(inputs, lengths)
    rows = torch.tensor([4, 1])
    for task in range(2):
        whole = encoder.task(features, task)
        assert whole.shape == (*inputs.shape[:2], encoder.task_width)
        assert torch.equal(encoder.task(features[rows], task), whole[rows])


def check_all(encoder: SequenceEncoder) -> None:
    check_alone_equals_batched(encoder)
    check_zero_at_padding(encoder)
    for garbage in (1e6, float("inf"), float("nan")):
        check_padding_is_ignored(encoder, garbage)
    check_batch_order_is_kept(encoder)
    check_nothing_to_encode(encoder)
    check_same_in_training_and_evaluation(encoder)
    check_task_of_selected_rows(encoder)
