"""Coreference scores: the worked examples of the reference scorer, and slow literal definitions."""

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_srn.errors import AnnotationError
from cascade_srn.evaluation.coreference import CoreferenceScores, score_clusters, score_coreference
from cascade_srn.types import Document, Mention

A = ["a", "bc", "def"]
D = ["12345", "67", "89ABC"]
# Test cases of the reference scorer (conll/reference-coreference-scorers, test/TestCases.README): gold, predicted, and
# recall and precision by metric. Cases from TC-D on are the examples of the papers of B³ and MUC.
CASES = {
    "A-1": (A, A, {"muc": ("1", "1"), "b_cubed": ("1", "1"), "ceaf_e": ("1", "1")}),
    "A-2": (A, ["a", "de"], {"muc": ("1/3", "1"), "b_cubed": ("7/18", "1"), "ceaf_e": ("1.8/3", "1.8/2")}),
    "A-3": (
        A,
        ["a", "bcx", "defy", "z"],
        {"muc": ("1", "3/5"), "b_cubed": ("1", "55/108"), "ceaf_e": ("93/105", "93/140")},
    ),
    "A-4": (
        A,
        ["a", "bcx", "dy", "z"],
        {"muc": ("1/3", "1/3"), "b_cubed": ("5/9", "17/42"), "ceaf_e": ("2.2/3", "2.2/4")},
    ),
    "A-5": (
        A,
        ["a", "bcxB", "dy", "z"],
        {"muc": ("1/3", "1/4"), "b_cubed": ("5/9", "5/16"), "ceaf_e": ("31/45", "31/60")},
    ),
    "A-6": (
        A,
        ["a", "bcx", "dy", "Bz"],
        {"muc": ("1/3", "1/4"), "b_cubed": ("5/9", "17/48"), "ceaf_e": ("2.2/3", "2.2/4")},
    ),
    "A-10": (A, list("abcdef"), {"muc": ("0", "0"), "b_cubed": ("3/6", "1")}),
    "A-11": (A, ["abcdef"], {"muc": ("1", "3/5"), "b_cubed": ("1", "7/18")}),
    "A-12": (A, list("axycdez"), {"muc": ("0", "0"), "b_cubed": ("13/36", "4/7")}),
    "A-13": (A, ["axycdez"], {"muc": ("1/3", "1/6"), "b_cubed": ("17/36", "6/49")}),
    "D-1": (D, ["12345", "6789ABC"], {"muc": ("1", "9/10"), "b_cubed": ("1", "16/21")}),
    "E-1": (D, ["1234589ABC", "67"], {"muc": ("1", "9/10"), "b_cubed": ("1", "7/12")}),
    "F-1": (["ABCD"], ["AB", "CD"], {"muc": ("2/3", "1")}),
    "G-1": (["AB", "CD"], ["ABCD"], {"muc": ("1", "2/3")}),
    "J-1": (["ABC"], ["AC"], {"muc": ("1/2", "1")}),
    "K-1": (["BCDEGHJ"], ["ABC", "DEF", "GHI"], {"muc": ("3/6", "3/6")}),
    "L-1": (["ABC", "DEFG"], ["AB", "CD", "FGH"], {"muc": ("2/5", "2/4")}),
    "M-1": (["abcdef"], ["abcdef"], {"muc": ("1", "1"), "b_cubed": ("1", "1"), "ceaf_e": ("1", "1")}),
    "N-1": (list("abcdef"), list("abcdef"), {"muc": ("0", "0"), "b_cubed": ("1", "1"), "ceaf_e": ("1", "1")}),
}


def as_fraction(text):
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or "1")


@pytest.mark.parametrize("name", CASES)
def test_worked_examples_of_the_reference_scorer(name):
    gold, predicted, expected = CASES[name]
    scores = score_clusters(gold, predicted)
    for metric, (recall, precision) in expected.items():
        ratios = getattr(scores, metric)
        assert ratios.recall == pytest.approx(float(as_fraction(recall))), metric
        assert ratios.precision == pytest.approx(float(as_fraction(precision))), metric


def literal_muc(one, other):
    above = below = 0
    for cluster in one:
        parts = [set(cluster) & set(each) for each in other]
        n_parts = sum(bool(part) for part in parts) + len(set(cluster) - set().union(*map(set, other)))
        above, below = above + len(cluster) - n_parts, below + len(cluster) - 1
    return above, below


def literal_b_cubed(one, other):
    def cluster_of(mention, clusters):
        return next((set(c) for c in clusters if mention in c), set())

    mentions = [m for cluster in one for m in cluster]
    shares = [
        Fraction(len(cluster_of(m, one) & cluster_of(m, other)), len(cluster_of(m, one)))
        for m in mentions
        if cluster_of(m, other)
    ]
    return sum(shares), len(mentions)


def literal_ceaf(one, other):
    if len(one) > len(other):
        one, other = other, one
    return max(
        sum(
            (Fraction(2 * len(set(a) & set(b)), len(a) + len(b)) for a, b in zip(one, order, strict=True)),
            Fraction(0),
        )
        for order in permutations(other, len(one))
    )


@st.composite
def partitions(draw):
    """Clusters of some of ten mentions, at most five of them."""
    owners = draw(st.lists(st.integers(-1, 4), min_size=10, max_size=10))
    clusters = [[m for m, owner in enumerate(owners) if owner == number] for number in range(5)]
    return draw(st.permutations([c for c in clusters if c]))


@pytest.mark.slow
@given(partitions(), partitions())
def test_scores_equal_their_literal_definitions(gold, predicted):
    scores = score_clusters(gold, predicted)
    for name, literal in (("muc", literal_muc), ("b_cubed", literal_b_cubed)):
        ratios = getattr(scores, name)
        for found, expected in (
            ((ratios.found, ratios.n_gold), literal(gold, predicted)),
            ((ratios.correct, ratios.n_predicted), literal(predicted, gold)),
        ):
            assert found == pytest.approx(tuple(map(float, expected))), name
    assert scores.ceaf_e.found == scores.ceaf_e.correct == pytest.approx(float(literal_ceaf(gold, predicted)))
    assert (scores.ceaf_e.n_gold, scores.ceaf_e.n_predicted) == (len(gold), len(predicted))


@settings(deadline=None)
@given(partitions(), partitions())
def test_exchanging_the_sides_exchanges_precision_and_recall(gold, predicted):
    one, other = score_clusters(gold, predicted), score_clusters(predicted, gold)
    for name in ("muc", "b_cubed", "ceaf_e"):
        ratios, exchanged = getattr(one, name), getattr(other, name)
        assert (ratios.precision, ratios.recall) == pytest.approx((exchanged.recall, exchanged.precision))
    assert one.conll_f1 == pytest.approx(other.conll_f1)
    assert 0 <= one.conll_f1 <= 1 + 1e-9


def test_many_clusters_in_one_connected_group():
    # Predicted cluster n shares one mention with gold cluster n and two with the next, which is the better partner.
    gold = [[(n, k) for k in range(3)] for n in range(60)]
    predicted = [[(n, 0), ((n + 1) % 60, 1), ((n + 1) % 60, 2)] for n in range(60)]
    assert score_clusters(gold, predicted).ceaf_e.f1 == pytest.approx(2 * 2 / 6)


def test_documents_are_scored_together():
    words = [["A", "CRF", "works", "."], ["It", "is", "old", "."]]
    crf, it, old = Mention(0, 1, 2), Mention(1, 0, 1), Mention(1, 2, 3)
    plain = Document.from_words(words, id="d")
    linked = Document(plain.text, plain.sentences, "d", clusters=((crf, it),))
    wrong = Document(plain.text, plain.sentences, "d", clusters=((it, old),))
    scores = score_coreference([linked, linked, plain], [linked, wrong, plain])
    assert scores == score_clusters([[crf, it]], [[crf, it]]) + score_clusters([[crf, it]], [[it, old]])
    assert scores.muc.f1 == 0.5
    assert scores.to_dict()["conll_f1"] == scores.conll_f1
    assert score_coreference([plain], [plain]) == CoreferenceScores()
    assert score_coreference([plain], [plain]).conll_f1 == 0


def test_bad_input():
    with pytest.raises(AnnotationError):
        score_clusters(["ab", "bc"], [])
    with pytest.raises(AnnotationError):
        score_coreference([Document.from_words([["a"]])], [Document.from_words([["b"]])])
    with pytest.raises(AnnotationError):
        score_coreference([Document.from_words([["a"]])], [])
