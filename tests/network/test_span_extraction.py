import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import dense_match

from cascade_srn.network import span_extraction
from cascade_srn.network.span_extraction import (
    BOUNDARY_PRIOR,
    MATCH_PRIOR,
    LinearMatcher,
    MlpMatcher,
    Pairs,
    SpanExtractor,
    pairs_within,
)

WIDTH, N_LABELS = 6, 3
MATCHERS = {
    "linear": lambda width=WIDTH: LinearMatcher(width, N_LABELS),
    "mlp": lambda width=WIDTH: MlpMatcher(width, N_LABELS, hidden_width=8),
}


@pytest.fixture(params=sorted(MATCHERS))
def head(request):
    torch.manual_seed(0)
    return SpanExtractor(WIDTH, N_LABELS, matcher=MATCHERS[request.param]()).eval()


def triples(pairs):
    return list(zip(pairs.row.tolist(), pairs.start.tolist(), pairs.last.tolist(), strict=True))


@given(st.lists(st.integers(0, 6), max_size=4))
def test_pairs_are_all_starts_with_all_later_ends(lengths):
    expected = [
        (row, start, last)
        for row, length in enumerate(lengths)
        for start in range(length)
        for last in range(start, length)
    ]
    pairs = pairs_within(torch.tensor(lengths, dtype=torch.long))
    assert triples(pairs) == expected
    assert len(pairs) == len(expected)
    assert triples(pairs[1:3]) == expected[1:3]
    short = pairs_within(torch.tensor(lengths, dtype=torch.long), 2)
    assert triples(short) == [pair for pair in expected if pair[2] - pair[1] < 2]


@pytest.mark.parametrize("training", [False, True])
def test_logits_equal_the_dense_reference(head, training):
    head.train(training)
    words, pairs = torch.randn(3, 5, WIDTH), pairs_within(torch.tensor([5, 1, 3]))
    logits = head(words, pairs)
    torch.testing.assert_close(logits.start, words @ head.start.weight.T + head.start.bias)
    torch.testing.assert_close(logits.end, words @ head.end.weight.T + head.end.bias)
    dense = torch.stack([dense_match(head, row) for row in words])
    expected = [dense[row, start, last] for row, start, last in triples(pairs)]
    torch.testing.assert_close(logits.match, torch.stack(expected), atol=1e-5, rtol=1e-5)
    assert logits.match.shape == (15 + 1 + 6, N_LABELS)


def test_the_score_of_a_pair_does_not_depend_on_other_pairs(head):
    words = torch.randn(2, 4, WIDTH)
    pairs = Pairs(torch.tensor([1, 0, 1]), torch.tensor([2, 0, 2]), torch.tensor([3, 3, 2]))
    dense = torch.stack([dense_match(head, row) for row in words])
    expected = dense[pairs.row, pairs.start, pairs.last]
    torch.testing.assert_close(head.match(words, pairs), expected, atol=1e-5, rtol=1e-5)
    start, end = head.boundaries(words)
    logits = head(words, pairs)
    torch.testing.assert_close((start, end), (logits.start, logits.end))


def test_the_linear_matcher_is_equation_13():
    torch.manual_seed(0)
    matcher = LinearMatcher(WIDTH, N_LABELS)
    # One weight matrix over [h_i; h_j]: the two layers are its halves.
    weight = torch.cat((matcher.start.weight, matcher.last.weight), dim=1)
    words = torch.randn(1, 4, WIDTH)
    pairs = pairs_within(torch.tensor([4]))
    expected = [weight @ torch.cat((words[0, i], words[0, j])) + matcher.start.bias for _, i, j in triples(pairs)]
    torch.testing.assert_close(matcher(words, pairs), torch.stack(expected))


def additive_gap(head):
    """Return s(i, j) + s(k, l) − s(i, l) − s(k, j), which is 0 for the sum of a start score and an end score."""
    words = torch.randn(1, 6, WIDTH)
    pairs = Pairs(torch.zeros(4, dtype=torch.long), torch.tensor([0, 1, 0, 1]), torch.tensor([3, 5, 5, 3]))
    ij, kl, il, kj = head.match(words, pairs)
    return (ij + kl - il - kj).abs().max().item()


def test_only_the_linear_matcher_is_additive(head):
    gap = additive_gap(head)
    if isinstance(head.matcher, LinearMatcher):
        assert gap < 1e-5
    else:
        assert gap > 1e-2


@pytest.mark.parametrize("chunk", [1, 4, 22])
def test_prediction_in_chunks_equals_prediction_at_once(head, monkeypatch, chunk):
    words = torch.randn(3, 5, WIDTH)
    pairs = pairs_within(torch.tensor([5, 1, 3]))
    whole = head.match(words, pairs)
    monkeypatch.setattr(span_extraction, "_CPU_CHUNK_PAIRS", chunk)
    torch.testing.assert_close(head.match(words, pairs), whole)


def test_training_keeps_no_more_pairs_than_the_bound(monkeypatch):
    """More pairs are scored in checkpointed parts, with the same scores and gradients."""
    torch.manual_seed(0)
    matcher = MATCHERS["mlp"]().train()
    words, pairs = torch.randn(1, 6, WIDTH, requires_grad=True), pairs_within(torch.tensor([6]))
    norm, sizes = matcher.norm.forward, []
    monkeypatch.setattr(matcher.norm, "forward", lambda joined: sizes.append(len(joined)) or norm(joined))

    def run():
        sizes.clear()
        scores = matcher(words, pairs)
        gradients = torch.autograd.grad(scores.square().sum(), (words, *matcher.parameters()))
        return scores, *gradients

    whole = run()
    assert sizes == [21]
    monkeypatch.setattr(span_extraction, "_CHUNK_PAIRS", 10)
    monkeypatch.setattr(span_extraction, "_MAX_KEPT_PAIRS", 20)
    torch.testing.assert_close(run(), whole)
    assert sorted(sizes) == [1, 1, 10, 10, 10, 10]


def test_padding_does_not_reach_the_words(head):
    words, pairs = torch.randn(2, 4, WIDTH), pairs_within(torch.tensor([4, 2]))
    longer = torch.cat((words, torch.full((2, 3, WIDTH), 50.0)), dim=1)
    longer[1, 2:] = -50.0
    plain, padded = head(words, pairs), head(longer, pairs)
    torch.testing.assert_close(padded.match, plain.match)
    torch.testing.assert_close(padded.start[0, :4], plain.start[0])
    torch.testing.assert_close(padded.end[1, :2], plain.end[1, :2])


def test_untrained_probabilities_start_at_the_priors(head):
    assert (BOUNDARY_PRIOR, MATCH_PRIOR) == (0.02, 0.002)
    silent = torch.zeros(1, 3, WIDTH)
    logits = head(silent, pairs_within(torch.tensor([3])))
    torch.testing.assert_close(logits.start.sigmoid(), torch.full_like(logits.start, BOUNDARY_PRIOR))
    torch.testing.assert_close(logits.end.sigmoid(), torch.full_like(logits.end, BOUNDARY_PRIOR))
    words = torch.randn(4, 20, WIDTH)
    logits = head(words, pairs_within(torch.tensor([20] * 4)))
    for found, prior in ((logits.start, BOUNDARY_PRIOR), (logits.end, BOUNDARY_PRIOR), (logits.match, MATCH_PRIOR)):
        assert prior / 2 < found.sigmoid().median().item() < prior * 2
    if isinstance(head.matcher, LinearMatcher):
        torch.testing.assert_close(
            head(silent, pairs_within(torch.tensor([3]))).match.sigmoid(), torch.full((6, N_LABELS), MATCH_PRIOR)
        )


def test_gradients_of_many_pairs_hold_in_half_precision():
    """A CPU that accumulates the gradients of a norm in half precision loses most of them."""
    torch.manual_seed(0)
    matcher = MlpMatcher(8, 3, hidden_width=16)
    start, last = torch.randn(2, 6000, 16)
    found = []
    for half in (False, True):
        matcher.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            scores = matcher.score(*(each.bfloat16() if half else each for each in (start, last)))
            (scores.float() + 1).square().sum().backward()
        found.append([parameter.grad.clone() for parameter in matcher.norm.parameters()])
    for exact, rough in zip(*found, strict=True):
        assert (rough - exact).norm() < 0.05 * exact.norm()
