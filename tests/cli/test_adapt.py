import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import failure, run
from tests.tiny_encoders import tiny_encoder
from tests.training.adapt.fields import documents, write_text
from tests.training.runs import write_recipe

from cascade_srn.cli.adapt import adapt
from cascade_srn.extractor import Extractor
from cascade_srn.formats.registry import write_documents
from cascade_srn.text.segment import segment
from cascade_srn.training.adapt import AdaptSettings
from cascade_srn.types import Document


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapt")
    encoder = tiny_encoder("mpnet", folder / "encoder")
    steps = ["--steps", 2, "--head-steps", 2, "--log-steps", 2]
    options = ["--sequence-pieces", 16, "--batch-size", 8, *steps, "--device", "cpu"]
    return ["adapt", write_text(folder), "--encoder", encoder, *options]


def test_from_text_to_an_encoder(arguments, tmp_path, capsys):
    text = documents(1)[0]
    words = [[text[start:end] for start, end in sentence] for sentence in segment(text)]
    write_documents([Document.from_words(words)], tmp_path / "test.jsonl")
    out = tmp_path / "out"
    assert run(*arguments, "--output", out, "--holdout", tmp_path / "test.jsonl") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("119 documents, ")
    assert shown[1].startswith("3 sentences removed")
    assert str(tmp_path / "test.jsonl") in shown[1]
    assert "2 steps" in shown[2]  # of the new head alone
    assert [line.split()[1] for line in shown[3:-1]] == ["0/4", "2/4", "2/4", "4/4", "4/4"]
    assert shown[-1].startswith(f"The encoder is in {out}")
    assert f"model.encoder.name={out}" in shown[-1]
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["steps"] == 4

    assert run(*arguments, "--output", out, "--holdout", tmp_path / "test.jsonl", "--resume") == 0
    assert "nothing to resume" in capsys.readouterr().out
    # Without --holdout the text is another one.
    assert str(out) in failure(capsys, *arguments, "--output", out, "--resume")
    assert str(out) in failure(capsys, *arguments, "--output", out)


@pytest.mark.slow
def test_the_encoder_serves_a_recipe(arguments, tmp_path):
    assert run(*arguments, "--output", tmp_path / "encoder", "--save-steps", 0) == 0
    recipe = write_recipe(tmp_path, fresh=None, training={"epochs": 1})
    name = f"model.encoder.name={tmp_path / 'encoder'}"
    assert run("train", recipe, name, "training.evaluate_steps=null", "--device", "cpu") == 0
    found = Extractor.from_pretrained(tmp_path / "run" / "best").extract("We train a tagger.")
    assert found.text == "We train a tagger."


def test_errors_are_one_line(arguments, tmp_path, capsys):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "x"}\n{"tex', encoding="utf-8")
    assert str(broken) in failure(capsys, *arguments, broken, "--output", tmp_path / "out")
    assert "masked is 2.0" in failure(capsys, *arguments, "--output", tmp_path / "out", "--masked", "2")


def test_every_option_is_documented_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "adapt.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `--([a-z-]+)` \| (?:`(.*?)`)? ?\|", page, flags=re.MULTILINE))
    parameters = {
        name.replace("_", "-"): "" if p.default is inspect.Parameter.empty else str(p.default)
        for name, p in inspect.signature(adapt).parameters.items()
        if name != "texts"
    }
    assert documented == parameters
    assert {setting.name for setting in dataclasses.fields(AdaptSettings)} <= inspect.signature(adapt).parameters.keys()
