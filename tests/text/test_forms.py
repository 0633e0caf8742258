"""What a model reads for a word, and words that are hyphenated at the end of a line."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn.config import TEXT_FORMS
from cascade_srn.text.coverage import measure_coverage
from cascade_srn.text.forms import model_form, model_words, unescape
from cascade_srn.text.segment import find_markup, segment

# A line break within a word, by the form of the word.
HYPHENATED = {
    "sys-\ntem": "system",
    "sys-\r\n  tem": "system",
    "Sys-\rtem": "System",
    "sys- \t\n\u00a0tem": "system",
    "sys-\u2028tem": "system",
    "sys\u00ad\ntem": "system",
    "sys\u2010\ntem": "system",
    "sys-\n\x0ctem": "system",
    "en-\ncyclo-\npedia": "encyclopedia",
    "in-\nformation": "information",
    "cross-lin-\ngual": "cross-lingual",
    "BERT\u00ad\nbase": "BERTbase",
    # These keep their hyphen.
    "state-of-the-\nart": "state-of-the-art",
    "state-\nof-the-art": "state-of-the-art",
    "end-\nto-end": "end-to-end",
    "state-\nof-\nthe-\nart": "state-of-the-art",
    "F1-\nscore": "F1-score",
    "BERT-\nbase": "BERT-base",
    "mBERT\u2011\r\nbased": "mBERT-based",
    "GPT-\n3": "GPT-3",
    "non-\nEnglish": "non-English",
    "CNN-\nLSTM": "CNN-LSTM",
    "rule-\nbased": "rule-based",
    "Self-\nattention": "Self-attention",
}
# Text that stays several words.
APART = [
    "sys-\n\ntem",
    "sys-\u2029tem",
    "10-\n20",
    "pre-\nand post-processing",
    "sys -\ntem",
    "sys-\n- tem",
    "sys–\ntem",
]

FORMS = {
    "plain": "plain",
    "eﬃcient": "efficient",
    "ﬁﬂﬀﬄ": "fiflffffl",
    "soft\u00adware": "software",
    "zero\u200bwidth\ufeff": "zerowidth",
    "\u202eabc\u2069": "abc",
    "10\u00a0000": "10 000",
    "a\u2009b\u3000c\td": "a b c d",
    "Li’s": "Li's",
    "‘": "'",
    "“": '"',
    "„": '"',
    "»": '"',
    "``": '"',
    "''": '"',
    "'": "'",
    "`": "`",
    "Encoder–Decoder": "Encoder-Decoder",
    "−0.5": "-0.5",
    "non\u2011linear": "non-linear",
    "—": "--",
    "…": "...",
    "ＦＵＬＬ（１）": "FULL(1)",
    "𝑓": "f",
    "cafe\u0301": "café",
    "ef\u200cfect": "effect",
    # Joiners are letters of some scripts, and parts of emoji.
    "می\u200cخواهم": "می\u200cخواهم",
    "👩\u200d🔬": "👩\u200d🔬",
    "字": "字",
    "naïve": "naïve",
    # Escapes in running text are left alone.
    "-LRB-": "-LRB-",
    "\u200b\u00ad\ufeff": "",
    "": "",
}


def words_of(text):
    return [[text[start:end] for start, end in sentence] for sentence in segment(text)]


@pytest.mark.parametrize(("word", "form"), [*HYPHENATED.items(), *FORMS.items()], ids=ascii)
def test_form(word, form):
    assert model_form(word) == form


@pytest.mark.parametrize("word", HYPHENATED, ids=ascii)
def test_a_hyphenated_word_is_one_word(word):
    assert words_of(f"A {word}, (new).") == [["A", word, ",", "(", "new", ")", "."]]


@pytest.mark.parametrize("text", APART, ids=ascii)
def test_other_hyphens_at_the_end_of_a_line(text):
    assert all(word.split() == [word] for sentence in words_of(text) for word in sentence)


def test_a_hyphenated_word_can_have_a_clitic_and_end_a_sentence():
    assert words_of("The sys-\ntem's speed. We en-\ncode. It works.") == [
        ["The", "sys-\ntem", "'s", "speed", "."],
        ["We", "en-\ncode", "."],
        ["It", "works", "."],
    ]


@pytest.mark.parametrize("invisible", ["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"], ids=ascii)
def test_invisible_characters_do_not_split_words(invisible):
    assert words_of(f"one pre{invisible}diction works") == [["one", f"pre{invisible}diction", "works"]]


def test_text_forms_of_a_sentence():
    words = ["“", "a", "”", '"', "b", '"', "(", "c", "]", "ﬁn", '"', "``", "''"]
    assert list(model_words(words, "verbatim")) == words
    assert model_words(words, "natural") == ['"', "a", '"', '"', "b", '"', "(", "c", "]", "fin", '"', '"', '"']
    escaped = ["``", "a", "''", "``", "b", "''", "-LRB-", "c", "-RSB-", "fin", "``", "``", "''"]
    assert model_words(words, "escaped") == escaped
    # Tokens that are escaped already stay so, and each sentence starts with an opening quote.
    assert model_words(["-LRB-", "''", '"'], "escaped") == ["-LRB-", "''", "``"]


def test_unescaped_words():
    tokens = ["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-", "-lrb-", "-rcb-", "``", "''", r"1\/2", r"\*\*"]
    assert list(map(unescape, tokens)) == ["(", ")", "[", "]", "{", "}", "(", "}", '"', '"', "1/2", "**"]
    assert [unescape(";-RRB-")] == [";)"]
    unchanged = ["-", "LRB", "-LXB-", "a''", "```", "\\", "'", "(", ""]
    assert list(map(unescape, unchanged)) == unchanged


# Strings that the rules match, to be combined at random.
PIECES = [
    *"a-Z1.'\"(\n\r\t \u00a0\u00ad\u200b\u200d\u2010\u2011\u2028\u2029ﬁ“—é\u0301字",
    "\r\n",
    "``",
    "sys-\n",
    "-LRB-",
]
ANY_TEXT = st.text(ANY_CHARACTER) | st.lists(st.sampled_from(PIECES)).map("".join)


@given(ANY_TEXT)
def test_any_word_has_one_form(text):
    form = model_form(text)
    assert form == model_form(text)
    assert not {"\u00ad", "\u200b", "“", "ﬁ"} & set(form)
    assert not any(char.isspace() and char != " " for char in form)
    for name in TEXT_FORMS:
        assert len(model_words([text, text], name)) == 2


@given(ANY_TEXT)
def test_words_of_any_text_are_inside_it_and_have_no_line_break_in_their_form(text):
    words = [word for sentence in segment(text) for word in sentence]
    assert measure_coverage(text, words, find_markup(text)).complete
    for start, end in words:
        assert 0 <= start < end <= len(text)
        assert model_form(text[start:end]).split() in ([], [model_form(text[start:end])])
    assert all(word[1] <= following[0] for word, following in pairwise(words))


@pytest.mark.parametrize(
    ("unit", "form"),
    [
        ("a-\n", "a" * 20_000 + "-"),
        ("a\u00ad\n", "a" * 20_000),
        ("A-\n", "A-" * 20_000),
        ("a-\r", "a" * 20_000 + "-"),
        ("a-\n\n", "a" * 20_000 + "-"),
    ],
)
def test_the_form_of_a_long_repetition(unit, form):
    assert model_form(unit * 20_000).rstrip() == form
