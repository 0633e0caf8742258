"""The rule for batch size, steps and rates."""

import math

import pytest

from cascade_srn.training.defaults import (
    FEWEST_STEPS,
    FEWEST_STEPS_ON_GPU,
    FEWEST_STEPS_TO_WAIT_FOR,
    default_training,
)
from cascade_srn.training.settings import TrainingSettings


@pytest.mark.parametrize("n", [0, 1, 3, 10, 16, 20, 49, 50, 51, 100, 400, 401, 1861, 6000, 100_000])
def test_there_are_enough_steps_and_not_too_many(n):
    settings = TrainingSettings(**default_training(n, width=384))
    steps = settings.epochs * math.ceil(max(1, n) / settings.batch_size)
    assert steps >= FEWEST_STEPS
    assert settings.epochs * n <= max(10 * n, 56_000 + n)


def test_batches_grow_with_the_data():
    sizes = [default_training(n, width=384)["batch_size"] for n in range(1, 3000)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (4, 32)


def test_the_last_weights_count_with_a_small_dev():
    assert default_training(20, width=384, n_dev=5)["evaluate_every"] is None
    assert default_training(1000, width=384, n_dev=200)["evaluate_every"] == 3


def test_few_sentences_are_seen_more_often_on_a_gpu():
    few, many = (
        [default_training(n, width=384, is_gpu=is_gpu)["epochs"] for is_gpu in (False, True)] for n in (100, 2000)
    )
    assert few == [30, 60]
    assert many[0] == many[1]


def test_the_fewest_sentences_get_many_small_steps_on_a_gpu():
    cpu, gpu = (default_training(20, width=384, is_gpu=is_gpu) for is_gpu in (False, True))
    assert gpu["epochs"] * 20 / gpu["batch_size"] >= FEWEST_STEPS_ON_GPU > cpu["epochs"] * 20 / cpu["batch_size"]
    assert gpu["encoder_learning_rate"] < cpu["encoder_learning_rate"]
    assert default_training(20, width=768, is_gpu=True)["encoder_learning_rate"] < gpu["encoder_learning_rate"]


def test_who_waits_gets_fewer_steps_with_a_higher_rate_of_labels():
    usual, awaited = (default_training(20, width=384, is_awaited=is_awaited) for is_awaited in (False, True))
    assert FEWEST_STEPS_TO_WAIT_FOR <= awaited["epochs"] * 20 / awaited["batch_size"] < FEWEST_STEPS
    assert awaited["label_learning_rate"] > awaited["learning_rate"] == usual["learning_rate"]
    same_labels = default_training(20, width=384, is_awaited=True, has_new_labels=False)
    assert same_labels.items() == awaited.items() - {("label_learning_rate", awaited["label_learning_rate"])}
    for others in ({"n_sentences": 100}, {"n_sentences": 20, "is_gpu": True}):
        assert default_training(**others, width=384, is_awaited=True) == default_training(**others, width=384)


def test_entities_of_few_sentences_are_swapped():
    assert default_training(100, width=384)["swapping"] > default_training(2000, width=384)["swapping"] == 0


def test_embeddings_of_few_sentences_stay_on_a_cpu():
    chosen = [
        default_training(n, width=384, is_gpu=gpu)["frozen"] for n, gpu in ((20, False), (20, True), (2000, False))
    ]
    assert 0 < chosen[0] < 0.03  # less than a layer of 32
    assert chosen[1:] == [0, 0]
    assert default_training(20, width=384, is_fresh=True)["frozen"] == 0


def test_wide_encoders_learn_more_slowly():
    small, base = (default_training(100, width=width)["encoder_learning_rate"] for width in (384, 768))
    assert base < small


def test_epochs_can_be_given():
    assert default_training(20, width=384, epochs=3)["epochs"] == 3
