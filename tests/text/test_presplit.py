import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn import Document
from cascade_srn.errors import AnnotationError
from cascade_srn.text.presplit import SEGMENTERS, given_sentences, given_words, segment_lines, segment_spaces


def words(text, segmenter):
    return [[text[start:end] for start, end in sentence] for sentence in segmenter(text)]


def test_every_line_is_a_sentence():
    text = "One. Two, isn't it\r\n\n  \nThree\u2028Four.Five"
    assert words(text, segment_lines) == [["One", ".", "Two", ",", "is", "n't", "it"], ["Three"], ["Four.Five"]]


def test_words_between_spaces():
    text = "a a aa ,\tisn't\u00a0it. \n\n b"
    assert words(text, segment_spaces) == [["a", "a", "aa", ",", "isn't", "it."], ["b"]]


def test_given_sentences():
    text = "It is No. 3. Or\nfour.  And so on."
    assert words(text, given_sentences(["It is No.", "3. Or\nfour. ", "And so on."])) == [
        ["It", "is", "No", "."],
        ["3", ".", "Or", "four", "."],
        ["And", "so", "on", "."],
    ]
    assert words(text, given_sentences([(0, 5), (20, 32)])) == [["It", "is"], [".", "And", "so", "on"]]


def test_given_words():
    text = "It's  state of the art (really)."
    sentences = [["It", "'s", "state of the art"], ["(", "really", ")."]]
    assert words(text, given_words(sentences)) == sentences
    assert words(text, given_words([[], [(0, 4)]])) == [[], ["It's"]]
    assert Document.from_text(text, segmenter=given_words(sentences)).coverage.complete


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (["It", "is"], "1, 'is',.* 2,.*\"'s\""),
        (["s"], "0, 's',.* 0,.*'I'"),
        (["It's", ""], "1, '',.* 5,.*'n'"),
        (["It's", "new", "."], r"2, '\.',.* 8,.*''"),
    ],
)
def test_missing_parts_are_refused(parts, named):
    with pytest.raises(AnnotationError, match=named):
        given_sentences(parts)("It's new")


@given(st.text(ANY_CHARACTER), st.sampled_from(sorted(SEGMENTERS)))
def test_every_character_of_any_text_is_in_a_word(text, name):
    document = Document.from_text(text, segmenter=SEGMENTERS[name])
    assert document.coverage.complete
    assert document.coverage.n_characters == sum(not char.isspace() for char in text)
    assert all(document.sentences)


@given(
    st.lists(
        st.lists(st.text(ANY_CHARACTER, min_size=1).filter(lambda word: word == word.strip()), max_size=5), max_size=4
    )
)
def test_any_words_are_located(sentences):
    text = "\n".join(" ".join(words) for words in sentences)
    assert words(text, given_words(sentences)) == sentences
