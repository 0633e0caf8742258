"""Which implementation runs the recurrent part of the SRN; results never depend on it beyond rounding."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.encoder.srn_plain import srn_scan
from cascade_srn.encoder.srn_scan import fused_srn_scan
from cascade_srn.errors import ConfigError


def choose_backend(backend: str, inputs: Tensor, hidden: int, n_tasks: int) -> str:
    """Which of "plain", "fused" and "triton" runs, for inputs of (batch, length, …); "auto" leaves it to us."""
    if backend == "triton" or (backend == "auto" and inputs.is_cuda and _has_triton()):
        if not _has_triton():
            raise ConfigError("srn_backend is 'triton', which is not installed; install triton, or choose 'auto'")
        from cascade_srn.encoder import srn_kernels

        if srn_kernels.covers(inputs, hidden, n_tasks):
            return "triton"
    return "plain" if backend == "plain" else "fused"


def run_scan(
    backend: str,
    projected: Tensor,
    recurrent_weight: Tensor,
    cell_weight: Tensor,
    cell_bias: Tensor,
    n_tasks: int,
    lengths: Tensor,
) -> Tensor:
    """The features of all task sets: tanh of the memories (paper, eq. 10), zero at padding.

    Shapes:
        projected, weights: as of :func:`cascade_srn.encoder.srn_plain.srn_scan`; at padding, "triton" reads
            nothing, and the others want something finite
        lengths: (batch,)
        returns: (batch, length, n_sets, hidden)
    """
    weights = recurrent_weight, cell_weight, cell_bias
    if backend == "triton":
        from cascade_srn.encoder import srn_kernels

        return srn_kernels.triton_srn_scan(projected, *weights, n_tasks, lengths)
    # The others keep their states in the type of the projection.
    projected = projected.to(recurrent_weight.dtype)
    scan = srn_scan if backend == "plain" else fused_srn_scan
    memories = scan(projected, *weights, n_tasks)
    # At padding memories are finite: a product is enough, and one pass.
    return memories.tanh() * padding_mask(lengths, projected.shape[1])[:, :, None, None]


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
