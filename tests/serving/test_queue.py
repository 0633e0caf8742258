"""The request queue: bounds, fairness between small and large requests, batches, dropping."""

import threading
import time

import pytest
from tests.serving.live import until

from cascade_srn.config import Thresholds
from cascade_srn.data.examples import examples_of
from cascade_srn.serving.queue import LONG_SENTENCE, Order, QueueClosed, QueueFull, RequestTooLarge, Ticket, WaitingRoom
from cascade_srn.types import Document


def order(costs, words=1):
    """A text whose sentences have ``words`` words each and these costs."""
    document = Document.from_words([["w"] * words for _ in costs])
    return Order(document, Thresholds(), examples_of([document]), costs)


def ticket(*texts):
    """A request; each text is the costs of its sentences."""
    return Ticket([order(costs) for costs in texts])


def room(max_texts=10, max_words=100, batch_words=10):
    return WaitingRoom(max_texts=max_texts, max_words=max_words, batch_words=batch_words)


def costs(batch):
    """The batch as the costs of sentences by text."""
    return [list(part.job.order.costs[_begin(part) : _begin(part) + len(part.examples)]) for part in batch.parts]


def _begin(part):
    return next(i for i, example in enumerate(part.job.order.examples) if example is part.examples[0])


def test_whole_texts_while_they_fit():
    waiting = room()
    waiting.put(ticket([3, 2], [4]))
    waiting.put(ticket([6]))
    assert (waiting.n_texts, waiting.n_words) == (3, 15)
    assert costs(waiting.take(wait=0)) == [[3, 2], [4]]
    assert (waiting.n_texts, waiting.n_words) == (1, 6)
    assert costs(waiting.take(wait=0)) == [[6]]
    assert (waiting.n_texts, waiting.n_words) == (0, 0)


def test_requests_count_by_cost_and_not_by_words():
    waiting = room()
    waiting.put(Ticket([order([7, 3], words=2)]))
    assert waiting.n_words == 10
    batch = waiting.take(wait=0)
    assert (sum(part.cost for part in batch.parts), sum(part.n_words for part in batch.parts)) == (10, 4)


def test_a_sentence_larger_than_a_batch_goes_alone_and_is_large():
    waiting = room()
    waiting.put(ticket([50]))
    waiting.put(ticket([2]))
    batches = [waiting.take(wait=0) for _ in range(2)]
    assert [costs(batch) for batch in batches] == [[[50]], [[2]]]
    assert [batch.is_large for batch in batches] == [True, False]


def test_a_request_with_a_very_long_sentence_is_large_even_if_it_fits_into_a_batch():
    waiting = room(max_words=1000, batch_words=500)
    waiting.put(ticket([LONG_SENTENCE], [LONG_SENTENCE]))
    waiting.put(ticket([LONG_SENTENCE + 1]))
    assert [waiting.take(wait=0).is_large for _ in range(2)] == [True, False]


def test_large_requests_go_in_slices():
    waiting = room()
    waiting.slice_words = 4
    waiting.put(ticket([2] * 8))
    assert [costs(waiting.take(wait=0)) for _ in range(4)] == [[[2, 2]]] * 4
    assert waiting.n_texts == 0


def test_small_and_large_requests_take_turns():
    waiting = room()
    waiting.slice_words = 4
    waiting.put(ticket([4] * 4))
    for _ in range(3):
        waiting.put(ticket([6]))
    kinds = [waiting.take(wait=0).is_large for _ in range(7)]
    assert kinds == [True, False, True, False, True, False, True]


def test_large_requests_take_turns_with_each_other():
    waiting = room()
    waiting.slice_words = 4
    first, second = ticket([4] * 3), ticket([4] * 3)
    waiting.put(first)
    waiting.put(second)
    owners = [waiting.take(wait=0).parts[0].job.ticket for _ in range(4)]
    assert owners == [first, second, first, second]


def test_small_requests_are_taken_in_between_without_waiting():
    waiting = room()
    waiting.put(ticket([50]))
    assert not waiting.take_small()
    waiting.put(ticket([2]))
    assert costs(waiting.take_small()) == [[2]]
    assert costs(waiting.take(wait=0)) == [[50]]


def test_a_small_request_that_does_not_fit_any_more_is_first_in_the_next_batch():
    waiting = room()
    waiting.put(ticket([6]))
    waiting.put(ticket([6]))
    waiting.put(ticket([1]))
    assert costs(waiting.take(wait=0)) == [[6]]
    assert costs(waiting.take(wait=0)) == [[6], [1]]


def test_every_sentence_is_taken_once_and_in_order():
    waiting = room(max_words=50_000, max_texts=100, batch_words=100)
    waiting.slice_words = 30
    tickets = [ticket([n % 7 + 1] * (n + 1), [9]) for n in range(40)]
    for one in tickets:
        waiting.put(one)
    taken = {}
    while waiting.n_texts:
        for part in waiting.take(wait=0).parts:
            taken.setdefault(part.job, []).extend(part.examples)
    for one in tickets:
        for job in one.jobs:
            assert all(ours is theirs for ours, theirs in zip(taken[job], job.order.examples, strict=True))
    assert waiting.n_words == 0


def test_full_of_texts():
    waiting = room(max_texts=3)
    waiting.put(ticket([1], [1]))
    with pytest.raises(QueueFull):
        waiting.put(ticket([1], [1]))
    assert (waiting.n_texts, waiting.n_words) == (2, 2)
    waiting.put(ticket([1]))
    assert waiting.is_full
    waiting.take(wait=0)
    assert not waiting.is_full


def test_full_of_words():
    waiting = room(max_words=10)
    waiting.put(ticket([6]))
    with pytest.raises(QueueFull):
        waiting.put(ticket([5]))
    waiting.put(ticket([4]))
    assert waiting.is_full


@pytest.mark.parametrize("texts", [([9], [9]), ([6],)])
def test_a_request_larger_than_the_queue_is_refused(texts):
    waiting = room(max_texts=1, max_words=5)
    with pytest.raises(RequestTooLarge):
        waiting.put(ticket(*texts))
    waiting.put(ticket([5]))
    assert waiting.is_full


def test_dropped_texts_are_never_taken():
    waiting = room()
    first, second = ticket([3], [4]), ticket([5])
    waiting.put(first)
    waiting.put(second)
    waiting.drop(first.jobs)
    assert (waiting.n_texts, waiting.n_words) == (1, 5)
    assert costs(waiting.take(wait=0)) == [[5]]


def test_the_rest_of_a_text_is_dropped():
    waiting = room()
    one = ticket([5, 5, 5])
    waiting.put(one)
    waiting.take(wait=0)
    waiting.drop(one.jobs)
    assert (waiting.n_texts, waiting.n_words) == (0, 0)


def test_closed_it_hands_out_what_it_has():
    waiting = room()
    waiting.put(ticket([3]))
    waiting.close()
    with pytest.raises(QueueClosed):
        waiting.put(ticket([1]))
    assert costs(waiting.take(wait=0)) == [[3]]
    assert not waiting.take(wait=0)


@pytest.mark.parametrize("end", ["put", "close"])
def test_taking_waits_for_something(end):
    waiting, taken = room(), []
    thread = threading.Thread(target=lambda: taken.append(waiting.take(wait=0)))
    thread.start()
    waiting.put(ticket([3])) if end == "put" else waiting.close()
    thread.join()
    assert costs(taken[0]) == ([[3]] if end == "put" else [])


def test_where_many_ask_a_batch_waits_to_fill():
    waiting, taken = room(), []
    waiting.put(ticket([1], [1]))
    waiting.take(wait=0)
    waiting.put(ticket([4]))
    # As long as need be: until ten words are there.
    thread = threading.Thread(target=lambda: taken.append(waiting.take(wait=600)))
    thread.start()
    waiting.put(ticket([3]))
    waiting.put(ticket([3]))
    thread.join()
    assert costs(taken[0]) == [[4], [3], [3]]


def test_a_single_client_never_waits():
    waiting, taken = room(), []
    for _ in range(3):
        waiting.put(ticket([3]))
        thread = threading.Thread(target=lambda: taken.append(waiting.take(wait=600)), daemon=True)
        thread.start()
        thread.join(20)
    assert [costs(batch) for batch in taken] == [[[3]]] * 3


def test_dropping_while_a_batch_waits_to_fill():
    waiting, taken = room(), []
    waiting.put(ticket([1], [1]))
    waiting.take(wait=0)
    gone = ticket([4])
    waiting.put(gone)
    thread = threading.Thread(target=lambda: taken.append(waiting.take(wait=0.01)))
    thread.start()
    waiting.drop(gone.jobs)
    time.sleep(0.1)  # so that it has waited in vain when something comes
    waiting.put(ticket([12]))
    thread.join()
    assert costs(taken[0]) == [[12]]
    until(lambda: waiting.n_texts == 0)
