import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation import Spread


def test_by_hand():
    # Mean 0.684; deviations -0.004, 0, 0.004: squares sum to 3.2e-5, divided by n - 1 = 2, root 0.004.
    spread = Spread.of([0.680, 0.684, 0.688])
    assert spread.mean == pytest.approx(0.684)
    assert spread.sd == pytest.approx(0.004)
    assert spread.n == 3
    assert str(spread) == "68.4 ± 0.4"


def test_one_value_has_no_deviation():
    spread = Spread.of([0.5])
    assert (spread.mean, spread.sd, spread.n) == (0.5, None, 1)
    assert str(spread) == "50.0"
    assert spread.to_dict() == {"mean": 0.5, "sd": None, "n": 1}


def test_equal_values_have_a_deviation_of_zero():
    assert str(Spread.of([0.5, 0.5])) == "50.0 ± 0.0"


def test_a_difference_may_be_negative():
    assert str(Spread.of([-0.01, -0.03])) == "-2.0 ± 1.4"


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6))
def test_equals_the_exact_formulas(values):
    spread = Spread.of(iter(values))
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.sd == pytest.approx(statistics.stdev(values), abs=1e-12)
    assert json.loads(json.dumps(spread.to_dict())) == spread.to_dict()


@pytest.mark.parametrize("value", [68.5, 1.01, -1.5, float("nan"), float("inf")])
def test_percentages_are_refused(value):
    with pytest.raises(ConfigError, match=f"{value:g}"):
        Spread.of([0.5, value])


def test_no_values():
    with pytest.raises(ConfigError):
        Spread.of([])
