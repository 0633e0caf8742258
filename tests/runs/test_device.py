import platform

import pytest
import torch
from threadpoolctl import ThreadpoolController

from cascade_srn.errors import ConfigError
from cascade_srn.runs.device import few_threads, find_device, matmul_precision, one_blas_thread, without_onednn


def with_gpus(monkeypatch, n):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)


@pytest.mark.parametrize(("n", "expected"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_the_gpu_where_there_is_one(monkeypatch, n, expected):
    with_gpus(monkeypatch, n)
    assert find_device("auto") == torch.device(expected)


@pytest.mark.parametrize("name", ["gpu", "tpu9", "cuda:x", ""])
def test_names_that_are_not_a_device(name):
    with pytest.raises(ConfigError, match=f"'{name}'"):
        find_device(name)


@pytest.mark.parametrize("name", ["mps", "meta", "xpu", "xpu:1"])
def test_devices_that_are_not_supported(name):
    with pytest.raises(ConfigError, match=f"'{name}'"):
        find_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_without_a_gpu(monkeypatch, name):
    with_gpus(monkeypatch, 0)
    with pytest.raises(ConfigError, match=f"'{name}'") as caught:
        find_device(name)
    assert caught.value.option == "device"


def test_one_of_several_gpus(monkeypatch):
    with_gpus(monkeypatch, 2)
    assert find_device("cuda") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="'cuda:2'.* 2 GPUs"):
        find_device("cuda:2")


@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("float32", "highest"), ("bf16", "highest")])
def test_matmul_precision(precision, expected):
    assert torch.get_float32_matmul_precision() == "highest"
    with matmul_precision(precision):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(("device", "expected"), [("cuda", 1), ("cpu", 3)])
def test_few_threads(device, expected):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with few_threads(torch.device(device)):
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("machine", "device", "used"), [("aarch64", "cpu", False), ("x86_64", "cpu", True), ("aarch64", "cuda", True)]
)
def test_training_on_arm_does_without_onednn(monkeypatch, machine, device, used):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    before = torch.backends.mkldnn.enabled
    with without_onednn(torch.device(device)):
        assert torch.backends.mkldnn.enabled is (used and before)
    assert torch.backends.mkldnn.enabled is before


def test_one_thread_for_products_of_numpy_until_nobody_needs_it():
    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        before = [library["num_threads"] for library in blas.info()]
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert {library["num_threads"] for library in blas.info()} <= {1}
        second.__exit__(None, None, None)
        assert [library["num_threads"] for library in blas.info()] == before
