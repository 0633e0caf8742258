"""Compare the SRN with an LSTM of the same widths: forward pass, and forward and backward pass."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Result,
    Timing,
    measure_in_turns,
    milliseconds,
    number,
    text,
)
from cascade_srn.lab.benchmarks.options import SrnOptions
from cascade_srn.network.srn import SelectionRecurrentCell
from cascade_srn.runs.device import find_device

LSTM = "lstm"
PASSES = ("forward", "forward+backward")
# Rounds of do_bench, which itself repeats each call.
DEVICE_ROUNDS = 3

COLUMNS = (
    text("sentences × words", "shape"),
    text("pass", "pass"),
    text("network", "network"),
    milliseconds("call, ms", lambda row: row["call"]["median_s"]),
    number("× LSTM", lambda row: row["call"]["ratio_to_lstm"], "{:.2f}"),
    milliseconds("device, ms", lambda row: row["device"] and row["device"]["median_s"]),
    number("× LSTM", lambda row: row["device"] and row["device"]["ratio_to_lstm"], "{:.2f}"),
)
NOTES = (
    "call: wall time of one synchronised call; device: time on a busy GPU "
    "(triton.testing.do_bench); medians, in float32",
)


def measure(options: SrnOptions, run: BenchmarkRun) -> Result:
    """Time every network that runs on the device, for all shapes and both passes."""
    device = find_device(options.device)
    networks = _networks(options, device)
    with run.collecting():
        for batch, length in options.shapes:
            inputs = torch.randn(batch, length, options.input_width, device=device)
            lengths = torch.full((batch,), length, device=device)
            for which in PASSES:
                calls = {name: _call(network, inputs, lengths, which) for name, network in networks.items()}
                run.rows += _rows(calls, {"shape": f"{batch} × {length}", "pass": which}, options, device, run)
    return run.result("srn", device, options, COLUMNS, NOTES, precision="float32")


def backends(device: torch.device) -> list[str]:
    """Return the implementations of the SRN that run on a device."""
    with_triton = device.type == "cuda" and find_spec("triton") is not None
    return ["plain", "fused", "triton"] if with_triton else ["plain", "fused"]


def _networks(options: SrnOptions, device: torch.device) -> dict[str, nn.Module]:
    widths = options.input_width, options.hidden_width
    found: dict[str, nn.Module] = {LSTM: nn.LSTM(*widths, batch_first=True)}
    for backend in backends(device):
        found[f"srn {backend}"] = SelectionRecurrentCell(*widths, n_tasks=options.n_tasks, backend=backend)
    return {name: network.to(device) for name, network in found.items()}


def _call(network: nn.Module, inputs: Tensor, lengths: Tensor, which: str) -> Callable[[], object]:
    def forward(given: Tensor) -> Tensor:
        outputs: Tensor = network(given)[0] if isinstance(network, nn.LSTM) else network(given, lengths)
        return outputs

    @torch.no_grad()
    def only_forward() -> Tensor:
        return forward(inputs)

    if which == "forward":
        return only_forward
    # As in a model, gradients flow to the weights and to the encoder below.
    learned = inputs.detach().clone().requires_grad_()
    gradient = torch.randn_like(only_forward())

    def both() -> None:
        learned.grad = None
        network.zero_grad(set_to_none=True)
        forward(learned).backward(gradient)

    return both


def _rows(
    calls: dict[str, Callable[[], object]],
    case: dict[str, Any],
    options: SrnOptions,
    device: torch.device,
    run: BenchmarkRun,
) -> list[dict[str, Any]]:
    what = f"{case['shape']}, {case['pass']}"
    walls = measure_in_turns(calls, repeats=options.repeats, warmup=options.warmup, device=device, run=run, what=what)
    kept_busy = None
    if device.type == "cuda" and find_spec("triton") is not None:
        kept_busy = run.part(f"{what}, device times", lambda: _device_times(calls))
    return [
        {
            **case,
            "network": name,
            "call": _compare_with_lstm(walls, name),
            "device": None if kept_busy is None else _compare_with_lstm(kept_busy, name),
        }
        for name in calls
    ]


def _compare_with_lstm(timings: dict[str, Timing], name: str) -> dict[str, Any]:
    return {**timings[name].to_dict(), "ratio_to_lstm": timings[name].median / timings[LSTM].median}


def _device_times(calls: dict[str, Callable[[], object]]) -> dict[str, Timing]:
    from triton.testing import do_bench

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(DEVICE_ROUNDS):
        for name, call in calls.items():
            times[name].append(do_bench(call, return_mode="median") / 1000)
    return {name: Timing(tuple(taken)) for name, taken in times.items()}
