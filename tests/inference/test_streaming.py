from cascade_srn.inference.streaming import split_into_parts
from cascade_srn.types import Document


def test_parts_grow_up_to_a_bound():
    """The first part is small, so that results come soon. The size of the last parts is bounded."""
    # Each document counts as ten words: nine words and one for itself.
    documents = (Document.from_words([["word"] * 9]) for _ in range(200))
    assert [len(part) for part in split_into_parts(documents, 10)] == [1, 2, 4, 8, *[16] * 11, 9]


def test_the_first_part_can_be_large():
    documents = (Document.from_words([["word"] * 9]) for _ in range(40))
    assert [len(part) for part in split_into_parts(documents, 10, n_batches=8)] == [8, 16, 16]


def test_very_long_words_count_by_their_characters():
    documents = (Document.from_words([["w" * 160]]) for _ in range(3))
    assert [len(part) for part in split_into_parts(documents, 10)] == [1, 2]
