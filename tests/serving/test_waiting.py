"""The queue before the model: bounds, fairness, batches, dropping."""

import threading
import time

import pytest
from tests.serving.live import until

from cascade_srn.config import Thresholds
from cascade_srn.serving.waiting import SMALLEST_SHARE, QueueClosed, QueueFull, WaitingRoom
from cascade_srn.serving.work import Order, Ticket
from cascade_srn.types import Document, Sentence, Span


def ticket(*texts):
    """A request; each text is the lengths of its sentences."""
    documents = [Document.from_words([["w"] * length for length in lengths]) for lengths in texts]
    return Ticket([Order(document, Thresholds()) for document in documents], 0)


def room(max_texts=10, max_words=100):
    return WaitingRoom(max_texts=max_texts, max_words=max_words)


def lengths(parts):
    """The batch as the lengths of sentences by text."""
    return [[len(example.sentence) for example in part.examples] for part in parts]


def test_whole_texts_while_they_fit():
    waiting = room()
    waiting.put(ticket([3, 2], [4]))
    waiting.put(ticket([6]))
    assert (waiting.n_texts, waiting.n_words) == (3, 15)
    assert lengths(waiting.take(10, wait=0)) == [[3, 2], [4]]
    assert (waiting.n_texts, waiting.n_words) == (1, 6)
    assert lengths(waiting.take(10, wait=0)) == [[6]]
    assert (waiting.n_texts, waiting.n_words) == (0, 0)


def test_a_sentence_longer_than_a_batch_goes_alone():
    waiting = room()
    waiting.put(ticket([50]))
    waiting.put(ticket([2]))
    assert lengths(waiting.take(10, wait=0)) == [[50]]
    assert lengths(waiting.take(10, wait=0)) == [[2]]


def test_sentences_count_by_the_entities_given_with_them_where_these_are_more():
    """As the model has work for each; the queue is still counted in words."""
    words = Sentence.from_words(list("abc"))
    many = words.annotated([Span(0, 1, f"label {number}") for number in range(6)], ())
    order = Order(Document.from_sentences([words, many, many, words]), Thresholds(), given_entities=True)
    waiting = room()
    waiting.put(Ticket([order], 0))
    assert waiting.n_words == 12
    batches = [waiting.take(10, wait=0) for _ in range(2)]
    assert [lengths(parts) for parts in batches] == [[[3, 3]], [[3, 3]]]
    assert [parts[0].weight for parts in batches] == [9, 9]
    assert waiting.n_words == 0
    waiting.put(Ticket([order, order], 0))
    assert lengths(waiting.take(19, wait=0)) == [[3, 3, 3, 3]]


def test_one_long_text_alone_fills_batches():
    waiting = room(max_words=5000)
    waiting.put(ticket([100] * 12))
    assert lengths(waiting.take(1000, wait=0)) == [[100] * 10]
    assert lengths(waiting.take(1000, wait=0)) == [[100] * 2]


def test_a_short_text_does_not_wait_for_a_long_one():
    waiting = room(max_words=5000)
    waiting.put(ticket([100] * 30))
    waiting.put(ticket([5]))
    first = waiting.take(1000, wait=0)
    assert lengths(first) == [[100] * 5, [5]]
    assert waiting.n_texts == 1
    waiting.put(ticket([7]))
    # The rest of the long one stands behind whoever came meanwhile.
    assert lengths(waiting.take(1000, wait=0)) == [[100] * 5, [7]]


def test_nobody_waits_for_those_who_had_their_turn():
    waiting = room(max_words=5000)
    for _ in range(2):
        waiting.put(ticket([SMALLEST_SHARE // 2] * 10))
    waiting.put(ticket([5]))
    assert lengths(waiting.take(2 * SMALLEST_SHARE, wait=0)) == [[SMALLEST_SHARE // 2] * 2] * 2
    assert lengths(waiting.take(2 * SMALLEST_SHARE, wait=0))[0] == [5]


def test_shares_do_not_get_smaller_than_some_words():
    waiting = room(max_words=5000)
    for _ in range(8):
        waiting.put(ticket([20] * 10))
    assert lengths(waiting.take(2 * SMALLEST_SHARE, wait=0)) == [[20] * (SMALLEST_SHARE // 20)] * 2


def test_a_short_request_does_not_wait_for_one_of_many_texts():
    waiting = room(max_texts=100, max_words=5000)
    waiting.put(ticket(*[[50]] * 40))
    waiting.put(ticket([5]))
    assert lengths(waiting.take(1000, wait=0)) == [[50]] * 10 + [[5]]
    assert waiting.n_texts == 30
    assert lengths(waiting.take(1000, wait=0)) == [[50]] * 20


def test_every_sentence_is_taken_once_and_in_order():
    waiting = room(max_words=50_000, max_texts=100)
    tickets = [ticket([n % 7 + 1] * (n + 1), [9]) for n in range(40)]
    for one in tickets:
        waiting.put(one)
    taken = {}
    while waiting.n_texts:
        for part in waiting.take(300, wait=0):
            taken.setdefault(part.job, []).extend(part.examples)
    for one in tickets:
        for job in one.jobs:
            assert all(ours is theirs for ours, theirs in zip(taken[job], job.examples, strict=True))
    assert waiting.n_words == 0


def test_full_of_texts():
    waiting = room(max_texts=3)
    waiting.put(ticket([1], [1]))
    with pytest.raises(QueueFull):
        waiting.put(ticket([1], [1]))
    assert (waiting.n_texts, waiting.n_words) == (2, 2)
    waiting.put(ticket([1]))
    assert waiting.is_full
    waiting.take(1, wait=0)
    assert not waiting.is_full


def test_full_of_words():
    waiting = room(max_words=10)
    waiting.put(ticket([6]))
    with pytest.raises(QueueFull):
        waiting.put(ticket([5]))
    waiting.put(ticket([4]))
    assert waiting.is_full


def test_an_empty_queue_takes_any_request():
    waiting = room(max_texts=1, max_words=5)
    waiting.put(ticket([9], [9], [9]))
    assert waiting.is_full


def test_dropped_texts_are_never_taken():
    waiting = room()
    first, second = ticket([3], [4]), ticket([5])
    waiting.put(first)
    waiting.put(second)
    waiting.drop(first.jobs)
    assert (waiting.n_texts, waiting.n_words) == (1, 5)
    assert lengths(waiting.take(100, wait=0)) == [[5]]


def test_the_rest_of_a_text_is_dropped():
    waiting = room()
    one = ticket([5, 5, 5])
    waiting.put(one)
    waiting.take(5, wait=0)
    waiting.drop(one.jobs)
    assert (waiting.n_texts, waiting.n_words) == (0, 0)


def test_closed_it_hands_out_what_it_has():
    waiting = room()
    waiting.put(ticket([3]))
    waiting.close()
    with pytest.raises(QueueClosed):
        waiting.put(ticket([1]))
    assert lengths(waiting.take(10, wait=0)) == [[3]]
    assert waiting.take(10, wait=0) == []


@pytest.mark.parametrize("end", ["put", "close"])
def test_taking_waits_for_something(end):
    waiting, taken = room(), []
    thread = threading.Thread(target=lambda: taken.append(waiting.take(10, wait=0)))
    thread.start()
    waiting.put(ticket([3])) if end == "put" else waiting.close()
    thread.join()
    assert lengths(taken[0]) == ([[3]] if end == "put" else [])


def test_where_many_ask_a_batch_waits_to_fill():
    waiting, taken = room(), []
    waiting.put(ticket([1], [1]))
    waiting.take(10, wait=0)
    waiting.put(ticket([4]))
    # As long as need be: until ten words are there.
    thread = threading.Thread(target=lambda: taken.append(waiting.take(10, wait=600)))
    thread.start()
    waiting.put(ticket([3]))
    waiting.put(ticket([3]))
    thread.join()
    assert lengths(taken[0]) == [[4], [3], [3]]


def test_a_single_client_never_waits():
    waiting, taken = room(), []
    for _ in range(3):
        waiting.put(ticket([3]))
        thread = threading.Thread(target=lambda: taken.append(waiting.take(10, wait=600)), daemon=True)
        thread.start()
        thread.join(20)
    assert [lengths(batch) for batch in taken] == [[[3]]] * 3


def test_dropping_while_a_batch_waits_to_fill():
    waiting, taken = room(), []
    waiting.put(ticket([1], [1]))
    waiting.take(10, wait=0)
    gone = ticket([4])
    waiting.put(gone)
    thread = threading.Thread(target=lambda: taken.append(waiting.take(10, wait=0.01)))
    thread.start()
    waiting.drop(gone.jobs)
    time.sleep(0.1)  # so that it has waited in vain when something comes
    waiting.put(ticket([12]))
    thread.join()
    assert lengths(taken[0]) == [[12]]
    until(lambda: waiting.n_texts == 0)
