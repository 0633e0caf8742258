"""Assertions about errors that do not depend on their wording."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cascade_srn.errors import AnnotationError, DataError
from cascade_srn.formats.registry import DocumentStream
from cascade_srn.types import Document


def assert_mentions(caught: pytest.ExceptionInfo[BaseException], *data: object) -> None:
    """Assert that the message of a caught error contains these names, numbers and values."""
    missing = [str(each) for each in data if str(each) not in str(caught.value)]
    assert not missing, (missing, str(caught.value))


def assert_refused_or_skipped(
    read: Callable[..., DocumentStream], kind: str, expected: Sequence[Document], *data: object
) -> None:
    """Assert that a strict reading names this data in its error, and that a lenient one skips one item of this kind."""
    with pytest.raises((DataError, AnnotationError)) as caught:
        list(read())
    assert_mentions(caught, *data)
    stream = read(strict=False)
    assert list(stream) == list(expected)
    assert stream.report.skipped == {kind: 1}
