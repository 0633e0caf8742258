import dataclasses
import inspect
import json

import pytest
from tests.cli.conftest import failure, run
from tests.tiny_encoders import tiny_encoder
from tests.training.distil.teachers import saved_teacher, write_lessons
from tests.twelve_sentences import SCHEMA, SENTENCES

from cascade_srn.cli.distil import distil
from cascade_srn.extractor import Extractor
from cascade_srn.schema import Schema
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.labelled import LabelledText


@pytest.fixture(scope="module")
def lessons(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil")
    recipe, teacher, text = write_lessons(folder, training={"epochs": 1, "batch_size": 8}, fresh=None)
    # A sentence of dev in the text is not learned from.
    lines = [text.read_text(encoding="utf-8"), json.dumps({"text": " ".join(SENTENCES[0].words)})]
    text.write_text("\n".join(lines), encoding="utf-8")
    encoder = tiny_encoder("bert", folder / "encoder")
    return [teacher, "--text", text, "--student-encoder", encoder, "--recipe", recipe, "--device", "cpu"]


@pytest.mark.slow
def test_from_teachers_and_text_to_a_student(lessons, tmp_path, capsys):
    other = saved_teacher(tmp_path / "other", 1, "early", schema=SCHEMA)
    out = tmp_path / "student"
    given = ["distil", other, *lessons, "--output", out]
    assert run(*given, "--set", "distillation.teacher_share=0.75", "--set", "training.evaluate_steps=2") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("9 documents, 25 sentences: 24 to label (1 held out")
    assert printed[1].startswith("labelled 24/24 sentences")
    # 24 labelled sentences, six a batch.
    assert [line.split("  ")[1] for line in printed if line.startswith("epoch")] == ["step 2/4", "step 4/4"]
    assert f"The model is in {out}/best" in printed
    assert "F1 of teacher and student" in printed
    data = json.loads((out / "data.json").read_text(encoding="utf-8"))
    assert data["labels"]["sentences"] == data["labels"]["learned"] == 24
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["recipe"]["distillation"]["teacher_share"] == 0.75
    teacher = json.loads((out / "teacher.json").read_text(encoding="utf-8"))
    shown = [line for line in printed if "NER, micro" in line][-1]
    figures = [100 * found["dev"]["ner"]["micro"]["f1"] for found in (teacher, summary)]
    assert [cell.strip() for cell in shown.split("│")[3:5]] == [f"{figure:.1f}" for figure in figures]
    assert teacher["teachers"] == ["…/other", "…/teacher"]
    assert Extractor.from_pretrained(out / "best").extract("Ada Berg leads Norlux.").text == "Ada Berg leads Norlux."

    assert (
        run(*given, "--set", "distillation.teacher_share=0.75", "--set", "training.evaluate_steps=2", "--resume") == 0
    )
    again = capsys.readouterr().out
    assert "labelled" not in again
    assert "nothing to resume" in again
    assert str(out) in failure(capsys, *given)
    # Another run on the same labels.
    labels = {path.name: path.stat().st_mtime_ns for path in (out / "labels").iterdir()}
    assert run(*given, "--overwrite", "--set", "distillation.hard=true") == 0
    assert {path.name: path.stat().st_mtime_ns for path in (out / "labels").iterdir()} == labels
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["recipe"]["distillation"]["hard"]


@pytest.mark.slow
def test_labels_alone_and_a_recipe_that_names_them(lessons, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("distil", *lessons, "--output", out, "--labels-only", "--max-sentences", 10) == 0
    printed = capsys.readouterr().out
    assert "25 sentences: 10 to label (1 held out, 14 not sampled" in printed
    assert "NER, micro" in printed
    assert f"data.labels={out}/labels" in printed.splitlines()[-1]
    assert [path.name for path in out.iterdir()] == ["labels"]
    assert len(LabelledText(out / "labels")) == 10
    recipe, encoder = lessons[lessons.index("--recipe") + 1], lessons[lessons.index("--student-encoder") + 1]
    overrides = [f"model.encoder.name={encoder}", f"data.labels={out}/labels", f"output={tmp_path / 'run'}"]
    assert run("train", recipe, *overrides, "--device", "cpu") == 0
    # Ten labelled sentences, four a batch.
    assert "step 3/3" in capsys.readouterr().out


def test_errors_are_found_before_anything_is_labelled(lessons, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["distil", *lessons, "--output", out]
    assert "--seeds" in failure(capsys, *given, "--jobs", 2)
    assert "floor is 2.0" in failure(capsys, *given, "--floor", 2)
    assert "training.epoch" in failure(capsys, *given, "--set", "training.epoch=2")
    assert str(tmp_path) in failure(capsys, *given, "--student-encoder", tmp_path)
    assert "holdout.jsonl" in failure(capsys, *given, "--holdout", tmp_path / "holdout.jsonl")
    saved_teacher(tmp_path / "other", schema=Schema(("Person", "Place"), ("leads",)))
    printed = failure(capsys, "distil", tmp_path / "other", *lessons[1:], "--output", out)
    assert "Organization" in printed
    assert not (out / "labels").exists()


def test_every_setting_is_an_option_with_its_default():
    options = inspect.signature(distil).parameters
    for setting in dataclasses.fields(LabelSettings):
        assert options[setting.name].default == setting.default
