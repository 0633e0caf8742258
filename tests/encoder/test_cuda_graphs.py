"""Recordings of the encoder: the same gradients as without, whatever comes in whatever order. They need a GPU."""

from itertools import pairwise

import pytest
import torch
from tests.small_models import SENTENCES, examples, small_model

from cascade_srn.encoder.cuda_graphs import _NumbersOnDevice
from cascade_srn.training.optimiser import make_optimiser
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import Step


def trained(model, *, cuda_graphs, n_rounds=6, **settings):
    """The gradients of every step of some rounds over batches of different shapes, and the step that took them."""
    for module in model.cascade.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimiser, schedule = make_optimiser(
        model.cascade, learning_rate=1e-3, encoder_learning_rate=1e-4, weight_decay=0, warmup=0, n_steps=1000
    )
    step = Step(model, optimiser, schedule, TrainingSettings(batch_size=4, cuda_graphs=cuda_graphs, **settings))
    model.cascade.train()
    found = []
    batches = [examples(SENTENCES[at : at + 4]) for at in range(0, len(SENTENCES), 4)]
    for number, batch in enumerate(batches * n_rounds):
        step(batch, number)
        found.append({n: p.grad.clone() for n, p in model.cascade.named_parameters() if p.grad is not None})
    return found, step


def assert_same(expected, found):
    for one, other in zip(expected, found, strict=True):
        for name, gradient in one.items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-3, atol=1e-4)


def on_gpu(*args, **kwargs):
    model = small_model(*args, **kwargs)
    model.cascade.to("cuda")
    return model


@pytest.mark.gpu
@pytest.mark.parametrize("model", [("swift", {}), ("early", {}), ("swift", {"method": "pipeline"})])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_gradients_are_those_without_recordings(model, accumulation):
    fusion, settings = model
    expected, _ = trained(on_gpu(fusion, **settings), cuda_graphs=False, accumulation=accumulation)
    found, step = trained(on_gpu(fusion, **settings), cuda_graphs=True, accumulation=accumulation)
    assert all(len(cuda_graphs) for cuda_graphs in step.cuda_graphs)
    assert_same(expected, found)


@pytest.mark.gpu
def test_dropout_is_drawn_anew_each_time_a_recording_is_played():
    model = on_gpu("swift")
    encoder = model.cascade.encoder
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    encoder.train()
    cuda_graphs = encoder.record()
    rows = model.collator.training_batch(examples(SENTENCES[:4])).to("cuda").rows
    read = [encoder(rows).detach().clone() for _ in range(6)]
    assert len(cuda_graphs) == 1
    assert all(not torch.equal(one, other) for one, other in pairwise(read))


@pytest.mark.gpu
def test_what_cannot_be_recorded_is_done_without(monkeypatch):
    model = on_gpu("swift")
    expected, _ = trained(on_gpu("swift"), cuda_graphs=False)
    encoder = model.cascade.encoder
    read = encoder._read

    def waiting(ids, mask):
        # A recording cannot wait for what is still to be computed.
        assert int(ids.sum()) > 0
        return read(ids, mask)

    monkeypatch.setattr(encoder, "_read", waiting)
    with pytest.warns(UserWarning, match="cannot be recorded as a CUDA graph .* training.cuda_graphs=false"):
        found, step = trained(model, cuda_graphs=True)
    assert [len(cuda_graphs) for cuda_graphs in step.cuda_graphs] == [0]
    assert_same(expected, found)


@pytest.mark.gpu
def test_recordings_end_with_training():
    model = on_gpu("swift")
    _, step = trained(model, cuda_graphs=True)
    step.release()
    assert model.cascade.encoder.cuda_graphs is None
    assert not step.cuda_graphs


def test_without_a_gpu_nothing_is_recorded():
    model = small_model()
    _, step = trained(model, cuda_graphs=True, n_rounds=1)
    assert not step.cuda_graphs
    assert model.cascade.encoder.cuda_graphs is None


def test_numbers_become_tensors_where_they_are_wanted():
    with _NumbersOnDevice():
        found = torch.tensor(0.5, dtype=torch.float64), torch.tensor(3), torch.tensor([1, 2])
    assert [tensor.tolist() for tensor in found] == [0.5, 3, [1, 2]]
    assert [tensor.dtype for tensor in found] == [torch.float64, torch.int64, torch.int64]


@pytest.mark.gpu
def test_an_encoder_that_reads_nothing_in_a_step_has_no_gradients():
    encoder = on_gpu("swift").cascade.encoder
    cuda_graphs = encoder.record()
    cuda_graphs.begin_step()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    cuda_graphs.end_step()
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.gpu
def test_an_encoder_that_does_not_learn_is_not_recorded():
    model = on_gpu("swift")
    model.cascade.encoder.requires_grad_(False)
    _, step = trained(model, cuda_graphs=True)
    assert not step.cuda_graphs
