"""Which implementation runs the recurrent part of the SRN; results never depend on it beyond rounding."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import Tensor

from cascade_srn.encoder.srn_plain import srn_scan
from cascade_srn.encoder.srn_scan import fused_srn_scan
from cascade_srn.errors import ConfigError


def run_scan(
    backend: str,
    projected: Tensor,
    recurrent_weight: Tensor,
    cell_weight: Tensor,
    cell_bias: Tensor,
    n_tasks: int,
    lengths: Tensor,
) -> Tensor:
    """The memories of all time steps; at padding they are anything finite.

    Shapes: as of :func:`cascade_srn.encoder.srn_plain.srn_scan`; lengths: (batch,)
    """
    weights = recurrent_weight, cell_weight, cell_bias
    if backend == "triton" or (backend == "auto" and projected.is_cuda and _has_triton()):
        if not _has_triton():
            raise ConfigError("srn_backend is 'triton', which is not installed; install triton, or choose 'auto'")
        from cascade_srn.encoder import srn_kernels

        if srn_kernels.covers(projected, recurrent_weight.shape[0], n_tasks):
            return srn_kernels.triton_srn_scan(projected, *weights, n_tasks, lengths)
    # The others keep their states in the type of the projection.
    projected = projected.to(recurrent_weight.dtype)
    if backend == "plain":
        return srn_scan(projected, *weights, n_tasks)
    return fused_srn_scan(projected, *weights, n_tasks)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
