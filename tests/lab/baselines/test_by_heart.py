"""Every baseline overfits twelve sentences, except annotations that it cannot represent."""

import pytest
from tests.twelve_sentences import DOCUMENTS, SCHEMA, SENTENCES, WORDS

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.training.run import train
from cascade_srn.training.settings import TrainingSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    return create_encoder(WORDS, folder, width=48, n_layers=1, n_heads=2, vocabulary=300, dropout=0.0)


def _train(encoder, method, epochs=100, **settings):
    values = {
        "encoder": {"name": encoder},
        "method": method,
        "hidden_width": 32,
        "dropout": 0.0,
        "overlaps": "all",
        **settings,
    }
    model = Model.create(ModelSettings.from_dict(values), SCHEMA)
    training = TrainingSettings(epochs=epochs, batch_size=12, learning_rate=6e-3, encoder_learning_rate=3e-3)
    for _ in train(model, DOCUMENTS, settings=training):
        pass
    predicted = model.predictor().predict(examples_of(DOCUMENTS))
    return predicted, score(SENTENCES, predicted, schema=SCHEMA)


@pytest.mark.parametrize("method", ["pfn", "table-srn"])
def test_tables(encoder, method):
    _, scores = _train(encoder, method)
    assert scores.ner.counts.f1 == 1.0
    assert scores.re_strict.counts.f1 == 1.0


def test_pipeline_except_the_second_type_of_a_span(encoder):
    predicted, scores = _train(encoder, "pipeline")
    assert scores.re_strict.counts.f1 == 1.0
    missed = [set(gold.entities) ^ set(found.entities) for gold, found in zip(SENTENCES, predicted, strict=True)]
    # "Kiruna" has two types, but a span has one class.
    (kiruna,) = [set(s.entities) for s in SENTENCES if s.words[0] == "Kiruna"]
    assert set().union(*missed) == {e for e in kiruna if (e.start, e.label) == (0, "Place")}


@pytest.mark.parametrize("method", ["pfn", "pipeline"])
def test_entities_alone(encoder, method):
    predicted, scores = _train(encoder, method, joint=False)
    assert scores.ner.counts.recall >= 21 / 22
    assert scores.ner.counts.precision == 1.0
    assert not any(sentence.triples for sentence in predicted)
