"""What comes before training: the recipe of a student, and what the teachers reach on its data."""

import json
import re

import numpy as np
import pytest
from tests.formats.other_processes import can_hold, held_elsewhere
from tests.training.distil.teachers import saved_teacher, teacher, write_lessons
from tests.twelve_sentences import DOCUMENTS, SCHEMA

from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.distil.labelling import Labelling
from cascade_srn.training.distil.run import Distillation, student_overrides
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.loop import evaluate
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run import Run


@pytest.fixture
def lessons(tmp_path):
    return write_lessons(tmp_path)


def test_overrides_are_read_as_they_are_meant(tmp_path, lessons):
    odd = tmp_path / "a: b # 'c' null"
    recipe = load_recipe(lessons[0], student_overrides(odd, None, ["training.epochs=3"]))
    assert (recipe.output, recipe.data.labels) == (str(odd), str(odd / "labels"))
    assert (recipe.training.epochs, recipe.model.encoder.name) == (3, "fresh")
    encoder = load_recipe(lessons[0], student_overrides(odd, "my/enc: x", ["fresh=null"])).model.encoder.name
    assert encoder == "my/enc: x"


def test_the_scores_of_a_teacher_are_its_own(tmp_path, lessons):
    recipe, folder, text = lessons
    chosen = load_recipe(recipe, student_overrides(tmp_path / "out", None, [f"data.test={tmp_path / 'train.jsonl'}"]))
    distillation = Distillation([folder], [text], chosen, device="cpu")
    scores = distillation.teacher_scores()
    model = teacher(0, schema=SCHEMA)
    assert scores["test"] == evaluate(model, examples_of(DOCUMENTS)).to_dict()
    assert scores["dev"] == evaluate(model, examples_of(DOCUMENTS[:6])).to_dict()


def test_dev_test_and_other_data_are_held_out(tmp_path, lessons):
    recipe, folder, text = lessons
    lines = [" ".join(document.sentences[0].words) for document in DOCUMENTS if len(document.sentences[0]) > 3]
    text.write_text("\n".join(json.dumps({"text": each}) for each in lines), encoding="utf-8")
    chosen = load_recipe(recipe, student_overrides(tmp_path / "out", None))
    labelling = Distillation([folder], [text], chosen, device="cpu").labelling
    assert labelling.sentences.counts.held_out == 6
    assert str(labelling) == "10 documents, 10 sentences: 4 to label (6 held out), by 1 teacher."
    chosen = load_recipe(recipe, student_overrides(tmp_path / "other", None))
    with pytest.raises(DataError, match="10 are held out"):
        Distillation([folder], [text], chosen, holdout=[tmp_path / "train.jsonl"], device="cpu")


def test_a_trained_model_is_no_encoder_of_a_student(tmp_path, lessons):
    recipe, folder, text = lessons
    chosen = load_recipe(recipe, student_overrides(tmp_path / "out", str(folder), ["fresh=null"]))
    with pytest.raises(ModelError, match="encoder"):
        Distillation([folder], [text], chosen, device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("n_seeds", [None, 2])
@pytest.mark.slow
def test_one_process_at_a_time(tmp_path, lessons, n_seeds):
    recipe, folder, text = lessons
    out = tmp_path / "out"
    chosen = load_recipe(recipe, student_overrides(out, None))
    with held_elsewhere(out), pytest.raises(ConfigError, match="process .*out'"):
        Distillation([folder], [text], chosen, n_seeds=n_seeds, device="cpu")
    assert not out.exists()
    distillation = Distillation([folder], [text], chosen, n_seeds=n_seeds, device="cpu")
    list(distillation.labelling)
    # From labelling to the end of training, which may hold it as well.
    assert not can_hold(out)
    if n_seeds is None:
        Run(chosen, device="cpu").folder.check(chosen, resume=True)
        assert not can_hold(out)
    else:
        assert can_hold(out / "seed-0")
    distillation.close()
    assert can_hold(out)


class TestLearningFromLabels:
    @pytest.fixture
    def labels(self, tmp_path, lessons):
        recipe, folder, text = lessons
        chosen = load_recipe(recipe, student_overrides(tmp_path / "out", None))
        list(Distillation([folder], [text], chosen, device="cpu").labelling)
        return tmp_path / "out" / "labels"

    def test_data_and_counts(self, lessons, labels, tmp_path):
        bound = float(np.median(LabelledText(labels).certainty.min(axis=1)))
        changes = [f"data.labels={labels}", f"distillation.confidence={bound}", f"output={tmp_path / 'run'}"]
        run = Run(load_recipe(lessons[0], changes), device="cpu")
        found = run.folder.read_json("data.json")["labels"]
        assert found["sentences"] == 24
        assert found["learned"] + found["uncertain"] == 24
        assert 0 < found["uncertain"] < 24
        assert re.search(f"labels: {found['uncertain']} x .*{bound:g}", str(run.preflight))
        assert found["words"] == int(run.corpus.labelled.n_words.sum())
        assert run.loop.n_steps == 10 * -(-run.mixture.epoch_size(5) // 5)

    def test_labels_that_hold_sentences_of_dev(self, lessons, tmp_path):
        """Made with another dev, they are reported against this one."""
        recipe, folder, text = lessons
        line = json.dumps({"text": "Nobody  heard it. " + " ".join(DOCUMENTS[0].sentences[0].words).upper()})
        text.write_text(line, encoding="utf-8")
        list(Labelling([folder], [text], tmp_path / "labels", device="cpu"))
        run = Run(load_recipe(recipe, [f"data.labels={tmp_path / 'labels'}", "training.batch_size=4"]), device="cpu")
        assert re.search("dev: 1 x .*data.labels", str(run.preflight))

    def test_how_to_learn_without_what(self, lessons):
        with pytest.raises(ConfigError, match="data.labels"):
            load_recipe(lessons[0], ["distillation.hard=true"])

    def test_the_teachers_labels_are_learned(self, lessons, tmp_path):
        """They may know more than occurs in the data, and which relations are symmetric."""
        recipe, _, text = lessons
        wide = Schema((*SCHEMA.entity_types, "Year"), SCHEMA.relation_types, SCHEMA.symmetric)
        folder = saved_teacher(tmp_path / "wide", schema=wide)
        chosen = load_recipe(recipe, student_overrides(tmp_path / "out", None, ["data.symmetric=[]"]))
        list(Distillation([folder], [text], chosen, device="cpu").labelling)
        assert read_corpus(chosen.data).schema == wide

    def test_other_symmetric_relations(self, lessons, labels):
        changes = [f"data.labels={labels}", "data.symmetric=[leads]"]
        with pytest.raises(SchemaError, match=r"symmetric relations are \['marr"):
            read_corpus(load_recipe(lessons[0], changes).data)

    @pytest.mark.slow
    def test_teachers_of_entities_alone(self, lessons, tmp_path):
        recipe, _, text = lessons
        folder = saved_teacher(tmp_path / "narrow", schema=SCHEMA, joint=False)
        chosen = load_recipe(recipe, student_overrides(tmp_path / "out", None))
        list(Distillation([folder], [text], chosen, device="cpu").labelling)
        with pytest.raises(ModelError, match="model.joint"):
            Run(chosen, device="cpu")
        alone = load_recipe(
            recipe, [*student_overrides(tmp_path / "out", None), "model.joint=false", "training.epochs=1"]
        )
        assert [progress.finished for progress in Run(alone, device="cpu")][-1]

    def test_context_reaches_the_student(self, lessons, labels, tmp_path):
        changes = [f"data.labels={labels}", "model.encoder.context_words=4", f"output={tmp_path / 'run'}"]
        run = Run(load_recipe(lessons[0], changes), device="cpu")
        n_gold = len(run.mixture.gold)
        example = run.mixture.example(n_gold + 1)
        assert len(example.left) == len(example.right) == 4
