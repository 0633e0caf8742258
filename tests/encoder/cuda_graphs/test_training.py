"""CUDA graphs of the encoder: the same gradients as without, for all shapes and orders. Most tests need a GPU."""

from itertools import pairwise

import pytest
import torch
from tests.small_models import SENTENCES, examples, small_model

from cascade_srn.encoder.cuda_graphs.pool import ScalarsOnDevice
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import Step, make_optimiser


def train(model, *, cuda_graphs, n_rounds=6, **settings):
    """Train without dropout on batches of different shapes. Return the gradients of every step, and the step."""
    for module in model.network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rates = {"learning_rate": 1e-3, "encoder_learning_rate": 1e-4, "weight_decay": 0, "warmup": 0}
    chosen = TrainingSettings(batch_size=4, cuda_graphs=cuda_graphs, **rates, **settings)
    step = Step(model, *make_optimiser(model.network, chosen, 1000), chosen)
    model.network.train()
    gradients = []
    batches = [examples(SENTENCES[first : first + 4]) for first in range(0, len(SENTENCES), 4)]
    for number, batch in enumerate(batches * n_rounds):
        step(batch, number)
        gradients.append({n: p.grad.clone() for n, p in model.network.named_parameters() if p.grad is not None})
    return gradients, step


def assert_same(expected, found):
    for one, other in zip(expected, found, strict=True):
        for name, gradient in one.items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-3, atol=1e-4)


def on_gpu(*args, **kwargs):
    model = small_model(*args, **kwargs)
    model.network.to("cuda")
    return model


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("fusion", "settings", "accumulation"), [("swift", {}, 1), ("early", {}, 2), ("swift", {"method": "pipeline"}, 1)]
)
def test_gradients_are_those_without_graphs(fusion, settings, accumulation):
    expected, _ = train(on_gpu(fusion, **settings), cuda_graphs=False, accumulation=accumulation)
    found, step = train(on_gpu(fusion, **settings), cuda_graphs=True, accumulation=accumulation)
    assert all(len(cuda_graphs) for cuda_graphs in step.cuda_graphs)
    assert_same(expected, found)


@pytest.mark.gpu
def test_each_replay_draws_new_dropout():
    model = on_gpu("swift")
    encoder = model.cascade.encoder
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    encoder.train()
    cuda_graphs = encoder.capture_cuda_graphs()
    rows = model.collator.training_batch(examples(SENTENCES[:4])).to("cuda").rows
    outputs = [encoder(rows).detach().clone() for _ in range(6)]
    assert len(cuda_graphs) == 1
    assert all(not torch.equal(one, other) for one, other in pairwise(outputs))


@pytest.mark.gpu
def test_training_continues_without_graphs_if_a_capture_fails(monkeypatch):
    model = on_gpu("swift")
    expected, _ = train(on_gpu("swift"), cuda_graphs=False)
    encoder = model.cascade.encoder
    read = encoder._read

    def synchronise(ids, mask):
        # A capture cannot wait for the GPU.
        assert int(ids.sum()) > 0
        return read(ids, mask)

    monkeypatch.setattr(encoder, "_read", synchronise)
    with pytest.warns(UserWarning, match=r"training\.cuda_graphs=false"):
        found, step = train(model, cuda_graphs=True)
    assert [len(cuda_graphs) for cuda_graphs in step.cuda_graphs] == [0]
    assert_same(expected, found)


@pytest.mark.gpu
def test_graphs_are_released_after_training():
    model = on_gpu("swift")
    _, step = train(model, cuda_graphs=True)
    step.release()
    assert model.cascade.encoder.cuda_graphs is None
    assert not step.cuda_graphs


def test_there_are_no_graphs_without_a_gpu():
    model = small_model()
    _, step = train(model, cuda_graphs=True, n_rounds=1)
    assert not step.cuda_graphs
    assert model.cascade.encoder.cuda_graphs is None


def test_scalars_become_tensors_of_the_same_value_and_type():
    with ScalarsOnDevice():
        found = torch.tensor(0.5, dtype=torch.float64), torch.tensor(3), torch.tensor([1, 2])
    assert [tensor.tolist() for tensor in found] == [0.5, 3, [1, 2]]
    assert [tensor.dtype for tensor in found] == [torch.float64, torch.int64, torch.int64]


@pytest.mark.gpu
def test_an_encoder_that_is_not_used_in_a_step_has_no_gradients():
    encoder = on_gpu("swift").cascade.encoder
    cuda_graphs = encoder.capture_cuda_graphs()
    cuda_graphs.begin_step()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    cuda_graphs.end_step()
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.gpu
def test_a_frozen_encoder_has_no_graphs():
    model = on_gpu("swift")
    model.cascade.encoder.requires_grad_(False)
    _, step = train(model, cuda_graphs=True)
    assert not step.cuda_graphs
