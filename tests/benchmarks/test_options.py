"""What the benchmarks refuse to measure."""

import pytest

from cascade_srn.benchmarks.options import ExtractOptions, GrowthOptions, SrnOptions, TrainOptions
from cascade_srn.errors import ConfigError


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (SrnOptions, {"shapes": ((0, 40),)}, "a shape's number of sentences is 0; give a number at least 1"),
        (SrnOptions, {"shapes": ((8, 0),)}, "a shape's number of words is 0"),
        (SrnOptions, {"n_tasks": 1}, "n_tasks is 1; give a number at least 2"),
        (SrnOptions, {"repeats": 0}, "repeats is 0"),
        (ExtractOptions, {"presets": ("swfit",)}, "Did you mean 'swift'"),
        (ExtractOptions, {"presets": ()}, "no fusion preset was named; give one or more of early"),
        (ExtractOptions, {"precision": "fp16"}, "precision is 'fp16', not one of auto"),
        (ExtractOptions, {"batch_sentences": -1}, "batch_sentences is -1"),
        (ExtractOptions, {"model": "m", "encoder": "e"}, "a saved model was given and 'encoder' as well"),
        (ExtractOptions, {"model": "m", "train_steps": 3}, "a saved model was given and 'train_steps' as well"),
        (ExtractOptions, {"train_steps": 3, "given_entities": True}, "both train_steps and given_entities"),
        (TrainOptions, {"batch_sizes": (8, 0)}, "a batch size is 0"),
        (TrainOptions, {"precision": "auto"}, "precision is 'auto', not one of float32, tf32, bf16"),
        (GrowthOptions, {"lengths": (0,)}, "one of the lengths is 0"),
        (GrowthOptions, {"subjects": (64,), "subject_words": 32}, "64 subjects were asked for in a sentence of 32"),
        (GrowthOptions, {"model": "m", "encoder": "e"}, "a saved model was given and 'encoder' as well"),
    ],
)
def test_refused(make, values, message):
    with pytest.raises(ConfigError, match=message):
        make(**values)
