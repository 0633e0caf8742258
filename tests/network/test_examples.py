import pytest

from cascade_srn.network.examples import Example, examples_of
from cascade_srn.types import Document

FIRST = Document.from_words([["a", "b"], ["c"], [], ["d", "e", "f"]])
SECOND = Document.from_words([["x"], ["y", "z"]])


def contexts(context_words):
    return [
        ("".join(e.left), "".join(e.sentence.words), "".join(e.right))
        for e in examples_of([FIRST, SECOND], context_words)
    ]


@pytest.mark.parametrize(
    ("context_words", "expected"),
    [
        # Words on the left, of the sentence, and on the right.
        (0, "|ab| |c| || |def| |x| |yz|"),
        (1, "|ab|c b|c|d c||d c|def| |x|y x|yz|"),
        (2, "|ab|cd ab|c|de bc||de bc|def| |x|yz x|yz|"),
        (9, "|ab|cdef ab|c|def abc||def abc|def| |x|yz x|yz|"),
    ],
)
def test_context_is_the_nearest_words_of_the_same_document(context_words, expected):
    assert contexts(context_words) == [tuple(each.split("|")) for each in expected.split(" ")]


def test_examples_keep_the_order_and_the_sentences():
    found = examples_of(iter([FIRST, SECOND]))
    assert [e.sentence for e in found] == [*FIRST.sentences, *SECOND.sentences]
    assert found[0] == Example(FIRST.sentences[0])
    assert examples_of([]) == []
