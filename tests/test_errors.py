import pytest

from cascade_srn import errors
from cascade_srn.errors import CascadeError, close_to, did_you_mean


@pytest.mark.parametrize(
    ("received", "known", "expected"),
    [
        ("swif", ["swift", "early"], "Did you mean 'swift'?"),
        ("Compare", ["COMPARE", "USED-FOR"], "Did you mean 'COMPARE'?"),
        ("xyz", ["swift", "early"], "Known: early, swift."),
        ("xyz", [], "Known: none."),
    ],
)
def test_did_you_mean(received, known, expected):
    assert did_you_mean(received, known) == expected


def test_every_error_is_one_kind_that_callers_can_catch():
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(kinds) == 7
    assert all(issubclass(kind, CascadeError) for kind in kinds)
    assert issubclass(CascadeError, ValueError)


def test_the_closest_is_named_once_all_are():
    assert close_to("Pfnn", ["cascade", "pfn"]) == ". Did you mean 'pfn'?"
    assert close_to("xml", ["table", "jsonl"]) == ""
