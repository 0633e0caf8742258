import pytest

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.sampling import sample_sentences
from cascade_srn.types import Document

TEXTS = [
    "We train a tagger for words. It works. The parser reads every sentence twice.",
    "We  Train a tagger for words. The method uses graphs to find relations.",
    "No. Yes.",
    "A tagger helps the parser. Words and spans of text are found in many long abstracts of science.",
]


def chosen(selection):
    return [s for d in selection.documents for s, kept in zip(d.sentences, d.chosen, strict=True) if kept]


def test_what_is_left_out_is_counted():
    held_out = [Document.from_words([["the", "PARSER", "reads", "every", "sentence", "twice."]])]
    selection = sample_sentences(TEXTS, held_out, LabelSettings(min_words=4, max_words=11))
    assert chosen(selection) == [
        "We train a tagger for words .",
        "The method uses graphs to find relations .",
        "A tagger helps the parser .",
    ]
    counts = selection.counts
    assert (counts.documents, counts.sentences) == (4, 9)
    assert (counts.too_short, counts.too_long, counts.held_out, counts.repeated) == (3, 1, 1, 1)
    assert (counts.not_sampled, counts.labelled) == (0, 3)
    # Held-out sentences are gone; others stay as context. A document with nothing to label is left out.
    assert [(d.number, len(d.sentences)) for d in selection.documents] == [(0, 2), (1, 2), (3, 2)]


def test_a_hyphenated_word_is_stored_as_one_word():
    (document,) = sample_sentences(
        ["We train a rule-\nbased tag-\r\n  ger for ﬁne words."], [], LabelSettings()
    ).documents
    assert document.sentences == ["We train a rule-based tagger for ﬁne words ."]
    (example,) = document.examples(0)
    assert example.sentence.words == ("We", "train", "a", "rule-based", "tagger", "for", "ﬁne", "words", ".")


@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 10, 11])
def test_samples_are_spread_evenly(wanted):
    texts = [f"This is sentence number {i} of all ." for i in range(10)]
    every = chosen(sample_sentences(texts, [], LabelSettings()))
    assert len(every) == 10
    selection = sample_sentences(texts, [], LabelSettings(max_sentences=wanted))
    expected = [every[i * 10 // wanted] for i in range(min(wanted, 10))] if wanted < 10 else every
    assert chosen(selection) == expected
    assert selection.counts.labelled == len(expected)
    assert selection.counts.not_sampled == 10 - len(expected)


def test_sentences_come_with_the_words_around_them():
    (document,) = sample_sentences([TEXTS[0]], [], LabelSettings(min_words=5)).documents
    first, second = document.examples(5)
    assert first.sentence.words == ("We", "train", "a", "tagger", "for", "words", ".")
    assert (first.left, first.right) == ((), ("It", "works", ".", "The", "parser"))
    assert (second.left, second.right) == (("words", ".", "It", "works", "."), ())
    assert [(e.left, e.right) for e in document.examples(0)] == [((), ())] * 2


def test_shards_are_whole_documents():
    texts = [" ".join(f"This is sentence {i} {j} of it." for j in range(3)) for i in range(5)]
    selection = sample_sentences(texts, [], LabelSettings())
    assert [[d.number for d in shard] for shard in selection.shards(4)] == [[0, 1], [2, 3], [4]]
    assert [[d.number for d in shard] for shard in selection.shards(1)] == [[0], [1], [2], [3], [4]]
    assert [[d.number for d in shard] for shard in selection.shards(99)] == [[0, 1, 2, 3, 4]]


def test_a_key_knows_neither_spaces_nor_case():
    assert sentence_key(["We", "train."]) == sentence_key(["we train", "."])
    assert sentence_key(["We", "train"]) != sentence_key(["We", "trained"])
    assert sentence_key(["a\ud800"]) != sentence_key(["a"])


def test_nothing_to_label_is_refused():
    with pytest.raises(DataError, match="of 2 sentences 2 .*4 words"):
        sample_sentences(["No. Yes."], [], LabelSettings())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_words": 9, "max_words": 3}, "min_words is 9"),
        ({"floor": 0}, "floor is 0.0"),
        ({"max_sentences": 0}, "max_sentences is 0"),
        ({"batch_words": 0}, "batch_words is 0"),
        ({"precision": "fp16"}, "precision is 'fp16'"),
        ({"flor": 0.1}, "'flor'"),
    ],
)
def test_settings_that_make_no_sense(values, message):
    with pytest.raises(ConfigError) as caught:
        LabelSettings.from_dict(values)
    assert message in str(caught.value)
