"""A tiny saved model that finds entities in every text."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.small_models import NO_LIMITS
from tests.twelve_sentences import SCHEMA, WORDS

from cascade_srn.config import ModelSettings, Thresholds
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.extractor import Extractor
from cascade_srn.model.model import Model

_FOLDER = TemporaryDirectory()  # removed when the interpreter ends


@cache
def model_folder() -> str:
    folder = Path(_FOLDER.name)
    encoder = create_encoder(WORDS, folder / "encoder", width=32, n_layers=1, n_heads=2, vocabulary=200)
    settings = ModelSettings.from_dict({"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16})
    settings = replace(settings, thresholds=Thresholds(0.002, 0.002, 0.002), limits=NO_LIMITS)
    Model.create(settings, SCHEMA).save(folder / "model")
    return str(folder / "model")


@cache
def extractor() -> Extractor:
    return Extractor.from_pretrained(model_folder())
