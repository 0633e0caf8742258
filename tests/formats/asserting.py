"""Assertions about errors that do not depend on their wording."""

from __future__ import annotations

import pytest


def assert_mentions(caught: pytest.ExceptionInfo[BaseException], *data: object) -> None:
    """Assert that the message of a caught error contains these names, numbers and values."""
    missing = [str(each) for each in data if str(each) not in str(caught.value)]
    assert not missing, (missing, str(caught.value))
