"""Whatever runs the recurrence, the result is the same."""

from __future__ import annotations

import pytest
import torch

from cascade_srn.encoder import srn_kernels as srn_backends
from cascade_srn.encoder.srn import SelectionRecurrentCell, SelectionRecurrentNetwork
from cascade_srn.errors import ConfigError

LENGTHS = torch.tensor([4, 6, 1])


@pytest.mark.parametrize("backend", ["auto", "fused"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_backends_agree(backend: str, bidirectional: bool) -> None:
    plain = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=bidirectional, backend="plain")
    other = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=bidirectional, backend=backend)
    other.load_state_dict(plain.state_dict())
    inputs = torch.randn(3, 6, 5)
    torch.testing.assert_close(other(inputs, LENGTHS), plain(inputs, LENGTHS), rtol=1e-5, atol=1e-6)


def test_a_backend_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"srn_backend is 'trition', not one of .* Did you mean 'triton'\?"):
        SelectionRecurrentCell(5, 8, n_tasks=3, backend="trition")


def test_triton_asked_for_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srn_backends, "_has_triton", lambda: False)
    cell = SelectionRecurrentCell(5, 8, n_tasks=3, backend="triton")
    with pytest.raises(ConfigError, match="srn_backend is 'triton', which is not installed"):
        cell(torch.randn(3, 6, 5), LENGTHS)


@pytest.mark.parametrize("backend", ["auto", "plain", "fused"])
def test_states_keep_the_weights_precision_under_autocast(backend: str) -> None:
    cell = SelectionRecurrentCell(5, 8, n_tasks=3, backend=backend)
    inputs = torch.randn(3, 6, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cell(inputs, LENGTHS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, cell(inputs, LENGTHS), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_half_precision_is_for_the_projection_alone(backend: str) -> None:
    network = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=True, backend=backend)
    inputs = torch.randn(3, 6, 5)
    found, exact = network(inputs, LENGTHS, half=True), network(inputs, LENGTHS)
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.02)
