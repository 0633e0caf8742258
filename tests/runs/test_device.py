import pytest
import torch

from cascade_srn.errors import ConfigError
from cascade_srn.runs.device import find_device


def with_gpus(monkeypatch, n):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)


def test_the_processor():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("n", "expected"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_the_gpu_where_there_is_one(monkeypatch, n, expected):
    with_gpus(monkeypatch, n)
    assert find_device("auto") == torch.device(expected)


@pytest.mark.parametrize("name", ["gpu", "tpu9", "cuda:x", ""])
def test_no_device_at_all(name):
    with pytest.raises(ConfigError, match=f"there is no device '{name}'; give auto, cpu, cuda or cuda:N"):
        find_device(name)


@pytest.mark.parametrize("name", ["mps", "meta", "xpu", "xpu:1"])
def test_devices_that_torch_alone_knows(name):
    with pytest.raises(ConfigError, match=f"'{name}' was asked for, which nothing here runs on; give auto, cpu, cuda"):
        find_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_without_a_gpu(monkeypatch, name):
    with_gpus(monkeypatch, 0)
    with pytest.raises(ConfigError, match=f"'{name}' was asked for, but torch finds no GPU here; give cpu or auto"):
        find_device(name)


def test_one_of_several_gpus(monkeypatch):
    with_gpus(monkeypatch, 2)
    assert find_device("cuda") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="'cuda:2' was asked for, but torch finds 2 GPUs here, counted from 0; give"):
        find_device("cuda:2")
