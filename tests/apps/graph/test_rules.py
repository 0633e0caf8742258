from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.apps.graph.forest import Forest
from cascade_srn.apps.graph.normalise import normalise
from cascade_srn.apps.graph.rules import WordCounts, WordGroups, find_pairs, fuzzy_merges, head_merges, spelling_merges

pytest.importorskip("rapidfuzz")

# Each word of the text is frequent.
WORDS = Counter({"language": 1000, "forest": 1000, "recognition": 1000, "manual": 1000, "translation": 1000})


def make_forest(counts, label="Method"):
    forest = Forest()
    for name, n in counts:
        key = forest.keys[forest.add(normalise(name), "", name)]
        key.n, key.main_label = n, label
    return forest


def merged(forest, merges):
    return {(forest.keys[merge.key].name, forest.keys[merge.into].name) for merge in merges}


@pytest.mark.parametrize(
    ("rare", "frequent"),
    [
        ("large langauge model", "large language model"),
        ("random forrest", "random forest"),
        ("entity recogniton task", "entity recognition task"),
        ("words embeddings", "word embeddings"),
        ("quality of the translation", "translation quality"),
        ("detection of hate speech", "hate speech detection"),
        ("indexing of the texts", "indexing of texts"),
    ],
)
def test_misspelled_and_inflected_names_are_merged(rare, frequent):
    forest = make_forest([(rare, 1), (frequent, 30)])
    assert merged(forest, fuzzy_merges(forest, 0.9, WordCounts.collect(forest, WORDS))) == {(rare, frequent)}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("supervised learning", "unsupervised learning"),
        ("monolingual models", "multilingual models"),
        ("bilingual models", "monolingual models"),
        ("BERT-base", "BERT-large"),
        ("GPT-2", "GPT-3"),
        ("GPT-2 model", "GPT-3 model"),
        ("version 1.0", "version 1.1"),
        ("English-German", "English-French"),
        ("English-German translation", "German-English translation"),
        ("speech to text", "text to speech"),
        ("intra-sentence relations", "inter-sentence relations"),
        ("hypernym detection", "hyponym detection"),
        ("micro-average score", "macro-average score"),
        ("misinformation detection", "disinformation detection"),
        ("BioBERT", "BioBART"),
        ("SVM classifier", "SVR classifier"),
        ("MAP", "map"),
        ("language parser", "language parses"),
        ("tracking", "tracing"),
        ("emoticons", "emotions"),
        ("structure prediction", "structured prediction"),
        ("word model", "world model"),
        ("model 1 1", "model 11"),
    ],
)
@pytest.mark.parametrize("order", [(1, 50), (50, 1), (20, 20)])
def test_different_names_are_never_merged(first, second, order):
    forest = make_forest(list(zip((first, second), order, strict=True)))
    found = [
        *spelling_merges(forest),
        *head_merges(forest, {}),
        *fuzzy_merges(forest, 0.5, WordCounts.collect(forest, WORDS)),
    ]
    assert merged(forest, found) == set()


def test_refused_pairs_name_the_rule():
    forest = make_forest([("supervised learning", 5), ("unsupervised learning", 5), ("BioBERT", 1), ("BioBART", 9)])
    refusals = {pair.refusal for pair in find_pairs(forest, 0.9, WordCounts.collect(forest, Counter()))}
    assert "name in capitals" in refusals
    assert "" not in refusals


def test_a_threshold_keeps_less_similar_names_apart():
    forest = make_forest([("random forrest", 1), ("random forest", 30)])
    assert merged(forest, fuzzy_merges(forest, 0.99, WordCounts.collect(forest, WORDS))) == set()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (("data set", 5), ("dataset", 9), True),
        (("GPT2", 5), ("GPT-2", 9), True),
        (("ELMo", 5), ("ELMO", 9), True),
        (("Bert", 1), ("BERT", 50), True),
        (("map", 20), ("MAP", 30), False),
        (("us", 1), ("US", 50), False),
        (("A I", 1), ("AI", 50), False),
    ],
)
def test_spaces_and_capitals(first, second, same):
    forest = make_forest([first, second])
    assert bool(merged(forest, spelling_merges(forest))) is same


def test_nouns_that_add_nothing():
    names = [
        "BERT",
        "BERT model",
        "tag classifier",
        "TAG",
        "NMT",
        "NMT model",
        "English corpus",
        "English",
        "SQuAD dataset",
        "SQuAD",
    ]
    forest = make_forest([(name, 5) for name in names])
    nmt = forest.find("NMT")
    long_forms = {nmt: [forest.add("neural machine translation", "", "neural machine translation")]}
    assert merged(forest, head_merges(forest, long_forms)) == {("BERT model", "BERT"), ("SQuAD dataset", "SQuAD")}
    tasks = make_forest([("question answering", 5), ("question answering tasks", 5)], label="Task")
    assert merged(tasks, head_merges(tasks, {})) == {("question answering tasks", "question answering")}


def test_the_cost_grows_nearly_linearly():
    """The number of compared pairs is bounded by the size of a group, and not by the square of the names."""
    names = [
        (f"{first}ing {second} model", 1)
        for first in "abcdefghij"
        for second in ("alpha" + c for c in "klmnopqrstuvwxyz")
    ]
    forest = make_forest(names)
    assert len(list(find_pairs(forest, 0.9, WordCounts.collect(forest, Counter())))) <= 40 * len(names)


@given(
    st.lists(st.text("abcé", min_size=5, max_size=9), unique=True, max_size=30),
    st.lists(st.text("abcé", min_size=5, max_size=9), max_size=5),
)
def test_groups_of_words_equal_a_comparison_of_all_deletions(words, asked):
    def deletions(word):
        return {word} | {word[:at] + word[at + 1 :] for at in range(len(word))} if len(word) > 5 else set()

    first, later = words[::2], words[1::2]
    groups = WordGroups(first)
    groups.find([*asked, *words])
    groups.add(later)
    found = groups.find([*asked, *words])
    assert set(found) == {shorter for word in (*asked, *words) for shorter in deletions(word)}
    for shorter, members in found.items():
        assert sorted(members) == sorted(word for word in words if shorter in deletions(word))
