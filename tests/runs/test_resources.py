import os

import pytest
from tests.small_models import small_model

from cascade_srn import Extractor
from cascade_srn.runs import resources
from cascade_srn.runs.resources import (
    available_memory,
    count_cores,
    cpu_instructions,
    cpu_name,
    lacks_bf16,
    may_have_gpu,
)

XEON = "processor\t: 0\nmodel name\t: Some Xeon\nflags\t\t: fpu avx2 avx512f avx512_vnni amx_bf16 sse\n" * 2
OLD_ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd aes asimddp\n\nprocessor\t: 1\n"


def test_this_machine_has_cores_and_memory():
    assert count_cores() >= 1
    assert available_memory() > 0


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"cpu.max": "150000 100000", "memory.max": "1000", "memory.current": "400"}, 1, 600),
        ({"cpu.max": "50000 100000", "memory.max": "max", "memory.current": "400"}, 1, None),
        ({"cpu.max": "max 100000"}, None, None),
        ({}, None, None),
    ],
)
def test_limits_of_containers_count(monkeypatch, tmp_path, files, cores, memory):
    inner = tmp_path / "inner"
    inner.mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    without = count_cores(), 10**15
    monkeypatch.setattr(resources, "_cgroups", lambda controller: [inner, tmp_path])
    import psutil

    class Memory:
        available = 10**15

    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    assert count_cores() == (without[0] if cores is None else cores)
    assert available_memory() == (without[1] if memory is None else memory)


def test_older_containers_have_other_files(monkeypatch, tmp_path):
    (tmp_path / "cpu.cfs_quota_us").write_text("100000")
    (tmp_path / "cpu.cfs_period_us").write_text("100000")
    (tmp_path / "memory.limit_in_bytes").write_text("5000")
    (tmp_path / "memory.usage_in_bytes").write_text("6000")
    monkeypatch.setattr(resources, "_cgroups", lambda controller: [tmp_path])
    assert count_cores() == 1
    assert available_memory() == 0


@pytest.fixture
def described(monkeypatch, tmp_path):
    """Return a function that replaces the description of the processor."""

    def describe(text):
        path = tmp_path / "cpuinfo"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(resources, "_CPU_INFO", path)
        for cached in (cpu_name, cpu_instructions):
            cached.cache_clear()

    yield describe
    for cached in (cpu_name, cpu_instructions):
        cached.cache_clear()


def test_x86(described):
    described(XEON)
    assert cpu_name() == "Some Xeon"
    assert cpu_instructions() == ("avx2", "avx512f", "avx512_vnni", "amx_bf16")
    assert not lacks_bf16()


def test_arm(described):
    described(OLD_ARM)
    assert cpu_name()
    assert cpu_instructions() == ("asimd", "asimddp")
    assert lacks_bf16()


def test_nothing_is_known(described, tmp_path, monkeypatch):
    described("")
    monkeypatch.setattr(resources, "_CPU_INFO", tmp_path / "missing")
    assert cpu_name()
    assert cpu_instructions() == ()
    assert not lacks_bf16()


def test_bf16_without_instructions_is_warned_of(described, tmp_path, recwarn):
    small_model("swift").save(tmp_path / "model")
    described(XEON)
    Extractor.from_pretrained(tmp_path / "model", device="cpu", precision="bf16")
    assert not recwarn
    described(OLD_ARM)
    Extractor.from_pretrained(tmp_path / "model", device="cpu")
    assert not recwarn
    with pytest.warns(UserWarning, match="no bf16 instructions"):
        Extractor.from_pretrained(tmp_path / "model", device="cpu", precision="bf16")


def test_hidden_gpus_are_none(monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert may_have_gpu()
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert not may_have_gpu()
