"""Steps on hidden words: what is learned, what is measured, and how batches are divided."""

import math
from copy import deepcopy
from functools import cache

import pytest
import torch
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder
from tests.training.adapt.fields import documents, small_settings

from cascade_srn.encoder.pretrained import load_tokenizer
from cascade_srn.errors import CascadeError
from cascade_srn.training.adapt.loop import AdaptLoop
from cascade_srn.training.adapt.network import Masking, load_network
from cascade_srn.training.adapt.packing import pack


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    # No dropout: then nothing but the division of a batch is different.
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.05}
    return tiny_encoder("bert", tmp_path_factory.mktemp("bert"), **rates)


@cache
def _load(encoder, n_pieces, held_out):
    """Return what loops over the same text share: the tokenizer, the text, and a network to copy."""
    tokenizer = load_tokenizer(encoder)
    packed = pack(documents(150), tokenizer, n_pieces=n_pieces, held_out=held_out)
    return tokenizer, packed, load_network(encoder, seed=0)


def make_loop(encoder, **changes):
    settings = small_settings(encoder, **changes)
    tokenizer, packed, network = _load(encoder, settings.sequence_pieces, settings.held_out)
    return AdaptLoop(deepcopy(network), packed, Masking(tokenizer, share=settings.masked), settings)


def _weights(loop):
    return {name: value.clone() for name, value in loop.network.named_parameters()}


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_the_held_out_text_becomes_less_surprising(family, tmp_path):
    name = tiny_encoder(family, tmp_path, initializer_range=0.05)
    told = list(make_loop(name, steps=25, learning_rate=5e-3, log_steps=25))
    assert [progress.step for progress in told] == [0, 25]
    assert told[-1].perplexity < 0.8 * told[0].perplexity


def test_when_something_is_told(encoder):
    told = list(make_loop(encoder, steps=9, log_steps=4, evaluate_steps=3, save_steps=5))
    assert [progress.step for progress in told] == [0, 3, 4, 5, 6, 8, 9]
    assert [progress.step for progress in told if progress.perplexity is not None] == [0, 3, 6, 9]
    assert [progress.step for progress in told if progress.save] == [5]
    assert [progress.finished for progress in told] == [False] * 6 + [True]
    assert told[0].loss is None
    assert all(progress.loss > 0 for progress in told[1:])
    assert told[-1].seconds_left == 0


def test_epochs_and_steps(encoder):
    by_epochs = make_loop(encoder, steps=None, epochs=2, batch_size=100)
    assert by_epochs.n_steps == 2 * (len(by_epochs.packed.train) // 100)
    told = list(by_epochs)
    assert told[-1].epoch == 2
    assert make_loop(encoder, steps=3, epochs=2).n_steps == 3
    # A batch is never larger than the text.
    assert make_loop(encoder, steps=None, epochs=2, batch_size=100_000).n_steps == 2


def test_every_epoch_has_another_order_and_hides_other_words(encoder):
    loop = make_loop(encoder)
    loop.n_batches, loop.batch_size = 1, len(loop.packed.train)
    first = loop._batch()
    order = loop._order[1]
    loop.go_to(1, seconds=0.0)
    second = loop._batch()
    assert _restored(first) != _restored(second)
    assert sorted(_restored(first)) == sorted(_restored(second))
    # In the same order, other words are hidden all the same.
    loop._order = (1, order)
    assert _restored(loop._batch()) == _restored(first)
    assert loop._batch().hidden.tolist() != first.hidden.tolist()
    loop.go_to(0, seconds=0.0)
    assert torch.equal(loop._batch().ids, first.ids)


def _restored(batch):
    ids = batch.ids.clone()
    ids.view(-1)[batch.hidden] = batch.targets
    return ids.tolist()


def test_a_batch_in_parts_is_the_same_step(encoder):
    # One step by gradients only: where a gradient is zero but for rounding, Adam makes a step of the rounding.
    gradients = []
    for accumulation in (1, 3):
        loop = make_loop(encoder, accumulation=accumulation, max_gradient_norm=1e9)
        loop._take_step(loop._batch())
        gradients.append({name: p.grad for name, p in loop.network.named_parameters() if p.grad is not None})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-6)


def test_gradients_are_those_of_the_mean_loss_and_clipped(encoder):
    loop = make_loop(encoder, max_gradient_norm=1e9)
    batch = loop._batch()
    everywhere = loop.network.model(input_ids=batch.ids).logits.flatten(0, 1)
    torch.nn.functional.cross_entropy(everywhere[batch.hidden], batch.targets).backward()
    expected = {name: p.grad.clone() for name, p in loop.network.named_parameters() if p.grad is not None}
    norm = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
    for highest, factor in ((1e9, 1.0), (float(norm) / 4, 0.25)):
        loop = make_loop(encoder, max_gradient_norm=highest)
        loop._take_step(loop._batch())
        for name, parameter in loop.network.named_parameters():
            if name in expected:
                torch.testing.assert_close(parameter.grad, factor * expected[name], rtol=1e-4, atol=1e-6)


def test_the_loss_is_the_mean_over_hidden_pieces(encoder):
    loop = make_loop(encoder, learning_rate=0.0, log_steps=1, steps=1)
    batch = loop._batch()
    with torch.no_grad():
        everywhere = loop.network.model(input_ids=batch.ids).logits.flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(everywhere[batch.hidden], batch.targets)
    assert list(loop)[-1].loss == pytest.approx(float(expected), rel=1e-5)


def test_perplexity_does_not_depend_on_batches_or_seeds(encoder):
    measured = [next(iter(make_loop(encoder, **change))).perplexity for change in ({}, {"batch_size": 3}, {"seed": 9})]
    assert measured[1] == pytest.approx(measured[0], rel=1e-5)
    assert measured[2] == pytest.approx(measured[0], rel=1e-5)


def test_perplexity_of_guessing_at_random_is_the_size_of_the_vocabulary(encoder):
    loop = make_loop(encoder)
    with torch.no_grad():
        for parameter in loop.network.parameters():
            parameter.zero_()
    assert next(iter(loop)).perplexity == pytest.approx(len(load_tokenizer(encoder)), rel=1e-5)


def test_rates_rise_and_fall(encoder):
    told = list(make_loop(encoder, steps=10, log_steps=1, warmup=0.2, learning_rate=1e-3))
    rates = [progress.learning_rate for progress in told[1:]]
    assert rates == pytest.approx([5e-4, 1e-3, *(1e-3 * left / 8 for left in range(8, 0, -1))])


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_other_precisions(encoder, precision):
    told = list(make_loop(encoder, precision=precision))
    exact = list(make_loop(encoder))
    assert told[-1].perplexity == pytest.approx(exact[-1].perplexity, rel=0.05)


def test_a_loss_that_is_no_number(encoder):
    loop = make_loop(encoder)
    with torch.no_grad():
        next(loop.network.parameters()).fill_(math.nan)
    with pytest.raises(CascadeError, match="loss .*step 2"):
        list(loop)


def test_too_little_memory(encoder, monkeypatch):
    loop = make_loop(encoder)

    def full(**arguments):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(loop.network.model, "forward", full)
    with pytest.raises(CascadeError, match="8 sequences of 16 pieces"):
        loop._steps_until_due()


def test_biases_are_not_decayed(encoder):
    loop = make_loop(encoder)
    decayed, rest = loop.optimiser.param_groups
    assert {p.ndim for p in rest["params"]} == {1}
    assert rest["weight_decay"] == 0
    assert decayed["weight_decay"] == 0.01
    assert len(decayed["params"]) + len(rest["params"]) == len(_weights(loop))


def test_a_new_head_learns_alone_at_first(encoder):
    loop = make_loop(encoder, steps=2, head_steps=3, log_steps=1)
    assert loop.network.new_head
    assert (loop.n_head_steps, loop.n_steps) == (3, 5)
    encoder_weights = {id(parameter) for parameter in loop.network.encoder_parameters()}
    names = {name for name, parameter in loop.network.named_parameters() if id(parameter) in encoder_weights}
    before, told = _weights(loop), []
    for progress in loop:
        told.append(progress)
        after = _weights(loop)
        changed = {name for name in after if not torch.equal(after[name], before[name])}
        if progress.step in (1, 2, 3):
            assert changed
            assert not changed & names
            assert progress.learning_rate == pytest.approx(10 * loop.settings.learning_rate)
        elif progress.step == 5:
            assert changed & names
    # Before anything, when the head has learned, and at the end.
    assert [progress.step for progress in told if progress.perplexity is not None] == [0, 3, 5]


def test_a_head_that_comes_with_the_checkpoint_has_no_steps_of_its_own(encoder, tmp_path):
    first = make_loop(encoder, steps=1, head_steps=1)
    list(first)
    first.network.save(tmp_path, encoder=encoder)
    again = make_loop(str(tmp_path), steps=2, head_steps=3)
    assert not again.network.new_head
    assert (again.n_head_steps, again.n_steps) == (0, 2)
