import numpy as np
import pytest
from tests.evaluation.saved_models import corpus, saved_model
from tests.inference.test_precision import record

from cascade_srn.errors import ConfigError
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun
from cascade_srn.lab.benchmarks.options import PrecisionOptions
from cascade_srn.lab.benchmarks.precision import Outcome, measure, simulate

GOLD = {"relations": np.full(40, 20)}
FIRST = np.arange(40) < 20


def test_one_half_promises_and_the_other_is_measured():
    found = record(wrong=4)
    assert simulate(found, GOLD, FIRST, {"relations": 0.5}) == Outcome(0.6, 6 / 20)
    assert simulate(found, GOLD, FIRST, {"relations": 0.9}) == Outcome(1.0, 6 / 20)
    assert simulate(found, GOLD, FIRST, {"relations": 0.999}) is None
    # The other half is worse.
    found.relations.correct[found.relations.document >= 20] = 0
    assert simulate(found, GOLD, FIRST, {"relations": 0.9}) == Outcome(0.0, 0.0)


def test_a_short_run():
    options = PrecisionOptions(data=(corpus(),), model=saved_model(), splits=4, relations=(0.5,), entities=(0.1, 0.9))
    rows = measure(options, BenchmarkRun()).rows
    assert [(row["name"], row["level"]) for row in rows] == [
        ("relations", 0.5),
        ("entities", 0.1),
        ("entities", 0.9),
        ("relations with entities 0.1", 0.5),
    ]
    assert rows == measure(options, BenchmarkRun()).rows
    with pytest.raises(ConfigError):
        PrecisionOptions()
