import pytest
import torch
from torch import nn

from cascade_srn.training.step import AveragedWeights


def _module():
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False))


def test_the_average_matches_its_definition():
    module = _module()
    averaged = AveragedWeights(module, 0.5)
    expected = {name: value.detach().clone() for name, value in module.named_parameters()}
    for step in range(1, 13):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter))
        averaged.update()
        decay = min(0.5, (1 + step) / (10 + step))
        expected = {
            name: decay * expected[name] + (1 - decay) * value.detach() for name, value in module.named_parameters()
        }
    for name, value in averaged.state().items():
        torch.testing.assert_close(value, expected[name])


def _changed(module):
    averaged = AveragedWeights(module, 0.9)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1.0)
    averaged.update()
    return averaged


def test_in_place_gives_the_averages_for_a_block():
    module = _module()
    averaged = _changed(module)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    with averaged.in_place():
        for name, value in module.named_parameters():
            assert torch.equal(value, averaged.state()[name])
            assert not torch.equal(value, before[name])
    assert all(torch.equal(value, before[name]) for name, value in module.named_parameters())


def test_weights_come_back_after_an_error_too():
    module = _module()
    averaged = _changed(module)
    before = module[0].weight.detach().clone()

    def fail():
        with averaged.in_place():
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(module[0].weight, before)


def test_the_module_can_keep_the_averages():
    module = _module()
    averaged = _changed(module)
    averaged.copy_to_module()
    assert all(torch.equal(value, averaged.state()[name]) for name, value in module.named_parameters())


def test_restored_averages_continue_identically():
    module = _module()
    first = _changed(module)
    second = AveragedWeights(module, 0.9)
    second.restore({name: value.clone() for name, value in first.state().items()}, first.n_steps)
    for averaged in (first, second):
        averaged.update()
    assert all(torch.equal(value, second.state()[name]) for name, value in first.state().items())
