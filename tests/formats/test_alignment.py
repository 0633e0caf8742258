import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.asserting import assert_mentions

from cascade_srn.errors import ConfigError
from cascade_srn.formats.alignment import MisalignedSpan, WordMap, WordSpan

TEXT = "A CRF tags.  It works."
#       0 2   6   10  13 16  21
SENTENCES = [((0, 1), (2, 5), (6, 10), (10, 11)), ((13, 15), (16, 21), (21, 22))]


@pytest.fixture
def words():
    return WordMap(TEXT, SENTENCES, document="d1")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (2, 5, WordSpan(0, 1, 2, True)),
        (0, 11, WordSpan(0, 0, 4, True)),
        (10, 11, WordSpan(0, 3, 4, True)),
        (13, 15, WordSpan(1, 0, 1, True)),
        (16, 22, WordSpan(1, 1, 3, True)),
    ],
)
def test_exact_offsets_give_the_words(words, start, end, expected):
    assert words.place(start, end) == expected
    assert words.place(start, end, align="expand") == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (3, 4, WordSpan(0, 1, 2, False)),  # inside one word
        (3, 8, WordSpan(0, 1, 3, False)),  # both ends inside words
        (2, 6, WordSpan(0, 1, 2, False)),  # a space too many
        (12, 15, WordSpan(1, 0, 1, False)),  # a space too early
        (17, 22, WordSpan(1, 1, 3, False)),
    ],
)
def test_other_offsets_are_refused_or_expanded(words, start, end, expected):
    with pytest.raises(MisalignedSpan) as caught:
        words.place(start, end)
    assert caught.value.kind == "not on word boundaries"
    assert words.place(start, end, align="expand") == expected


def test_the_message_names_document_span_and_nearest_words(words):
    with pytest.raises(MisalignedSpan) as caught:
        words.place(3, 8)
    assert_mentions(caught, "[3, 8)", "'RF ta'", "'d1'", "'CRF' [2, 5)", "'tags' [6, 10)", "'expand'")
    assert caught.value.option == "align"


@pytest.mark.parametrize("align", ["exact", "expand"])
def test_a_span_without_words_is_refused(words, align):
    with pytest.raises(MisalignedSpan) as caught:
        words.place(11, 13, align=align)
    assert_mentions(caught, "[11, 13)", "'  '", "'d1'", "'.' [10, 11)", "'It' [13, 15)")
    assert caught.value.kind == "touches no word"


@pytest.mark.parametrize(("start", "end"), [(6, 15), (10, 22)])
@pytest.mark.parametrize("align", ["exact", "expand"])
def test_a_span_over_a_sentence_boundary_is_refused(words, start, end, align):
    made = WordMap(TEXT, SENTENCES, document="d1", made=True)
    for each, option in ((words, ""), (made, "segmenter")):
        with pytest.raises(MisalignedSpan) as caught:
            each.place(start, end, align=align)
        assert caught.value.kind == "crosses a sentence boundary"
        assert caught.value.option == option
        assert_mentions(caught, f"[{start}, {end})", "sentence 0", "sentence 1")


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (5, 2), (16, 23)])
def test_a_span_outside_the_text_is_refused(words, start, end):
    with pytest.raises(MisalignedSpan, match="22 characters") as caught:
        words.place(start, end, align="expand")
    assert caught.value.kind == "index out of range"


def test_an_unknown_way_of_aligning_is_refused(words):
    with pytest.raises(ConfigError, match="'expnd'.*'expand'"):
        words.place(0, 1, align="expnd")


@given(st.lists(st.lists(st.text("ab", min_size=1, max_size=3), max_size=4), max_size=4), st.data())
def test_expanding_takes_exactly_the_words_that_are_touched(sentences, data):
    """Against a slow literal reference: every word that shares a character with the span."""
    offsets, text = [], ""
    for sentence in sentences:
        row = []
        for word in sentence:
            text += data.draw(st.sampled_from(["", " ", "  "]))
            row.append((len(text), len(text) + len(word)))
            text += word
        offsets.append(tuple(row))
    text += " "
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    touched = [
        (s, w)
        for s, row in enumerate(offsets)
        for w, (a, b) in enumerate(row)
        if any(a <= position < b for position in range(start, end))
    ]
    words = WordMap(text, offsets)
    if len({s for s, _ in touched}) != 1:
        with pytest.raises(MisalignedSpan):
            words.place(start, end, align="expand")
        return
    found = words.place(start, end, align="expand")
    assert [(found.sentence, w) for w in range(found.start, found.end)] == touched
    row = offsets[found.sentence]
    assert found.exact == ((row[found.start][0], row[found.end - 1][1]) == (start, end))
