import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.runtime import device as device_module
from cascade_srn.runtime.device import Slot, choose_slots

GIB = 1 << 30


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that sets cores, memory and GPUs, and one that chooses slots for a model of 100 MB."""
    model = tmp_path / "model"
    model.mkdir()
    with (model / "model.safetensors").open("wb") as handle:
        handle.truncate(100_000_000)

    def choose(
        workers="auto", *, threads=None, cores=8, memory=64 * GIB, devices=("cpu",), gpu_memory=80 * GIB, n_shards=100
    ):
        monkeypatch.setattr(device_module, "count_cores", lambda: cores)
        monkeypatch.setattr(device_module, "available_memory", lambda: memory)
        monkeypatch.setattr(device_module, "find_devices", lambda device, model: list(devices))
        monkeypatch.setattr(device_module, "gpu_memory", lambda device: gpu_memory)
        return choose_slots(workers, "auto", threads, model=model, n_shards=n_shards)

    return choose


def test_auto_uses_all_cores(machine):
    assert machine() == [Slot("cpu", 1)] * 8


def test_auto_respects_memory(machine):
    assert machine(memory=4 * GIB) == [Slot("cpu", 4)] * 2
    assert machine(memory=0) == [Slot("cpu", 8)]


def test_auto_respects_threads(machine):
    assert machine(threads=4) == [Slot("cpu", 4)] * 2
    assert machine(threads=16) == [Slot("cpu", 16)]


def test_auto_uses_each_gpu(machine):
    slots = machine(cores=8, devices=("cuda:0", "cuda:1"))
    assert [slot.device for slot in slots] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


@pytest.mark.parametrize(
    ("given", "n"),
    [
        ({"cores": 16}, 8),
        ({"cores": 64}, 8),
        ({"cores": 1}, 1),
        ({"cores": 16, "threads": 4}, 4),
        ({"cores": 16, "gpu_memory": 8 * GIB}, 2),
        ({"cores": 16, "gpu_memory": 1 * GIB}, 1),
        ({"cores": 16, "memory": 8 * GIB}, 5),
    ],
)
def test_auto_on_one_gpu(machine, given, n):
    assert [slot.device for slot in machine(devices=("cuda:0",), **given)] == ["cuda:0"] * n


def test_workers_share_gpus(machine):
    slots = machine(5, cores=16, devices=("cuda:0", "cuda:1"))
    assert [slot.device for slot in slots] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert {slot.n_threads for slot in slots} == {3}


def test_there_are_no_more_workers_than_shards(machine):
    assert machine(n_shards=2) == [Slot("cpu", 4)] * 2
    assert machine(6, n_shards=1) == [Slot("cpu", 8)]


@pytest.mark.parametrize("workers", [0, -1, 1.5, "many", True])
def test_wrong_numbers_are_refused(machine, workers):
    with pytest.raises(ConfigError) as caught:
        machine(workers)
    assert caught.value.option == "workers"
