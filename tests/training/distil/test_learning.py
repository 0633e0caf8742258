import json
from dataclasses import replace

import pytest
from tests.twelve_sentences import DOCUMENTS, SCHEMA, SENTENCES, WORDS

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.labelling import Labelling
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.loop import Loop
from cascade_srn.training.mixing import Mixture
from cascade_srn.training.run import train
from cascade_srn.training.settings import DistillationSettings, TrainingSettings

pytestmark = pytest.mark.slow

TRAINING = TrainingSettings(epochs=100, batch_size=12, learning_rate=6e-3, encoder_learning_rate=3e-3)


def new_model(folder, fusion, *, width, seed):
    encoder = create_encoder(WORDS, folder, width=width, n_layers=1, n_heads=2, vocabulary=300, dropout=0.0, seed=seed)
    values = {"encoder": {"name": encoder}, "hidden_width": 32, "matcher_width": 32, "dropout": 0.0, "fusion": fusion}
    return Model.create(ModelSettings.from_dict(values | {"overlaps": "all"}), SCHEMA, seed=seed)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Twelve sentences as raw text, labelled by a model that knows them by heart."""
    folder = tmp_path_factory.mktemp("learning")
    teacher = new_model(folder / "encoder", "swift", width=48, seed=0)
    list(train(teacher, DOCUMENTS, settings=replace(TRAINING, epochs=140)))
    teacher.save(folder / "teacher")
    lines = [json.dumps({"text": " ".join(sentence.words)}) for sentence in SENTENCES]
    (folder / "text.jsonl").write_text("\n".join(lines), encoding="utf-8")
    settings = LabelSettings(min_words=1)
    list(Labelling([folder / "teacher"], [folder / "text.jsonl"], folder / "labels", settings, device="cpu"))
    return folder / "labels"


def test_the_teacher_knows_it(labels):
    read = LabelledText(labels)
    found = score(SENTENCES, [read.sentence(i) for i in range(len(read))], schema=SCHEMA)
    assert (found.ner.counts.f1, found.re_strict.counts.f1) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("fusion", "settings"),
    [("early", {}), ("swift", {"temperature": 1.5}), ("swift", {"hard": True, "teacher_weight": 0.5})],
)
def test_a_student_learns_it_from_labels_alone(labels, tmp_path, fusion, settings):
    student = new_model(tmp_path / "encoder", fusion, width=32, seed=7)
    distillation = DistillationSettings(teacher_share=1.0, **settings)
    for _ in Loop(student, Mixture([], LabelledText(labels), distillation), [], TRAINING):
        pass
    found = score(SENTENCES, student.predictor().predict(examples_of(DOCUMENTS)), schema=SCHEMA)
    assert found.ner.counts.f1 >= 0.95
    assert found.re_strict.counts.f1 >= 0.9
