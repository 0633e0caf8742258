"""Text rebuilt from tokens: natural spacing, natural characters and exact offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn.text.detokenize import detokenize
from cascade_srn.text.forms import unescape
from cascade_srn.text.segment import segment


def joined(tokens):
    return detokenize([tokens.split()])[0]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("We train a CRF , an HMM ; both work : yes !", "We train a CRF, an HMM; both work: yes!"),
        ("A parser ( ours ) wins .", "A parser (ours) wins."),
        ("A parser -LRB- see -LSB- 3 -RSB- -RRB- wins .", "A parser (see [3]) wins."),
        ("{ a } -LCB- b -RCB-", "{a} {b}"),
        ("It gains 5 % , or $ 5 .", "It gains 5%, or $5."),
        ("Li 's parsers do n't fail , and we 'll see", "Li's parsers don't fail, and we'll see"),
        ("Li ’s parsers do n’t fail", "Li’s parsers don’t fail"),
        ("We can not stop .", "We cannot stop."),
        ("They CAN NOT stop", "They CANNOT stop"),
        ("`` Yes , '' she said .", '"Yes," she said.'),
        ('a " new " and a " newer " one', 'a "new" and a "newer" one'),
        ("a '' new '' one", 'a "new" one'),
        ("she said , '' Yes .", 'she said, "Yes.'),
        ("it ends '' , she said", 'it ends", she said'),
        ("it ends ''", 'it ends"'), ("“ yes ” and ‘ no ’ .", "“yes” and ‘no’."),
        ("a ` flat ' list", "a `flat' list"), ("the users ' data", "the users' data"),
        ("the ' new ' one", "the 'new' one"), ("rock ' roll", "rock' roll"),
        ("state-of-the-art models - and others -- win", "state-of-the-art models - and others -- win"),
        ("input / output", "input/output"),
        (r"input \/ output and and\/or \*", "input/output and and/or *"),
        ("/ x / = y /", "/ x / = y /"), ("P = NP + 1 < 3", "P = NP + 1 < 3"),
        ("wait ... what ?!", "wait... what?!"), ("$ x $", "$ x $"), (". starts", ". starts"), ("", ""),
    ],
)  # fmt: skip
def test_spacing(tokens, text):
    assert joined(tokens) == text


def test_natural_tokens_give_the_same_text():
    escaped = ["``", "A", "parser", "''", "-LRB-", "Li", "'s", ",", "and\\/or", "mine", "-RRB-", "wins", "."]
    assert detokenize([escaped]) == detokenize([[unescape(token) for token in escaped]])


def test_sentences_are_one_paragraph():
    text, offsets = detokenize([["It", "works", "."], [], ["“", "Yes", "”", "."]])
    assert text == "It works. “Yes”."
    assert offsets == [[(0, 2), (3, 8), (8, 9)], [], [(10, 11), (11, 14), (14, 15), (15, 16)]]


def test_the_first_token_of_a_sentence_is_never_joined():
    assert detokenize([["They", "can"], ["not", "stop"], [")", "."]])[0] == "They can not stop )."


@pytest.mark.parametrize(
    "tokens",
    [
        "We can not train Li 's CRF ( a model ) on 5 % of it , do n't we ?",
        'The " new " parsers \' results ( see [ 3 ] ) improve F1 by 1.5 % ; others fail .',
    ],
)
def test_the_segmenter_finds_the_tokens_again(tokens):
    text, offsets = detokenize([tokens.split()])
    assert segment(text) == offsets


SPECIAL = ["-LRB-", "-RRB-", "(", ")", "``", "''", '"', "'", "`", "'s", "n't", ",", ".", "...", "%", "$", "#", "/",
           r"\/", "-", "--", "can", "not", "“", "”", "’", "5", "the", "parsers"]  # fmt: skip
any_token = st.one_of(st.sampled_from(SPECIAL), st.text(ANY_CHARACTER, min_size=1, max_size=5))


@given(st.lists(st.lists(any_token, max_size=12), max_size=4))
def test_each_token_is_at_its_offsets(sentences):
    text, offsets = detokenize(sentences)
    assert [len(placed) for placed in offsets] == [len(tokens) for tokens in sentences]
    at = 0
    for tokens, placed in zip(sentences, offsets, strict=True):
        for token, (start, end) in zip(tokens, placed, strict=True):
            assert text[start:end] == unescape(token)
            assert text[at:start] in ("", " ")
            at = end
    assert at == len(text)
