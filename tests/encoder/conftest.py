from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function that gives the folder of a family's tiny encoder. Tests must not change the folder."""
    written: dict[str, str] = {}

    def folder(family: str) -> str:
        if family not in written:
            written[family] = tiny_encoder(family, tmp_path_factory.mktemp(family))
        return written[family]

    return folder


@pytest.fixture(params=FAMILY_PARAMETERS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def own_folder(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a family's tiny encoder to a folder that the test may damage."""

    def folder(family: str) -> Path:
        return Path(tiny_encoder(family, tmp_path / family))

    return folder
