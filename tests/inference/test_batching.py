import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import SENTENCES, examples, small_model

from cascade_srn.inference.batching import Helpers, group_by_words, run_beside


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


@pytest.fixture
def helpers():
    """Two threads."""
    with ThreadPoolExecutor(2) as threads:
        yield Helpers(threads, 2)


def test_helpers_and_the_caller_work_at_the_same_time(helpers):
    together, callers = threading.Barrier(3, timeout=30), set()

    def run(item, check):
        if item < 3:
            together.wait()
            callers.add(threading.current_thread())
        check()
        return item * 10

    found = list(run_beside(range(6), run, helpers, lambda: None))
    assert found == [(item, item * 10) for item in range(6)]
    assert len(callers) == 3
    assert threading.current_thread() in callers


def test_the_last_item_stays_with_the_caller(helpers):
    [(_, thread)] = run_beside(["alone"], lambda item, check: threading.current_thread(), helpers, lambda: None)
    assert thread is threading.current_thread()


def test_no_items(helpers):
    assert list(run_beside([], lambda item, check: item, helpers, lambda: None)) == []


def test_an_error_of_a_helper_is_raised_in_order(helpers):
    def run(item, check):
        if item == 1:
            raise MemoryError(item)
        return item

    found = run_beside(range(9), run, helpers, lambda: None)
    assert next(found) == (0, 0)
    with pytest.raises(MemoryError):
        list(found)


@pytest.mark.parametrize("item", ["in the caller", "while it waits"])
def test_a_check_that_raises_stops_the_helpers(helpers, item):
    begun, ended = [], []

    def run(item, check):
        if item == "in the caller":
            return item
        begun.append(item)
        try:
            while True:
                check()
        finally:
            ended.append(item)

    def check():
        if {"first", "second"} <= set(begun):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_beside(["first", "second", *[item] * 9], run, helpers, check))
    assert {"first", "second"} <= set(ended)


def test_nobody_waits_for_the_rest(helpers):
    begun = []

    def run(item, check):
        begun.append(item)
        return item

    found = run_beside(count(), run, helpers, lambda: None)
    next(found)
    found.close()
    assert len(begun) < 9
