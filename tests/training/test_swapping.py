"""Entities of training sentences that get the words of others."""

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.training.swapping import EntitySwaps
from cascade_srn.types import Sentence, Span, Triple

SENTENCES = [sentence for document in DOCUMENTS for sentence in document.sentences]
SWAPS = EntitySwaps(SENTENCES)


def outside(sentence):
    inside = {at for entity in sentence.entities for at in range(entity.start, entity.end)}
    return [word for at, word in enumerate(sentence.words) if at not in inside]


@given(st.sampled_from(SENTENCES), st.floats(0, 1), st.integers(0, 1000))
def test_annotations_and_all_other_words_stay(sentence, share, seed):
    swapped = SWAPS.swap(sentence, share, random.Random(seed))
    assert outside(swapped) == outside(sentence)
    assert [e.label for e in swapped.entities] == [e.label for e in sentence.entities]
    number = {entity: at for at, entity in enumerate(sentence.entities)}
    moved = {entity: at for at, entity in enumerate(swapped.entities)}
    assert [(moved[t.head], t.label, moved[t.tail]) for t in swapped.triples] == [
        (number[t.head], t.label, number[t.tail]) for t in sentence.triples
    ]
    known = {(e.label, s.words[e.start : e.end]) for s in SENTENCES for e in s.entities}
    assert {(e.label, swapped.words[e.start : e.end]) for e in swapped.entities} <= known
    assert swapped == SWAPS.swap(sentence, share, random.Random(seed))


def test_the_share_is_that_of_the_entities():
    words = [f"w{at}" for at in range(50)]
    many = Sentence.from_words(words, [Span(at, at + 1, "A") for at in range(50)])
    drawn = [EntitySwaps([many]).swap(many, 0.3, random.Random(seed)).words for seed in range(40)]
    changed = sum(a != b for row in drawn for a, b in zip(row, words, strict=True))
    assert 0.25 < changed / 2000 < 0.34
    assert EntitySwaps([many]).swap(many, 0.0, random.Random(0)) is many


def test_entities_that_share_words_move_as_a_whole():
    nested = [Span(1, 4, "A"), Span(2, 3, "B"), Span(5, 6, "A"), Span(0, 1, "A")]
    triples = [Triple(nested[2], "r", nested[1])]
    sentence = Sentence.from_words(["a", "b", "c", "d", "e", "f"], nested, triples)
    swaps = EntitySwaps([Sentence.from_words(["x", "y"], [Span(0, 2, "A")])])
    swapped = swaps.swap(sentence, 1.0, random.Random(0))
    assert swapped.words == ("x", "y", "b", "c", "d", "e", "x", "y")
    assert swapped.entities == (Span(2, 5, "A"), Span(3, 4, "B"), Span(6, 8, "A"), Span(0, 2, "A"))
    assert swapped.triples == (Triple(Span(6, 8, "A"), "r", Span(3, 4, "B")),)
