"""Implementations of the recurrent part of the SRN. Their results differ only by rounding."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from cascade_srn.errors import ConfigError
from cascade_srn.network.kernels.reference import Packing, srn_scan
from cascade_srn.network.sequence import padding_mask


def choose_backend(backend: str, inputs: Tensor, hidden: int, n_tasks: int) -> str:
    """Return the backend that runs for inputs (batch, length, …): "plain", "fused" or "triton".

    Inputs that "triton" does not support run with "fused".
    """
    if backend == "triton" or (backend == "auto" and inputs.is_cuda and _has_triton()):
        if not _has_triton():
            raise ConfigError(
                "srn_backend is 'triton', but triton is not installed",
                "Install triton, or use 'auto'",
                option="srn_backend",
            )
        from cascade_srn.network.kernels import triton_srn

        if triton_srn.covers(inputs, hidden, n_tasks):
            return "triton"
    return "plain" if backend == "plain" else "fused"


def run_cell(
    backend: str,
    inputs: Tensor,
    lengths: Tensor,
    project: Callable[[Tensor], Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    n_tasks: int,
) -> Tensor:
    """Compute the features of all task sets: tanh of the memories (paper, eq. 10), zero at padding.

    ``project`` maps the vectors of words to the inputs of the gates. States have the precision of ``weights``, also
    under autocast.

    Shapes:
        inputs: (batch, length, input_width), lengths: (batch,)
        weights: as of :func:`cascade_srn.network.kernels.reference.srn_scan`
        returns: (batch, length, n_sets, hidden)
    """
    if backend == "fused" and not torch.is_grad_enabled() and inputs.device.type == "cpu":
        return _infer(inputs, lengths, project, weights, n_tasks)
    if backend == "fused":
        from cascade_srn.network.kernels.fused import fused_srn_scan

        packing = Packing(lengths, inputs.shape[1])
        projected = project(packing.pack(inputs))
        with torch.autocast(inputs.device.type, enabled=False):
            memories = fused_srn_scan(projected.to(weights[0].dtype), *weights, n_tasks, packing.counts)
            return packing.unpack(memories.tanh())
    if backend != "triton" or torch.is_grad_enabled():
        # Padding may hold any value, even NaN, which must not reach a weight or its gradient.
        inputs = torch.where(padding_mask(lengths, inputs.shape[1])[:, :, None], inputs, 0.0)
    projected = project(inputs)
    with torch.autocast(inputs.device.type, enabled=False):
        if backend == "triton":
            from cascade_srn.network.kernels import triton_srn

            return triton_srn.triton_srn_scan(projected, *weights, n_tasks, lengths)
        memories = srn_scan(projected.to(weights[0].dtype), *weights, n_tasks)
        return memories.tanh() * padding_mask(lengths, inputs.shape[1])[:, :, None, None]


def _infer(
    inputs: Tensor,
    lengths: Tensor,
    project: Callable[[Tensor], Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    n_tasks: int,
) -> Tensor:
    """Compute the same without gradients on a CPU."""
    from cascade_srn.network.kernels.inference import inference_srn_scan

    packing = Packing(lengths, inputs.shape[1])
    projected = project(packing.pack(inputs))
    with torch.autocast("cpu", enabled=False):
        memories = inference_srn_scan(projected.to(weights[0].dtype), *weights, n_tasks, packing.counts)
        return packing.spread(memories.tanh_())


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
