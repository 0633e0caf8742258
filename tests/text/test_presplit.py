"""Texts that are split already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn import Document
from cascade_srn.errors import AnnotationError
from cascade_srn.text.presplit import SEGMENTERS, given_sentences, given_words, segment_lines, segment_spaces


def words(text, segmenter):
    return [[text[start:end] for start, end in sentence] for sentence in segmenter(text)]


def test_every_line_is_a_sentence():
    text = "One. Two, isn't it\r\n\n  \nThree\u2028Four.Five"
    assert words(text, segment_lines) == [
        ["One", ".", "Two", ",", "is", "n't", "it"],
        ["Three"],
        ["Four.Five"],
    ]


def test_words_between_spaces():
    text = "a a aa ,\tisn't\u00a0it. \n\n b"
    assert words(text, segment_spaces) == [["a", "a", "aa", ",", "isn't", "it."], ["b"]]


def test_given_sentences_are_kept_as_they_are():
    text = "It is No. 3. Or\nfour.  And so on."
    assert words(text, given_sentences(["It is No.", "3. Or\nfour. ", "And so on."])) == [
        ["It", "is", "No", "."],
        ["3", ".", "Or", "four", "."],
        ["And", "so", "on", "."],
    ]
    assert words(text, given_sentences([(0, 5), (20, 32)])) == [["It", "is"], [".", "And", "so", "on"]]


def test_given_words_are_found_in_the_text():
    text = "It's  state of the art (really)."
    sentences = [["It", "'s", "state of the art"], ["(", "really", ")."]]
    assert words(text, given_words(sentences)) == sentences
    assert words(text, given_words([[], [(0, 4)]])) == [[], ["It's"]]
    assert Document.from_text(text, segmenter=given_words(sentences)).coverage.complete


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["It", "is"], "piece 1, 'is', was expected at character 2, where the text has \"'s\""),
        (["s"], "piece 0, 's', was expected at character 0, where the text has 'I'"),
        (["It's", ""], "piece 1, '', was expected at character 5, where the text has 'n'"),
        (["It's", "new", "."], r"piece 2, '.', was expected at character 8, where the text has ''"),
    ],
)
def test_pieces_that_are_not_there(pieces, message):
    with pytest.raises(AnnotationError, match=message):
        given_sentences(pieces)("It's new")


@given(st.text(), st.sampled_from(sorted(SEGMENTERS)))
def test_every_character_of_any_text_is_in_a_word(text, name):
    document = Document.from_text(text, segmenter=SEGMENTERS[name])
    assert document.coverage.complete
    assert document.coverage.n_characters == sum(not char.isspace() for char in text)
    assert all(document.sentences)


@given(st.lists(st.lists(st.text(min_size=1).filter(lambda word: word == word.strip()), max_size=5), max_size=4))
def test_words_of_any_kind_are_found_again(sentences):
    text = "\n".join(" ".join(words) for words in sentences)
    assert words(text, given_words(sentences)) == sentences
