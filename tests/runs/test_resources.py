import pytest

from cascade_srn.runs import resources
from cascade_srn.runs.resources import available_memory, count_cores


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
