import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.lab.benchmarks.options import (
    CorpusOptions,
    ExtractOptions,
    GrowthOptions,
    RuntimesOptions,
    SrnOptions,
    TrainOptions,
)


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (SrnOptions, {"shapes": ((0, 40),)}, "shapes is 0"),
        (SrnOptions, {"n_tasks": 1}, "n_tasks is 1"),
        (SrnOptions, {"repeats": 0}, "repeats is 0"),
        (RuntimesOptions, {"models": ()}, "models is empty"),
        (RuntimesOptions, {"precisions": ("int8",)}, "precision is 'int8'"),
        (ExtractOptions, {"presets": ("swfit",)}, "swift"),
        (ExtractOptions, {"presets": ()}, "presets"),
        (ExtractOptions, {"precision": "fp16"}, "precision is 'fp16'"),
        (ExtractOptions, {"batch_sentences": -1}, "batch_sentences is -1"),
        (ExtractOptions, {"model": "m", "encoder": "e"}, "model and .*encoder"),
        (ExtractOptions, {"model": "m", "train_steps": 3}, "model and train_steps"),
        (ExtractOptions, {"train_steps": 3, "given_entities": True}, "train_steps and given_entities"),
        (TrainOptions, {"batch_sizes": (8, 0)}, "batch_sizes is 0"),
        (TrainOptions, {"precision": "auto"}, "precision is 'auto'"),
        (GrowthOptions, {"lengths": (0,)}, "one of the lengths is 0"),
        (GrowthOptions, {"subjects": (64,), "subject_words": 32}, "subjects is 64.* 32 words"),
        (GrowthOptions, {"model": "m", "encoder": "e"}, "model and .*encoder"),
        (CorpusOptions, {"splits": ()}, "splits"),
        (CorpusOptions, {"splits": ("2x1", "1x2")}, "splits is '2x1,1x2'"),
        (CorpusOptions, {"splits": ("1x2", "2")}, "splits is '1x2,2'"),
        (CorpusOptions, {"splits": ("1x0",)}, "splits is '1x0'"),
        (CorpusOptions, {"factors": (0,)}, "factors is 0"),
        (CorpusOptions, {"documents": 0}, "documents is 0"),
    ],
)
def test_refused(make, values, message):
    with pytest.raises(ConfigError, match=message):
        make(**values)
