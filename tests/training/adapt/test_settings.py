"""Settings that cannot be meant are refused."""

import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.training.adapt import AdaptSettings


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"sequence_pieces": 4}, "sequence_pieces is 4"),
        ({"steps": 0}, "steps is 0"),
        ({"held_out": 0.0}, "held_out is 0.0"),
        ({"masked": 1.0}, "masked is 1.0"),
        ({"precision": "fp16"}, "precision is 'fp16'"),
        ({"max_gradient_norm": 0.0}, "max_gradient_norm is 0.0"),
        ({"accumulation": 33}, "accumulation is 33, .*32 sequences"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"sequence_piece": 8}, "'sequence_piece'.*'sequence_pieces'"),
    ],
)
def test_refused(changes, match):
    with pytest.raises(ConfigError, match=match):
        AdaptSettings.from_dict({"encoder": "x", **changes})


def test_to_and_from_plain_values():
    settings = AdaptSettings(encoder="x", steps=7, precision="bf16")
    assert AdaptSettings.from_dict(settings.to_dict()) == settings
