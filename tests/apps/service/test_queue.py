"""The request queue: bounds, fairness between small and large requests, batches, dropping."""

import threading

import pytest

from cascade_srn.apps.service.queue import (
    ExtractionItem,
    QueueClosed,
    QueuedRequest,
    QueueFull,
    RequestQueue,
    RequestTooLarge,
)
from cascade_srn.config import Thresholds
from cascade_srn.inference.precision import MinScores
from cascade_srn.network.examples import examples_of
from cascade_srn.types import Document, Span


def make_item(costs, words=1):
    """Make a text whose sentences have ``words`` words each and these costs."""
    document = Document.from_words([["w"] * words for _ in costs])
    return ExtractionItem(document, Thresholds(), examples_of([document]), costs)


def make_request(*texts):
    """Make a request; each text is given by the costs of its sentences."""
    return QueuedRequest([make_item(costs) for costs in texts])


def make_queue(max_texts=10, max_words=100, batch_words=10):
    return RequestQueue(max_texts=max_texts, max_words=max_words, batch_words=batch_words)


def slice_costs(batch):
    """Return the costs of the sentences of a batch by text."""
    return [list(one.item.costs[_begin(one) : _begin(one) + len(one.examples)]) for one in batch.slices]


def _begin(one):
    return next(i for i, example in enumerate(one.item.examples) if example is one.examples[0])


def test_whole_texts_while_they_fit():
    queue = make_queue()
    queue.put(make_request([3, 2], [4]))
    queue.put(make_request([6]))
    assert (queue.n_texts, queue.n_words) == (3, 15)
    assert slice_costs(queue.take(wait=0)) == [[3, 2], [4]]
    assert (queue.n_texts, queue.n_words) == (1, 6)
    assert slice_costs(queue.take(wait=0)) == [[6]]
    assert (queue.n_texts, queue.n_words) == (0, 0)


def test_requests_count_by_cost_and_not_by_words():
    queue = make_queue()
    queue.put(QueuedRequest([make_item([7, 3], words=2)]))
    assert queue.n_words == 10
    batch = queue.take(wait=0)
    assert (sum(one.cost for one in batch.slices), sum(one.n_words for one in batch.slices)) == (10, 4)


def test_a_sentence_larger_than_a_batch_goes_alone_and_is_large():
    queue = make_queue()
    queue.put(make_request([50]))
    queue.put(make_request([2]))
    batches = [queue.take(wait=0) for _ in range(2)]
    assert [slice_costs(batch) for batch in batches] == [[[50]], [[2]]]
    assert [batch.is_large for batch in batches] == [True, False]


def test_large_requests_go_in_slices():
    queue = make_queue()
    queue.slice_words = 4
    queue.put(make_request([2] * 8))
    assert [slice_costs(queue.take(wait=0)) for _ in range(4)] == [[[2, 2]]] * 4
    assert queue.n_texts == 0


def test_small_and_large_requests_take_turns():
    queue = make_queue()
    queue.slice_words = 4
    queue.put(make_request([4] * 4))
    for _ in range(3):
        queue.put(make_request([6]))
    are_large = [queue.take(wait=0).is_large for _ in range(7)]
    assert are_large == [True, False, True, False, True, False, True]


def test_small_requests_are_taken_in_between_without_waiting():
    queue = make_queue()
    queue.put(make_request([50]))
    assert not queue.take_small()
    queue.put(make_request([2]))
    assert slice_costs(queue.take_small()) == [[2]]
    assert slice_costs(queue.take(wait=0)) == [[50]]


def test_a_small_request_that_does_not_fit_any_more_is_first_in_the_next_batch():
    queue = make_queue()
    queue.put(make_request([6]))
    queue.put(make_request([6]))
    queue.put(make_request([1]))
    assert slice_costs(queue.take(wait=0)) == [[6]]
    assert slice_costs(queue.take(wait=0)) == [[6], [1]]


def test_every_sentence_is_taken_once_and_in_order():
    queue = make_queue(max_words=50_000, max_texts=100, batch_words=100)
    queue.slice_words = 30
    requests = [make_request([n % 7 + 1] * (n + 1), [9]) for n in range(40)]
    for request in requests:
        queue.put(request)
    taken = {}
    while queue.n_texts:
        for one in queue.take(wait=0).slices:
            taken.setdefault(one.item, []).extend(one.examples)
    for request in requests:
        for item in request.items:
            assert all(ours is theirs for ours, theirs in zip(taken[item], item.examples, strict=True))
    assert queue.n_words == 0


def test_the_number_of_texts_is_bounded():
    queue = make_queue(max_texts=3)
    queue.put(make_request([1], [1]))
    with pytest.raises(QueueFull):
        queue.put(make_request([1], [1]))
    assert (queue.n_texts, queue.n_words) == (2, 2)
    queue.put(make_request([1]))
    assert queue.is_full
    queue.take(wait=0)
    assert not queue.is_full


def test_the_number_of_words_is_bounded():
    queue = make_queue(max_words=10)
    queue.put(make_request([6]))
    with pytest.raises(QueueFull):
        queue.put(make_request([5]))
    queue.put(make_request([4]))
    assert queue.is_full


@pytest.mark.parametrize("texts", [([9], [9]), ([6],)])
def test_a_request_larger_than_the_queue_is_refused(texts):
    queue = make_queue(max_texts=1, max_words=5)
    with pytest.raises(RequestTooLarge):
        queue.put(make_request(*texts))
    queue.put(make_request([5]))
    assert queue.is_full


def test_dropped_texts_are_never_taken():
    queue = make_queue()
    first, second = make_request([3], [4]), make_request([5])
    queue.put(first)
    queue.put(second)
    queue.drop(first.items)
    assert (queue.n_texts, queue.n_words) == (1, 5)
    assert slice_costs(queue.take(wait=0)) == [[5]]


def test_the_rest_of_a_text_is_dropped():
    queue = make_queue()
    one = make_request([5, 5, 5])
    queue.put(one)
    queue.take(wait=0)
    queue.drop(one.items)
    assert (queue.n_texts, queue.n_words) == (0, 0)


def test_a_closed_queue_hands_out_the_rest():
    queue = make_queue()
    queue.put(make_request([3]))
    queue.close()
    with pytest.raises(QueueClosed):
        queue.put(make_request([1]))
    assert slice_costs(queue.take(wait=0)) == [[3]]
    assert not queue.take(wait=0)


@pytest.mark.parametrize("end", ["put", "close"])
def test_take_waits_for_a_request(end):
    queue, taken = make_queue(), []
    thread = threading.Thread(target=lambda: taken.append(queue.take(wait=0)))
    thread.start()
    queue.put(make_request([3])) if end == "put" else queue.close()
    thread.join()
    assert slice_costs(taken[0]) == ([[3]] if end == "put" else [])


def test_a_batch_waits_to_fill_if_many_clients_are_active():
    queue, taken = make_queue(), []
    queue.put(make_request([1], [1]))
    queue.take(wait=0)
    queue.put(make_request([4]))
    # The timeout is never reached: the batch is full with ten words.
    thread = threading.Thread(target=lambda: taken.append(queue.take(wait=600)))
    thread.start()
    queue.put(make_request([3]))
    queue.put(make_request([3]))
    thread.join()
    assert slice_costs(taken[0]) == [[4], [3], [3]]


def test_a_single_client_never_waits():
    queue, taken = make_queue(), []
    for _ in range(3):
        queue.put(make_request([3]))
        thread = threading.Thread(target=lambda: taken.append(queue.take(wait=600)), daemon=True)
        thread.start()
        thread.join(20)
    assert [slice_costs(batch) for batch in taken] == [[[3]]] * 3


def test_dropping_while_a_batch_waits_to_fill(monkeypatch):
    """The request is dropped while the batch waits, and the next one arrives when the time is over."""
    queue, gone = make_queue(), make_request([4])
    queue.put(make_request([1], [1]))
    queue.take(wait=0)
    queue.put(gone)
    wait_for = queue._changed.wait_for

    def wait(condition, timeout=None):
        if timeout is not None:
            queue.drop(gone.items)
            return False
        if not queue.n_texts:
            queue.put(make_request([12]))
        return wait_for(condition)

    monkeypatch.setattr(queue._changed, "wait_for", wait)
    assert slice_costs(queue.take(wait=600)) == [[12]]
    assert queue.n_texts == 0


def test_only_predictions_with_the_promised_precision_are_returned():
    item = make_item([1, 1])
    item.min_scores = MinScores({"Task": 0.5}, {})
    QueuedRequest([item])
    pairs = zip(item.document.sentences, (0.6, 0.4), strict=True)
    item.found = [sentence.annotated([Span(0, 1, "Task", score)], []) for sentence, score in pairs]
    item.finish()
    assert [entity.score for entity in item.outcome.entities] == [0.6]
