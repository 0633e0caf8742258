import pytest
import torch

from cascade_srn.network.fusion import Queries, SubjectSpan

INPUT, WIDTH, LIMIT = 5, 4, 2


def queries_of(asked):
    return Queries(*torch.tensor(asked, dtype=torch.long).view(-1, 3).unbind(1))


@pytest.fixture
def fusion():
    torch.manual_seed(0)
    fusion = SubjectSpan(INPUT, WIDTH, max_distance=LIMIT)
    with torch.no_grad():  # a norm without weights would fail the comparison
        fusion.norm.weight.copy_(torch.randn(WIDTH))
        fusion.norm.bias.copy_(torch.randn(WIDTH))
    return fusion


def literal(fusion, words, start, last, word):
    """Compute the output for one word of one sentence and one subject."""
    mean = sum(words[i] for i in range(start, last + 1)) / (last - start + 1)
    for_sum, for_product = (
        fusion.word.weight @ words[word] + fusion.word.bias,
        fusion.subject.weight @ mean + fusion.subject.bias,
    )
    word_sum, word_product = for_sum[:WIDTH], for_sum[WIDTH:]
    subject_sum, subject_product = for_product[:WIDTH], for_product[WIDTH:]
    distance = word - start if word < start else word - last if word > last else 0
    distance = max(-LIMIT, min(LIMIT, distance))
    joined = word_sum + subject_sum + word_product * subject_product + fusion.distance[distance + LIMIT]
    normal = (joined - joined.mean()) / torch.sqrt(joined.var(correction=0) + fusion.norm.eps)
    normal = normal * fusion.norm.weight + fusion.norm.bias
    return normal * 0.5 * (1 + torch.erf(normal / 2**0.5))


def test_equals_a_literal_reference(fusion):
    words = torch.randn(3, 7, INPUT)
    asked = [(2, 0, 0), (0, 2, 4), (0, 6, 6), (1, 0, 6), (2, 3, 4)]
    found = fusion(words, queries_of(asked))
    assert found.shape == (5, 7, fusion.output_width)
    for query, (sentence, start, last) in enumerate(asked):
        for word in range(7):
            expected = literal(fusion, words[sentence], start, last, word)
            torch.testing.assert_close(found[query, word], expected, atol=1e-5, rtol=1e-5)


def test_distances_are_signed_counted_from_the_nearer_edge_and_clipped(fusion):
    with torch.no_grad():
        fusion.distance.copy_(torch.arange(-LIMIT, LIMIT + 1)[:, None].expand(-1, WIDTH))
    word = torch.arange(9)
    for (start, last), expected in {
        (3, 4): [-2, -2, -1, 0, 0, 1, 2, 2, 2],
        (0, 0): [0, 1, 2, 2, 2, 2, 2, 2, 2],
    }.items():
        assert fusion._embed_distance(word - start, word - last)[:, 0].tolist() == expected


def test_padding_does_not_reach_the_words(fusion):
    words = torch.randn(2, 6, INPUT)
    queries = queries_of([(0, 1, 2), (1, 3, 3)])
    padded = torch.cat((words, torch.full((2, 4, INPUT), 100.0)), dim=1)
    torch.testing.assert_close(fusion(padded, queries)[:, :6], fusion(words, queries))


def test_subjects_do_not_influence_each_other(fusion):
    words = torch.randn(2, 6, INPUT)
    asked = [(0, 1, 2), (1, 3, 3), (0, 4, 5)]
    together = fusion(words, queries_of(asked))
    for query, subject in enumerate(asked):
        torch.testing.assert_close(fusion(words, queries_of([subject]))[0], together[query])


def test_no_subject_gives_no_rows(fusion):
    assert fusion(torch.randn(2, 6, INPUT), queries_of([])).shape == (0, 6, WIDTH)


def test_the_product_lets_words_and_subject_interact(fusion, monkeypatch):
    """Without the product, the contribution of the subject would be the same for every word."""
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda joined: joined)
    fusion.norm = torch.nn.Identity()
    with torch.no_grad():
        fusion.distance.zero_()
    first, second = fusion(torch.randn(1, 6, INPUT), queries_of([(0, 0, 0), (0, 1, 1)]))
    change = second - first
    assert not torch.allclose(change[2], change[3], atol=1e-3)
