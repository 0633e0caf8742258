import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import SENTENCES, examples, small_model

from cascade_srn.inference.batching import group_by_words


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 100))
def test_groups_are_sorted_whole_and_within_the_budget(lengths, budget):
    groups = list(group_by_words(lengths, budget))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(groups)
    in_order = [lengths[i] for group in groups for i in group]
    assert in_order == sorted(lengths, reverse=True)
    for group in groups:
        padded = max(lengths[i] for i in group) * len(group)
        assert padded <= budget or len(group) == 1


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 100))
def test_groups_are_as_large_as_the_budget_allows(lengths, budget):
    groups = list(group_by_words(lengths, budget))
    for group in groups[:-1]:
        assert lengths[group[0]] * (len(group) + 1) > budget


def test_garbage_collection_stops_in_a_prediction_and_goes_on_after_it():
    model, seen = small_model("swift"), []

    def check():
        seen.append(gc.isenabled())
        if len(seen) == 3:
            raise KeyboardInterrupt

    assert gc.isenabled()
    with pytest.raises(KeyboardInterrupt):
        model.predictor(batch_words=1, check=check).predict(examples(SENTENCES))
    assert seen == [False] * 3
    assert gc.isenabled()
