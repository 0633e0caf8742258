"""Kinds of entity errors: by hand, and exactly one kind for each error."""

import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, aligned, any_pairs, some

from cascade_srn.evaluation import score
from cascade_srn.evaluation.errors import ENTITY_KINDS, count_entity_errors, find_entity_errors
from cascade_srn.types import Sentence, Span

GOLD = Sentence.from_words(list("abcdefgh"), [Span(2, 5, "A")])


@pytest.mark.parametrize(
    ("predicted", "wrong", "missed"),
    [
        ([], [], ["missed"]),
        ([Span(2, 5, "A")], [], []),
        ([Span(2, 5, "B")], ["wrong-type"], ["type-missed"]),
        ([Span(2, 5, "A"), Span(2, 5, "B")], ["wrong-type"], []),
        ([Span(2, 4, "A")], ["wrong-boundaries"], ["boundaries-missed"]),
        ([Span(4, 7, "B")], ["wrong-boundaries"], ["boundaries-missed"]),
        ([Span(3, 4, "A"), Span(2, 5, "B")], ["wrong-type", "wrong-boundaries"], ["type-missed"]),
        ([Span(0, 2, "A")], ["spurious"], ["missed"]),
        ([Span(5, 6, "A")], ["spurious"], ["missed"]),
    ],
)
def test_by_hand(predicted, wrong, missed):
    found = find_entity_errors(GOLD, GOLD.annotated(predicted, ()))
    assert list(found["predicted"].values()) == wrong
    assert list(found["gold"].values()) == missed


@some
@given(any_pairs)
def test_each_error_has_exactly_one_kind(pairs):
    sides = {kind.kind: kind.side for kind in ENTITY_KINDS}
    for gold, predicted in pairs:
        found = find_entity_errors(gold, predicted)
        assert set(found["predicted"]) == set(predicted.entities) - set(gold.entities)
        assert set(found["gold"]) == set(gold.entities) - set(predicted.entities)
        for side, kinds in found.items():
            assert all(sides[kind] == side for kind in kinds.values())
    whole = score([a for a, _ in pairs], [b for _, b in pairs], schema=SCHEMA).ner.counts
    record = count_entity_errors(aligned(pairs), schema=SCHEMA).to_dict()
    assert record["protocol"] == "ner"
    assert record["n_wrong"] == whole.n_predicted - whole.n_correct
    assert record["n_missed"] == whole.n_gold - whole.n_correct
    assert sum(kind["n"] for kind in record["kinds"]) == record["n_errors"]
    assert all(sum(kind["per_label"].values()) == kind["n"] for kind in record["kinds"])
