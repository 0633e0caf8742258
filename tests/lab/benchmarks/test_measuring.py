"""Clocks, percentiles and peaks; nothing here asserts how long anything takes."""

import mmap

import torch

from cascade_srn.lab.benchmarks import measuring
from cascade_srn.lab.benchmarks.measuring import Timing, measure_in_turns, peak_memory

CPU = torch.device("cpu")


def test_percentiles_interpolate():
    assert Timing((4.0, 1.0, 3.0, 2.0)).median == 2.5
    assert Timing(tuple(range(101))).percentiles() == {"p50_s": 50, "p95_s": 95, "p99_s": 99}


def test_candidates_take_turns():
    order = []
    timings = measure_in_turns({name: lambda name=name: order.append(name) for name in "ab"}, repeats=3, device=CPU)
    assert "".join(order) == "ab" + 3 * "ab"  # the warm-up first, which does not count
    assert {name: len(timing.times) for name, timing in timings.items()} == {"a": 3, "b": 3}
    assert all(time > 0 for timing in timings.values() for time in timing.times)


def test_the_device_is_waited_for_before_and_after(monkeypatch):
    events = []
    monkeypatch.setattr(measuring, "synchronise", lambda device: events.append("wait"))
    measuring.seconds(lambda: events.append("run"), CPU)
    assert events == ["wait", "run", "wait"]


def test_peak_memory_sees_what_is_freed_again():
    size = 64 * 2**20

    def take():
        # Pages that are new for certain, where a list might be put into memory that was freed before.
        with mmap.mmap(-1, size) as pages:
            pages.write(b"1" * size)

    memory = peak_memory(take, CPU)
    assert memory.kind.startswith("resident set")
    if memory.kind == "resident set":
        assert 0.9 * size <= memory.peak - memory.before < 3 * size
    assert memory.to_dict() == {"peak_bytes": memory.peak, "before_bytes": memory.before, "kind": memory.kind}


def test_without_proc_the_peak_is_that_of_the_process(monkeypatch):
    monkeypatch.setattr(measuring, "_status", lambda field: None)
    memory = peak_memory(list, CPU)
    assert memory.kind == "resident set since start"
    assert memory.peak > 10 * 2**20
