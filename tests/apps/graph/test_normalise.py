import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn.apps.graph.generic import is_generic
from cascade_srn.apps.graph.normalise import (
    describe_difference,
    display_form,
    is_acronym,
    normalise,
    singular,
    squeeze,
)

SAME = [
    ("Named Entity Recognition", "named entity recognition"),
    ("named-entity recognition", "named entity recognition"),
    ("part‑of–speech tagging", "part-of-speech tagging"),
    ("neural networks", "Neural Network"),
    ("the CRF", "CRF"),
    ("this neural network", "neural network"),
    ("SVMs", "SVM"),
    ("ontologies", "ontology"),
    ("parallel corpora", "parallel corpus"),
    ("databases", "database"),
    ("classes", "class"),
    ("gender biases", "gender bias"),
    ("summarisation", "summarization"),
    ("labelled data", "labeled data"),
    ("dialogue acts", "dialog act"),
    ("naïve Bayes", "naive Bayes"),
    ("“BLEU” score", "BLEU score"),
    ("BERT's", "BERT"),
    ("ﬁnite-state\nautomata", "finite state automata"),
    ("machine trans- lation", "machine trans-lation"),
    ("(NER)", "NER"),
    ("c++", "C++"),
    ("soft\u00adware", "software"),
]
DIFFERENT = [
    ("pointwise", "pointwize"),
    ("US", "us"),
    ("IT", "it"),
    ("C", "C++"),
    ("C#", "C"),
    ("A", "A*"),
    ("GPT-2", "GPT-3"),
    ("supervised learning", "unsupervised learning"),
    ("AWS", "AW"),
    ("analysis", "analyst"),
    ("BERT-base", "BERT-large"),
    ("English-German", "German-English"),
    ("pre- and post-editing", "preand post editing"),
    ("中文", "日文"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_forms_of_the_same_thing_have_the_same_key(first, second):
    assert normalise(first) == normalise(second)
    assert describe_difference(first, second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_things_have_different_keys(first, second):
    assert normalise(first) != normalise(second)


@pytest.mark.parametrize(
    ("first", "second", "steps"),
    [
        ("The CRF", "CRF", "determiner"),
        ("Neural networks", "neural network", "case, plural"),
        ("code-switching", "code switching", "hyphen"),
        ("modelling", "modeling", "British spelling"),
    ],
)
def test_the_difference_is_named(first, second, steps):
    assert describe_difference(first, second) == steps


@given(st.text(ANY_CHARACTER, max_size=40))
def test_any_text_has_a_key_and_a_form(text):
    key = normalise(text)
    assert key == " ".join(key.split())
    assert display_form(text) or not text
    squeeze(key)
    is_generic(text)


@given(
    st.lists(st.sampled_from(["the", "a", "Neural", "networks", "NER", "GPT-2", "corpora", "of", "data"]), max_size=5)
)
def test_the_key_of_a_key_is_itself(words):
    key = normalise(" ".join(words))
    if not is_acronym(key) and len(key.split()) > 1 and key.split()[0] != "a":
        assert normalise(key) == key


def test_squeezing_keeps_numbers_apart():
    assert squeeze("data set") == squeeze("dataset")
    assert squeeze("1 1") != squeeze("11")


def test_singular_of_words_in_s():
    for word in ("bias", "analysis", "corpus", "loss", "physics", "news", "series", "gas", "AWS", "thesaurus"):
        assert singular(word) == word


def test_words_that_end_a_line_are_joined():
    assert display_form("GPU optimiza-\ntions of\nBERT-\nbase") == "GPU optimizations of BERT-base"
    assert normalise("optimiza-\ntions") == normalise("optimization")


def test_names_keep_their_apostrophes():
    assert display_form("the Krippendorff’s alpha,") == "Krippendorff’s alpha"


@pytest.mark.parametrize(
    "text",
    [
        "it",
        "It",
        "they",
        "this method",
        "our approach",
        "The proposed model",
        "methods",
        "data sets",
        "state-of-the-art systems",
    ],
)
def test_generic_mentions(text):
    assert is_generic(text)


@pytest.mark.parametrize(
    "text", ["US", "IT", "kernel methods", "language model", "CRF", "WHO", "neural network", "word"]
)
def test_mentions_that_name_something(text):
    assert not is_generic(text)
