"""The choice of constraints on development sentences, and learning them for a saved model."""

import json
from dataclasses import replace

import pytest
from tests.cli.conftest import failure, run
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn import Document, write_documents
from cascade_srn.config import Thresholds
from cascade_srn.errors import SchemaError
from cascade_srn.evaluation.calibration.calibrate import MIN_RELATIONS, choose_constraints
from cascade_srn.evaluation.calibration.model_folder import calibrate_model_folder
from cascade_srn.model.model import CONFIG_FILE, Model
from cascade_srn.schema import RelationConstraints
from cascade_srn.types import Sentence, Span, Triple

ONLY_TASKS = {"used-for": RelationConstraints(heads=("Task",))}


@pytest.fixture(scope="module")
def model():
    found = spread_probabilities(small_model("swift", thresholds=Thresholds(0.3, 0.2, 0.25)))
    return replace(found, schema=replace(found.schema, constraints=ONLY_TASKS))


def labelled_by(model, constraints):
    """Return sentences as the model annotates them, with more relations than the minimum."""
    found = examples(tuple(model.predictor(constraints=constraints).predict(examples(SENTENCES))))
    assert sum(len(example.sentence.triples) for example in found) >= MIN_RELATIONS
    return found


class TestChoice:
    @pytest.mark.parametrize("choice", ["off", "on"])
    def test_the_better_one_is_chosen(self, model, choice):
        gold = labelled_by(model, choice)
        assert choose_constraints(model, gold).settings == replace(model.settings, constraints=choice)

    def test_few_relations_change_nothing(self, model):
        assert choose_constraints(model, examples(SENTENCES)) is model

    def test_no_constraints_change_nothing(self, model):
        plain = replace(model, schema=replace(model.schema, symmetric=frozenset(), constraints={}))
        assert choose_constraints(plain, labelled_by(model, "on")) is plain


@pytest.fixture
def folder(tmp_path):
    small_model("swift").save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def dev(tmp_path):
    write_documents([Document.from_sentences(SENTENCES[:2], id="dev")], tmp_path / "dev.jsonl")
    return str(tmp_path / "dev.jsonl")


@pytest.fixture
def training(tmp_path):
    """Forty relations between a thing and a task, and two between tasks."""
    sentences = []
    for label, count in (("Thing", 40), ("Task", 2)):
        head, tail = Span(0, 1, label), Span(1, 2, "Task")
        sentences += [Sentence.from_words(["a", "b"], [head, tail], [Triple(head, "used-for", tail)])] * count
    documents = [Document.from_sentences([sentence], id=str(i)) for i, sentence in enumerate(sentences)]
    write_documents(documents, tmp_path / "train.jsonl")
    return str(tmp_path / "train.jsonl")


class TestSavedModels:
    def test_constraints_are_learned_and_stored(self, folder, dev, training, tmp_path):
        found = calibrate_model_folder(str(folder), dev, tmp_path / "new", learn_constraints=training)
        learned = {"used-for": RelationConstraints(pairs=(("Thing", "Task"),), exclusive=True)}
        assert found.schema.constraints == Model.load(tmp_path / "new").schema.constraints == learned
        assert found.constraints == Model.load(tmp_path / "new").settings.constraints == "off"
        assert Model.load(folder).schema.constraints == {}
        again = calibrate_model_folder(
            str(tmp_path / "new"), dev, tmp_path / "new", learn_constraints=training, min_pair_count=2
        )
        assert again.schema.constraints["used-for"].pairs == (("Task", "Task"), ("Thing", "Task"))

    def test_calibration_alone_keeps_them(self, folder, dev, training, tmp_path):
        calibrate_model_folder(str(folder), dev, tmp_path / "new", learn_constraints=training)
        before = (tmp_path / "new" / CONFIG_FILE).read_bytes()
        calibrate_model_folder(str(tmp_path / "new"), dev, tmp_path / "copy")
        assert (tmp_path / "copy" / CONFIG_FILE).read_bytes() == before

    def test_folders_of_older_releases(self, folder):
        path = folder / CONFIG_FILE
        config = json.loads(path.read_text(encoding="utf-8"))
        assert "constraints" not in config["schema"]
        del config["model"]["constraints"]
        path.write_text(json.dumps(config), encoding="utf-8")
        assert Model.load(folder).settings.constraints == "off"

    def test_labels_that_the_model_does_not_have(self, folder, dev, tmp_path):
        head, tail = Span(0, 1, "Person"), Span(1, 2, "Task")
        sentence = Sentence.from_words(["a", "b"], [head, tail], [Triple(head, "used-for", tail)])
        write_documents([Document.from_sentences([sentence], id="d")], tmp_path / "other.jsonl")
        with pytest.raises(SchemaError, match=r"other\.jsonl.*'Person'"):
            calibrate_model_folder(str(folder), dev, tmp_path / "new", learn_constraints=str(tmp_path / "other.jsonl"))
        assert not (tmp_path / "new").exists()

    def test_command(self, folder, dev, training, capsys):
        arguments = (folder, dev, "--output", folder, "--learn-constraints", training, "--device", "cpu")
        assert run("calibrate", *arguments) == 0
        assert "constraints: off, 1 relation types have some" in capsys.readouterr().out
        assert "--min-pair-count" in failure(capsys, "calibrate", *arguments, "--min-pair-count", "0")
