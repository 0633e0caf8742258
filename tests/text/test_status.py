import re

import pytest

from cascade_srn import Document, Sentence, Span, Triple
from cascade_srn.text.status import find_status


def status(text, label="USED-FOR"):
    """Return the status of the relation between the two entities in square brackets."""
    words, spans = [], []
    for part in re.split(r"(\[[^]]*\])", text):
        found = part.strip("[]").split()
        if part.startswith("["):
            spans.append((len(words), len(words) + len(found)))
        words += found
    first, second = spans
    assert find_status(words, second, first, label) == find_status(words, first, second, label)
    return find_status(words, first, second, label)


@pytest.mark.parametrize(
    "text",
    [
        "[Parsers] do not use [grammars] .",
        "[Parsers] do n't need a large [grammar] .",
        "We train [parsers] without any [grammar] .",
        "We propose [rules] other than using [grammars] .",
        "We learn words rather than using [grammars] for [parsing] .",
        "[Noise] hampers [recognition] .",
        "[Recognition] is hampered by [noise] .",
        "[Parsers] fail to use [grammars] .",
        "We do not use [grammars] for [parsing] .",
        "There is no [corpus] for [Frisian] .",
        "[Parsers] may not need [grammars] .",
        "The parser reads [words] instead of [grammars] .",
    ],
)
def test_negated(text):
    assert status(text) == "negated"


@pytest.mark.parametrize(
    "text",
    [
        "[Grammars] may improve [parsing] .",
        "We ask whether [grammars] improve [parsing] .",
        "[Grammars] could possibly help [parsing] .",
        "We ask whether [grammars] learned from text can help [parsing] .",
        "It is unclear whether [grammars] help [parsing] .",
        "It is not clear whether [grammars] help [parsing] .",
        "[Grammars] are not necessarily good for [parsing] .",
        "Results suggest that [grammars] help [parsing] .",
        "[Grammars] seem to help [parsing] .",
        "We use [grammars] , which may help [parsing] .",
    ],
)
def test_hedged(text):
    assert status(text) == "hedged"


@pytest.mark.parametrize(
    "text",
    [
        "[Parsers] use [grammars] .",
        "[Grammars] help not only [parsing] but also tagging .",
        "[Rules] are not fast , but they help [parsing] .",
        "Unlike tagging , [parsing] needs [grammars] .",
        "Unlike [grammars] for [parsing] , words are simple .",
        "The [parser] uses a [grammar] and does not need a corpus .",
        "Tagging does not suffice ; we use [grammars] for [parsing] .",
        "[Parsing] , without loss of generality , uses [grammars] .",
        "We do not use the [shape] of [objects] .",
        "We do not know [corpora] such as [treebanks] .",
        "The lack of [corpora] for [Frisian] is a problem .",
        "To avoid [errors] we use a [grammar] .",
        "The [parser] can not only find [phrases] but also words .",
        "The [parser] decides whether a word is a [verb] .",
        "The [parser] finds words that are not in the lexicon for [tagging] .",
        "The [parser] , trained or not , helps [tagging] .",
        "We ask if [parsers] for [English] are good .",
        "We ask whether [parsers] for [English] are good .",
        "We ask whether [parsers] trained on [news] are good .",
        "We generate a [grammar] with unknown [words] .",
    ],
)
def test_asserted(text):
    assert status(text) == "asserted"


def test_comparisons_hold_whatever_the_result_is():
    assert status("[Parsing] , unlike [tagging] , is slow .", "COMPARE") == "asserted"
    assert status("[Parsing] , unlike [tagging] , is slow .", "PART-OF") == "negated"
    assert status("[Parsers] do not reach the best [accuracy] .", "EVALUATE-FOR") == "asserted"


def test_entities_that_share_words():
    assert find_status(["no", "deep", "model"], (1, 3), (2, 3)) == "asserted"
    assert find_status(["deep", "model"], (0, 2), (0, 1)) == "asserted"


def test_relations_of_documents():
    head, tail = Span(3, 4, "Method", 0.9), Span(0, 1, "Task", 0.9)
    sentence = Sentence.from_words(
        ["Parsing", "without", "any", "grammar"], [tail, head], [Triple(head, "of", tail, 0.8)]
    )
    other = Sentence.from_words(["A", "b"], [Span(0, 1, "Task"), Span(1, 2, "Task")])
    document = Document.from_sentences([other, sentence])
    (relation,) = document.relations
    assert relation.status == sentence.status(sentence.triples[0]) == "negated"
    record = document.to_dict()
    assert record["relations"] == [{"head": 3, "tail": 2, "label": "of", "score": 0.8, "status": "negated"}]
    assert Document.from_dict(record) == document
