from __future__ import annotations

import pytest
import torch

from cascade_srn.errors import ConfigError
from cascade_srn.network import srn
from cascade_srn.network.srn import SelectionRecurrentCell, SelectionRecurrentNetwork

LENGTHS = torch.tensor([4, 6, 1])


def test_backends_agree() -> None:
    plain = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=True, backend="plain")
    inputs = torch.randn(3, 6, 5)
    for backend in ("auto", "fused"):
        other = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=True, backend=backend)
        other.load_state_dict(plain.state_dict())
        torch.testing.assert_close(other(inputs, LENGTHS), plain(inputs, LENGTHS), rtol=1e-5, atol=1e-6)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'trition'.*'triton'"):
        SelectionRecurrentCell(5, 8, n_tasks=3, backend="trition")


def test_triton_is_refused_if_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srn, "_has_triton", lambda: False)
    cell = SelectionRecurrentCell(5, 8, n_tasks=3, backend="triton")
    with pytest.raises(ConfigError, match="'triton'") as error:
        cell(torch.randn(3, 6, 5), LENGTHS)
    assert error.value.option == "srn_backend"


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_states_keep_the_weights_precision_under_autocast(backend: str) -> None:
    cell = SelectionRecurrentCell(5, 8, n_tasks=3, backend=backend)
    inputs = torch.randn(3, 6, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cell(inputs, LENGTHS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, cell(inputs, LENGTHS), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_half_precision_applies_to_the_projection_only(backend: str) -> None:
    network = SelectionRecurrentNetwork(5, 8, n_tasks=3, bidirectional=True, backend=backend)
    inputs = torch.randn(3, 6, 5)
    found, exact = network(inputs, LENGTHS, bf16=True), network(inputs, LENGTHS)
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, rtol=0.05, atol=0.02)
