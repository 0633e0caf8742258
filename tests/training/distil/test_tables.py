import pytest
import torch

from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.training.distil.turns import certainties, keep_pairs, keep_words, min_by_row


def test_certainty_is_nothing_at_the_threshold_and_1_at_the_ends():
    threshold = torch.tensor([0.5, 0.1])
    scores = torch.tensor([[0.5, 0.1], [0.9, 1.0], [0.2, 0.0]])
    found = certainties(scores, threshold)
    # With a threshold of 0.5 it is |2 · score − 1|.
    assert found[:, 0].tolist() == pytest.approx([0, 0.8, 0.6], abs=1e-5)
    assert found[:, 1].tolist() == pytest.approx([0, 1, 1], abs=1e-4)
    # Odds of 1 : 1 are nine times those of 0.1: p is 0.9.
    assert certainties(torch.tensor([0.5]), torch.tensor([0.1])).item() == pytest.approx(0.8, abs=1e-5)


def test_the_least_of_each_row():
    values, row = torch.tensor([[0.5, 0.2], [0.9, 0.4], [0.3, 0.7]]), torch.tensor([0, 2, 0])
    assert min_by_row(values, row, 4).tolist() == pytest.approx([0.2, 1.0, 0.4, 1.0])
    assert min_by_row(values[:0], row[:0], 2).tolist() == [1.0, 1.0]


def test_places_are_counted_within_their_rows():
    torch.manual_seed(1)
    lengths, n_labels = torch.tensor([3, 1, 4]), 2
    words = torch.rand(3, 4, n_labels)
    found = keep_words(words, lengths, 0.5)
    expected = [
        (row, word * n_labels + label)
        for row, length in enumerate(lengths.tolist())
        for word in range(length)
        for label in range(n_labels)
        if words[row, word, label] >= 0.5
    ]
    assert list(zip(found.row.tolist(), found.position.tolist(), strict=True)) == expected
    pairs = pairs_within(lengths)
    table = torch.rand(len(pairs), n_labels)
    found = keep_pairs(table, pairs, lengths, 0.5)
    expected, first = [], 0
    for row, length in enumerate(lengths.tolist()):
        for pair in range(length * (length + 1) // 2):
            expected += [
                (row, pair * n_labels + label) for label in range(n_labels) if table[first + pair, label] >= 0.5
            ]
        first += length * (length + 1) // 2
    assert list(zip(found.row.tolist(), found.position.tolist(), strict=True)) == expected
    assert found.probability.tolist() == pytest.approx([p for p in table.flatten().tolist() if p >= 0.5], abs=1e-3)
