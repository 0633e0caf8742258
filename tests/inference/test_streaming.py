from cascade_srn.inference.streaming import parts
from cascade_srn.types import Document


def test_parts_grow_up_to_a_bound():
    """The first one is small, so that its results come soon, and memory holds the last one however many follow."""
    # Each counts as its nine words and one more.
    documents = (Document.from_words([["word"] * 9]) for _ in range(200))
    assert [len(part) for part in parts(documents, 10)] == [1, 2, 4, 8, *[16] * 11, 9]


def test_very_long_words_count_by_their_characters():
    documents = (Document.from_words([["w" * 160]]) for _ in range(3))
    assert [len(part) for part in parts(documents, 10)] == [1, 2]
