"""Settings that cannot be meant are refused."""

import pytest

from cascade_srn.adapt import AdaptSettings
from cascade_srn.errors import ConfigError


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sequence_pieces": 4}, "sequence_pieces is 4; give a number at least 8"),
        ({"steps": 0}, "steps is 0; give a number at least 1"),
        ({"held_out": 0.0}, "held_out is 0.0; give a number from 0.001 to 0.5"),
        ({"masked": 1.0}, "masked is 1.0; give a number from 0.01 to 0.9"),
        ({"precision": "fp16"}, "precision is 'fp16', not one of float32, tf32, bf16"),
        ({"max_gradient_norm": 0.0}, "max_gradient_norm is 0.0; give a number above 0"),
        ({"accumulation": 33}, "accumulation is 33, but a batch has 32 sequences only"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; give a number at least 0"),
        ({"sequence_piece": 8}, "has no setting 'sequence_piece'. Did you mean 'sequence_pieces'?"),
    ],
)
def test_refused(changes, told):
    with pytest.raises(ConfigError, match=told):
        AdaptSettings.from_dict({"encoder": "x", **changes})


def test_to_and_from_plain_values():
    settings = AdaptSettings(encoder="x", steps=7, precision="bf16")
    assert AdaptSettings.from_dict(settings.to_dict()) == settings
