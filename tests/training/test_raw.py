"""Training with raw text: what is counted, what is kept, and going on after a kill."""

import json
import signal

import pytest
import yaml
from safetensors.torch import load_file
from tests.small_models import small_model
from tests.tiny_encoders import tiny_encoder
from tests.training.distil.teachers import write_text
from tests.training.runs import in_process, small_recipe, write_recipe
from tests.twelve_sentences import DOCUMENTS, SCHEMA

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.raw import ADAPTED, ANNOTATIONS, LABELLED, RawSettings, RawTraining, Stage
from cascade_srn.training.recipe import Recipe

# All stages over little text.
SMALL = RawSettings(adapt_words=50, min_steps=2, max_steps=2, sequence_pieces=16, label_sentences=5, max_sentences=20)
TRAINING = {"epochs": 6, "evaluate_steps": None, "save_steps": None}


def weights(folder):
    return {name: value.tolist() for name, value in load_file(folder / "best" / "model.safetensors").items()}


def add_dev_sentences(text):
    """Write sentences of dev into the raw text: one as a document, and one among others."""
    first, second = (" ".join(DOCUMENTS[number].sentences[0].words) for number in (0, 3))
    lines = [{"text": first}, {"text": f"{second} Nobody else was there that day."}]
    with text.open("a", encoding="utf-8") as handle:
        handle.write("".join("\n" + json.dumps(line) for line in lines))
    return {first, second}


def test_too_little_text(tmp_path):
    recipe = small_recipe(tmp_path, training={**TRAINING, "epochs": 1}, data={"dev": None})
    text = write_text(tmp_path, n_documents=2)
    training = RawTraining(recipe, [text], device="cpu")
    summary = training.run()
    plain, adapted, labelled = training.stages
    assert plain == Stage(ANNOTATIONS, plain.ner, plain.re_strict, kept=True)
    # The encoder is fresh, and there are six sentences.
    assert "pretrained" in adapted.skipped
    assert "6 sentences" in labelled.skipped
    assert "200" in labelled.skipped
    # Without dev, a part of train is held out.
    assert summary["dev"]
    assert summary["data"]["dev"]["held_out"]
    assert weights(tmp_path / "run") == weights(tmp_path / "run" / ANNOTATIONS)


def test_text_of_dev_only(tmp_path):
    recipe = small_recipe(tmp_path)
    # Split in another way than in the annotated document.
    both = " ".join(" ".join(DOCUMENTS[number].sentences[0].words) for number in (0, 3))
    (tmp_path / "raw.txt").write_text(both, encoding="utf-8")
    with pytest.raises(DataError, match="2 are held out"):
        RawTraining(recipe, [tmp_path / "raw.txt"], device="cpu")
    assert not (tmp_path / "run").exists()


def test_other_text_or_another_recipe_is_refused(tmp_path):
    recipe = small_recipe(tmp_path, training=TRAINING)
    text = write_text(tmp_path, n_documents=2)
    RawTraining(recipe, [text], device="cpu")
    for change, named in (({**TRAINING, "epochs": 7}, "training.epochs=7"), (TRAINING, "other raw text")):
        if change is TRAINING:
            text.write_text(json.dumps({"text": "Something else was written here."}), encoding="utf-8")
        with pytest.raises(ConfigError, match=named):
            RawTraining(small_recipe(tmp_path, training=change), [text], device="cpu")
    RawTraining(recipe, [text], overwrite=True, device="cpu")
    with pytest.raises(ConfigError, match="which is read"):
        RawTraining(recipe, [tmp_path], device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("is_started", [False, True])
def test_all_stages(tmp_path, is_started):
    text = write_text(tmp_path, n_documents=90)
    leaked = add_dev_sentences(text)
    values = yaml.safe_load(write_recipe(tmp_path, training=TRAINING).read_text(encoding="utf-8"))
    del values["fresh"]
    if is_started:
        small_model(schema=SCHEMA).save(tmp_path / "trained")
        values["model"] = {"start": str(tmp_path / "trained")}
    else:
        values["model"]["encoder"] = {"name": tiny_encoder("bert", tmp_path / "tiny")}
    recipe = Recipe.from_dict(values)
    training = RawTraining(recipe, [text], SMALL, device="cpu")
    assert training.counts.held_out == 2
    summary = training.run()
    assert [stage.name for stage in training.stages] == [ANNOTATIONS, ADAPTED, LABELLED]
    tried = [stage for stage in training.stages if not stage.skipped]
    assert tried[1].name == ADAPTED
    best = max(tried, key=lambda stage: stage.score)
    assert summary["stage"] == training.best.name
    assert training.best.score == best.score
    out = tmp_path / "run"
    assert weights(out) == weights(out / training.best.name)
    # The adapted encoder is that of the second run, which saw neither of the leaked sentences.
    assert json.loads((out / "encoder" / "summary.json").read_text(encoding="utf-8"))["removed_sentences"] == 2
    if (out / "labels").is_dir():
        labels = LabelledText(out / "labels")
        found = {" ".join(labels.example(i).sentence.words) for i in range(len(labels))}
        assert len(found) == 20
        assert not found & leaked
    # A finished training is not repeated.
    again = RawTraining(recipe, [text], SMALL, device="cpu")
    assert again.run() == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert again.stages == training.stages


@pytest.mark.slow
def test_killed_at_several_moments(tmp_path):
    text = write_text(tmp_path, n_documents=80)
    recipe = write_recipe(tmp_path, training={"save_steps": 20})

    def command(output):
        return ["train", recipe, f"output={tmp_path / output}", "--raw", text, "--device", "cpu", "--no-onnx"]

    assert in_process(command("run-whole")) == 0
    lives = (12, 60, 90, 130, 160)
    codes = [in_process(command("run-killed"), kill_at=life) for life in lives]
    assert codes.count(-signal.SIGKILL) >= len(lives) - 1
    assert in_process(command("run-killed")) == 0
    whole, killed = (
        json.loads((tmp_path / name / "summary.json").read_text(encoding="utf-8"))
        for name in ("run-whole", "run-killed")
    )
    assert killed["stages"] == whole["stages"]
    assert not whole["stages"][2]["skipped"]
    assert weights(tmp_path / "run-killed") == weights(tmp_path / "run-whole")
    assert not [path.name for path in (tmp_path / "run-killed").iterdir() if path.name.startswith(".")]
