import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy

from cascade_srn.config import LossWeights
from cascade_srn.network.loss import SpanLabels, SpanTargets, TargetWeights, pair_positions, span_loss, span_targets
from cascade_srn.network.sequence import padding_mask
from cascade_srn.network.span_extraction import LinearMatcher, SpanExtractor, SpanLogits, pairs_within

N_LABELS = 2


def labels_of(spans):
    """Make labels of ``spans``, (row, start, last, label)."""
    return SpanLabels(*torch.tensor(spans, dtype=torch.long).view(-1, 4).unbind(1))


def loss_of(logits, spans, lengths, weights, n_sentences):
    """Compute the loss under test. ``spans`` are (row, start, last, label)."""
    lengths, n_words = torch.tensor(lengths, dtype=torch.long), logits.start.shape[1]
    targets = span_targets(labels_of(spans), lengths, n_words, N_LABELS)
    real = padding_mask(lengths, n_words)[:, :, None].float()
    return span_loss(logits, targets, real, weights, n_sentences)


def slow_loss(logits, spans, lengths, weights, n_sentences):
    """Compute equations 14 and 15 with loops. ``spans`` are (row, start, last, label)."""
    words = [(row, i, j) for row, length in enumerate(lengths) for i in range(length) for j in range(i, length)]
    pairs = {pair: at for at, pair in enumerate(words)}

    def bce(logit, target):
        return binary_cross_entropy(logit.sigmoid(), torch.tensor(float(target)))

    total = torch.tensor(0.0)
    for row, length in enumerate(lengths):
        for label in range(logits.start.shape[-1]):
            starts = {start for r, start, _, k in spans if (r, k) == (row, label)}
            ends = {last for r, _, last, k in spans if (r, k) == (row, label)}
            for word in range(length):
                total = total + weights.start * bce(logits.start[row, word, label], word in starts)
                total = total + weights.end * bce(logits.end[row, word, label], word in ends)
            for start, last in itertools.combinations_with_replacement(range(length), 2):
                found = logits.match[pairs[row, start, last], label]
                total = total + weights.match * bce(found, (row, start, last, label) in spans)
    return total / n_sentences


def random_logits(lengths, n_words, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = pairs_within(torch.tensor(lengths))
    shape = (len(lengths), n_words, N_LABELS)
    start, end = (torch.randn(shape, generator=generator) * 2 for _ in range(2))
    return SpanLogits(start, end, torch.randn(len(pairs), N_LABELS, generator=generator) * 2)


SPANS = [(0, 0, 0, 1), (0, 1, 3, 0), (0, 1, 3, 1), (0, 1, 2, 0), (2, 0, 1, 0), (2, 0, 1, 0)]
LENGTHS = [4, 0, 2, 1]


@pytest.mark.parametrize(
    "weights",
    [LossWeights(), LossWeights(1, 0, 0), LossWeights(0, 1, 0), LossWeights(0, 0, 1), LossWeights(0.25, 0.5, 0.75)],
)
@pytest.mark.parametrize("n_sentences", [1, 3])
def test_the_loss_equals_loops_over_words_pairs_and_labels(weights, n_sentences):
    logits = random_logits(LENGTHS, 5)
    expected = slow_loss(logits, SPANS, LENGTHS, weights, n_sentences)
    found = loss_of(logits, SPANS, LENGTHS, weights, n_sentences)
    torch.testing.assert_close(found, expected)
    assert found.item() > 0


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_as_targets_equal_a_dense_table_of_them(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = random_logits(LENGTHS, 5, seed)
    real = padding_mask(torch.tensor(LENGTHS), 5)[:, :, None].float() * torch.tensor([1.0, 2, 0.5, 3])[:, None, None]
    pairs = pairs_within(torch.tensor(LENGTHS))
    pair_weights = torch.tensor([1.0, 2, 0.5, 3])[pairs.row][:, None]
    parts, expected = {}, 0.0
    for kind, counts, share in (("start", real, 1.0), ("end", real, 0.5), ("match", pair_weights, 0.25)):
        table = getattr(logits, kind)
        target = torch.rand(table.shape, generator=generator) * (torch.rand(table.shape, generator=generator) < 0.4)
        target = target * (counts > 0)
        parts[kind] = target.flatten().nonzero()[:, 0]
        parts[f"{kind}_weights"] = (target * counts).flatten()[parts[kind]]
        each = torch.nn.functional.binary_cross_entropy_with_logits(table, target, reduction="none")
        expected = expected + share * (each * counts).sum() / 3
    weights = TargetWeights(*(parts[f"{kind}_weights"] for kind in ("start", "end", "match")))
    targets = SpanTargets(parts["start"], parts["end"], parts["match"], weights)
    found = span_loss(logits, targets, real, LossWeights(1, 0.5, 0.25), 3, pair_weights)
    torch.testing.assert_close(found, expected)


def test_without_gold_spans_all_targets_are_zero():
    logits = random_logits(LENGTHS, 4)
    found = loss_of(logits, [], LENGTHS, LossWeights(), 4)
    torch.testing.assert_close(found, slow_loss(logits, [], LENGTHS, LossWeights(), 4))


def test_a_batch_without_rows_has_no_loss():
    logits = random_logits([], 4)
    assert loss_of(logits, [], [], LossWeights(), 0).item() == 0


def test_padding_has_no_loss_and_no_gradient():
    torch.manual_seed(0)
    head = SpanExtractor(6, N_LABELS, matcher=LinearMatcher(6, N_LABELS))
    words = torch.randn(4, 4, 6)
    longer = torch.cat((words, torch.full((4, 3, 6), 9.0)), dim=1).requires_grad_()
    pairs = pairs_within(torch.tensor(LENGTHS))
    losses = [loss_of(head(w, pairs), SPANS, LENGTHS, LossWeights(), 4) for w in (words, longer)]
    torch.testing.assert_close(losses[0], losses[1])
    losses[1].backward()
    for row, length in enumerate(LENGTHS):
        assert torch.all(longer.grad[row, length:] == 0)
        assert torch.all(longer.grad[row, :length].abs().sum(-1) > 0)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_pair_positions_are_the_order_of_the_pairs(lengths):
    lengths = torch.tensor(lengths)
    pairs = pairs_within(lengths)
    labels = SpanLabels(pairs.row, pairs.start, pairs.last, torch.zeros_like(pairs.row))
    assert pair_positions(labels, lengths).tolist() == list(range(len(pairs)))
    backwards = SpanLabels(*(column.flip(0) for column in (pairs.row, pairs.start, pairs.last, labels.label)))
    assert pair_positions(backwards, lengths).tolist() == list(reversed(range(len(pairs))))
