"""Splitting of raw text: examples, and properties that hold for any text."""

import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn.text.coverage import measure_coverage
from cascade_srn.text.segment import LONGEST_SENTENCE, find_markup, segment


def words(text):
    """Return the words with spaces between them, and with bars between sentences."""
    return " | ".join(" ".join(text[start:end] for start, end in sentence) for sentence in segment(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a state-of-the-art, multi-view method", "a state-of-the-art , multi-view method"),
        ("speech (ASR) [and {vision}]", "speech ( ASR ) [ and { vision } ]"),
        ("pi is 3.14, not 1,000,000 or 12,34", "pi is 3.14 , not 1,000,000 or 12 , 34"),
        ("see [1,2,3] and (4,5)", "see [ 1 , 2 , 3 ] and ( 4 , 5 )"),
        ("at -0.5, .01 and 10:30", "at -0.5 , .01 and 10:30"),
        ("3-10 words, x-5 and 2D/3D", "3-10 words , x-5 and 2D/3D"),
        ("50% of $5.00", "50 % of $ 5.00"),
        ("p<0.05 and F1=0.5", "p < 0.05 and F1 = 0.5"),
        ("e.g., this, i.e. that", "e.g. , this , i.e. that"),
        ("Li et al., 2010", "Li et al. , 2010"),
        ("here, i. e. there, e. g. now w. r. t. x", "here , i. e. there , e. g. now w. r. t. x"),
        ("by Fr. Brown, Tel. 555, nr. 1", "by Fr. Brown , Tel. 555 , nr. 1"),
        ("the U.S. government", "the U.S. government"),
        ("i.i.d. noise w.r.t. x", "i.i.d. noise w.r.t. x"),
        ("the model's and the models' size", "the model 's and the models ' size"),
        ("don't can't it's we're I've they'll", "do n't ca n't it 's we 're I 've they 'll"),
        ("DON'T", "DO N'T"),
        ("don’t and it’s", "do n’t and it ’s"),
        ("we cannot", "we can not"),
        ("O'Brien's", "O'Brien 's"),
        ("(CRF)'s", "( CRF ) 's"),
        ("does n't , 's", "does n't , 's"),
        ("\"so\" 'so' “so” ‘so’ ``so''", "\" so \" ' so ' “ so ” ‘ so ’ `` so ''"),
        ("and/or, he/she", "and/or , he/she"),
        ("AT&T, Q&A", "AT&T , Q&A"),
        ("so... and … then", "so ... and … then"),
        ("a--b — c–d", "a -- b — c – d"),
        ("what?! no!!", "what ?! no !!"),
        ("C++, C# and #tag by @name", "C++ , C# and #tag by @name"),
        ("write to a.b-c@d.org.", "write to a.b-c@d.org ."),
        ("(see https://a.b/c?d=e,f).", "( see https://a.b/c?d=e,f ) ."),
        ("https://a.b/c_(d), www.e.org!", "https://a.b/c_(d) , www.e.org !"),
        ("10.1000/xyz_12.3", "10.1000/xyz_12.3"),
        ("cafe\u0301 nai\u0308ve", "cafe\u0301 nai\u0308ve"),
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("soft\u00adhyphen", "soft\u00adhyphen"),
        ("\ufefffirst", "\ufeff first"),
        ("good👍🏽job👨‍👩‍👧 🇩🇪🇫🇷", "good 👍🏽 job 👨‍👩‍👧 🇩🇪 🇫🇷"),
        ("用BERT模型", "用 BERT 模 型"),
        ("مرحبا، عالم", "مرحبا ، عالم"),
        ("a\u00a0b\u2003c\td", "a b c d"),
        ("a\x00b", "a \x00 b"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "One ends. | Two ends! | Three? | Four… | Five... | Six",
        "He said \"Stop.\" | Then “Go.” | Then (now.) | Then 'so.' | Done.",
        "“First.” | “Second.” | (Third.) | [Fourth.]",
        "Dr. Li and Mr. X met J. R. Smith and H. influenzae.",
        "See Fig. 3 and Eq. (2), Sec. IV, No. 5 vs. Tab. B, pp. 3-5. | Then more.",
        "The answer is no. | We wait one sec. | Then we go.",
        "Li et al. Show nothing. | It is by Li et al. | The rest is known.",
        "It is from the U.S. Government. | It is from the U.S. | The rest is not.",
        "It has words, phrases, etc. | Sentences follow.",
        "It has words (phrases, etc.) The rest follows.",
        "It was shown (Smith et al., 2010) before [3]. | As in [4], it was.",
        "It was shown (Smith et al.) The model is not new.",
        "It was shown.[3,4] | The rest follows.",
        "It is as they say (Smith. 2010) today.",
        "Values of 3.14 and 0.5 are used. | 5 others are not.",
        "Is it? he asked. so... what is it",
        "We take matrix A. | The rest is as in Smith, J., 2010.",
        "We choose A.",
        "1. Introduction to it. | 2.1. Method of it.",
        "There are two. | (i) The first. | b) The second. | • The third.",
        "It helps. | mBERT does not. it may",
        "We solve this task.| However, arXiv.org (and Java.util.List).| We do not.",
        "The cost is low. | $5 is enough. | 👍 it is.",
        "first\n\n| second",
        "first.\r\n \t\r\n| second",
        "first.\u2029| second",
        "one line\nand the next\r\nand the last",
        "We use it, e. g. Adam, i. e. Momentum, in w. r. t. Parameters. | The rest is fixed.",
        "We set it to n. | Existing methods take a. | The rest is b. | There were 3. | August was hot.",
        "It took place on day 12. | September was hot. | The string was called str. | 5 others were not.",
        "这是第一句。| 这是第二句！| 「好。」| 完",
        "यह एक है। | यह दो है।",
        "كيف حالك؟ | جيد.",
        ". . .",
        "?",
    ],
)
def test_sentences(text):
    plain, starts = "", []
    for part in text.split("| "):
        starts.append(len(plain))
        plain += part
    assert [sentence[0][0] for sentence in segment(plain)] == starts


def test_a_long_text_without_capitals_has_sentences():
    text = "we train a parser, e.g. on news. it is fast. " * 10
    assert len(segment(text)) == 20
    assert len(segment(text + "A")) < 20


LOST_PUNCTUATION = (
    "We train a parser for long sentences on news of two years| It reads words from left to right and keeps a stack of "
    "trees| Previous models read each word twice| Surprisingly the New York corpus of Hepatitis A cases is hard "
    "and we show that This is rare| A second model labels the trees "
)


def test_text_without_punctuation_is_cut_at_capitals():
    parts = [f"{part.strip()} " for part in LOST_PUNCTUATION.split("|")]
    text = "".join(parts)
    assert [text[sentence[0][0] : sentence[-1][1]] + " " for sentence in segment(text)] == parts
    assert len(segment(2 * text + ".")) == 2 * len(parts)
    # A single comma shows that the author uses punctuation, and a short text can be one sentence.
    assert len(segment(text.replace(" and", ", and", 1))) == 1
    assert len(segment(" ".join(text.split()[:30]))) == 1


def test_text_without_punctuation_and_capitals_is_cut_before_clauses():
    text = "um so this is the parser that I told you about and however we have not tried it on the other texts " * 8
    parts = [text[sentence[0][0] : sentence[-1][1]].split() for sentence in segment(text)]
    assert sum(map(len, parts)) == len(text.split())
    assert max(map(len, parts)) <= 50
    assert {part[0] for part in parts[1:]} == {"we"}
    rows = "alpha 1 beta 2 gamma 3 delta 4 " * 10  # no prose
    assert len(segment(rows)) == 1


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\r\n\u00a0\u2028\x1c"])
def test_blank_text_has_no_sentence(text):
    assert segment(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "We don't use Dr. Li's (2010) 3.14%, e.g. in the state-of-the-art U.S. model.",
        '"So it is," they said... and we cannot know [3] and/or see https://a.b/c.',
    ],
)
def test_splitting_split_words_changes_nothing(text):
    assert words(words(text)) == words(text)


@pytest.mark.parametrize(
    ("pause", "ends"), [("\n", "a"), (" ; ", ";"), (" , ", ","), (" ) ", ")"), (" - ", "-"), (" ", "a")]
)
def test_a_long_sentence_is_cut_at_its_last_pause(pause, ends):
    size = 7
    text = pause.join([" ".join("a" * size)] * 100)
    sentences = [[text[start:end] for start, end in sentence] for sentence in segment(text)]
    assert len(sentences) > 3
    for sentence in sentences[:-1]:
        assert LONGEST_SENTENCE - size - 1 <= len(sentence) <= LONGEST_SENTENCE
        assert sentence[-1] == ends
        assert pause == " " or len(sentence) % (size + (pause != "\n")) == 0


def test_the_better_pause_is_taken_within_the_second_half():
    text = f"{'a ' * 110}\n{'b ' * 50}; {'c ' * 30}, {'d ' * 100}"
    assert [text[sentence[0][0]] for sentence in segment(text)] == ["a", "b"]
    text = f"{'a ' * 90}\n{'b ' * 50}; {'c ' * 30}, {'d ' * 100}"
    assert [text[sentence[0][0]] for sentence in segment(text)] == ["a", "c"]


def test_a_sentence_of_ordinary_length_is_not_cut():
    assert len(segment("a, b;\n" * 50)) == 1
    assert len(segment("a " * LONGEST_SENTENCE)) == 1
    assert [len(sentence) for sentence in segment("a " * (LONGEST_SENTENCE + 1))] == [LONGEST_SENTENCE, 1]


def check(text):
    sentences = segment(text)
    assert all(len(sentence) <= LONGEST_SENTENCE for sentence in sentences)
    assert all(sentences)
    offsets = [word for sentence in sentences for word in sentence]
    at = 0
    for start, end in offsets:
        assert at <= start < end <= len(text)
        # Only a word that is hyphenated at the end of a line contains whitespace.
        assert not any(char.isspace() for char in text[start:end]) or set("-\u2010\u2011\u00ad") & set(text[start:end])
        at = end
    assert measure_coverage(text, offsets, find_markup(text)).missed == ()
    return offsets


# Strings that the rules match, to be combined at random. Arbitrary text seldom contains them.
PIECES = [
    *" \n\t\r.,;:!?…'\"`()[]{}-–—/&@#%$*=~_\\+<>|^0123456789aZßé字カ한กע،؟।。」",
    *"\u00a0\u2028\u2029\x00\x1f\u200b\u200d\u0301\ufeff\u02b9\u202e",
    *("👍", "🏽", "\ufe0f", "🇩", "http://", "www.", "et al.", "e.g.", "U.S.", "Dr.", "Fig.", "No. 3", "J. "),
    *("n't", "'s", "cannot", "\r\n\r\n", "...", "``", "''", "C++", "1,000", "3.14", "[1]", "The ", "a@b.c"),
]


@given(st.text(ANY_CHARACTER))
def test_every_character_of_any_text_is_markup_or_in_one_word(text):
    check(text)


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_every_character_of_any_pieces_is_markup_or_in_one_word(text):
    check(text)


@given(st.text(ANY_CHARACTER, min_size=1), st.sampled_from(["\n\n", "\r\n\r\n", "\u2029"]))
def test_a_blank_line_always_ends_a_sentence(text, blank):
    both = f"{text}x{blank}y{text}"
    assert len(text) + 1 + len(blank) in {sentence[0][0] for sentence in segment(both)}


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_whitespace_around_a_text_changes_nothing_but_offsets(text):
    # Less than the indentation of code, in which markup is text.
    inner = text.strip()
    moved = [[(start - 2, end - 2) for start, end in sentence] for sentence in segment(f"\n {inner} \n")]
    assert moved == segment(inner)


# With a rule that looks back or ahead without a bound, these would take minutes.
REPEATED = [
    *("a", "é", "字", "(", "a.a.", "a.", ".", ". ", "A. ", "p. ", "'", '. " ', ". ( ", "'' ", "-", "1,", "1,000,"),
    *("a-", "a@", "http://", "www.", "http://a)", "a\u0301", "\u0301", "👍\u200d", " ", "\n", "\n ", ".[1"),
    *("Fig. I", "no. II", "[", "{", "|", "|\n", "# ", "```\n", "````\n```\n", "~~~a\n", "> ", "- a\n", "1. a\n"),
    *("<a ", '<a x="', "<!--", "<table>", "<script>", "<br>", "\\begin{tabular}", "\\begin{verbatim}", "\\textbf{"),
    *("a\tb\n", "\\cite{", "\\cite[", "\\\\ ", "**a", "`a ", "[a](", "Yahoo! A", "References\n", "A b\nC d e f.\n"),
]
LONG_TAILS = ["http://x" + ")" * 100_000, "no. " + "I" * 100_000, "1" + ",000" * 25_000 + "0"]


@pytest.mark.slow
def test_mixed_repetitions_take_linear_time():
    check("".join((unit * 10_000)[:10_000] for unit in REPEATED))


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG_TAILS, ids=lambda t: t[:8])
def test_long_repetitions_take_linear_time(text):
    check(text)


PIECES = [
    "we",
    "use",
    "the",
    "model",
    "However",
    "It",
    "Cannot",
    "cannot",
    "CANNOT,",
    "cannots",
    "C++",
    "C#",
    "don't",
    "it's",
    "e.g.",
    "Smith",
    "et",
    "al.",
    "In",
    "2010",
    "3.5",
    "state-of-the-art",
    "www.a.b",
    "https://a.b/c_d?e=f,",
    "http://x.y)",
    "<b>",
    "</b>",
    "<br>",
    "<unk>",
    "\\cite{a}",
    "\\textbf{",
    "}",
    "\\item",
    "\\",
    "&",
    "&nbsp;",
    "*",
    "**bold**",
    "`x`",
    "`",
    "[a](http://b.c)",
    "[1]",
    "~~~",
    "```",
    "|",
    "-",
    "\xad",
    "\u200d",
    "́",
    "中",
    "é",
    ".",
    "...",
    "!",
    "?",
    ";",
    ":",
    ",",
    ")",
    "(",
    "'",
    '"',
    "1.",
    "(a)",
    "#",
    ">",
    "•",
]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from([" ", " ", "", "  ", "\n", "\n\n"])), max_size=40))
def test_the_short_cuts_for_plain_text_change_nothing(pieces):
    text = "".join(piece + space for piece, space in pieces)
    module = "cascade_srn.text"
    with (
        mock.patch(f"{module}.segment._PLAIN", re.compile("(?!)")),
        mock.patch(f"{module}.markup._TOKEN_SIGNS", ("",)),
        mock.patch(f"{module}.markup._MARKDOWN_SIGNS", ("",)),
    ):
        expected = segment(text), find_markup(text)
    assert (segment(text), find_markup(text)) == expected
