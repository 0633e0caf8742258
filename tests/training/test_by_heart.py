"""Each preset with each sequence encoder memorises twelve sentences, except for the limits of late fusion."""

import pytest
from tests.twelve_sentences import DOCUMENTS, SCHEMA, SENTENCES, WORDS

from cascade_srn.config import PRESETS, SEQUENCE_ENCODERS, ModelSettings
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


def _learned(encoder, epochs=140, **settings):
    values = {
        "encoder": {"name": encoder},
        "hidden_width": 32,
        "matcher_width": 32,
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


@pytest.mark.parametrize(
    ("preset", "sequence_encoder"),
    [*((name, "srn") for name in PRESETS if name != "late"), *(("swift", s) for s in SEQUENCE_ENCODERS if s != "srn")],
)
def test_learns_by_heart(encoder, preset, sequence_encoder):
    _, scores = _learned(encoder, fusion=preset, sequence_encoder=sequence_encoder)
    assert scores.ner.counts.f1 == 1.0
    assert scores.re_strict.counts.f1 == 1.0


def test_late_learns_entities_but_not_whose_objects_are_whose(encoder):
    predicted, scores = _learned(encoder, fusion="late")
    assert scores.ner.counts.f1 == 1.0
    # Late fusion would assign each object to every subject, so it finds few relations.
    assert scores.re_strict.counts.f1 <= 0.75
    # The objects found for two subjects of a sentence differ at most by what touches one of the subjects.
    for sentence in predicted:
        heads = {t.head for t in sentence.triples}
        for a in heads:
            for b in heads:
                found = [{(t.label, t.tail) for t in sentence.triples if t.head == h} for h in (a, b)]
                for _, tail in found[0] ^ found[1]:
                    assert any(tail.start < h.end and h.start < tail.end for h in (a, b))


def test_the_papers_matcher_learns_what_it_can(encoder):
    _, scores = _learned(encoder, fusion="swift", matcher="linear")
    assert scores.ner.counts.f1 >= 0.9


def test_entities_alone(encoder):
    predicted, scores = _learned(encoder, joint=False)
    assert scores.ner.counts.f1 == 1.0
    assert not any(sentence.triples for sentence in predicted)
