"""Models that are loaded and saved again keep their card and the types of their weights."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.small_models import small_model

from cascade_srn.extractor import Extractor
from cascade_srn.model.model import CARD_FILE, CHANGED_NOTICE, CHECKSUMS, CONFIG_FILE, WEIGHTS_FILE, Model
from cascade_srn.storage.files import checksum
from cascade_srn.training.run import train
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.types import Document, Sentence, Span

CARD = "# Mine\n\n## Scores\n\n| a |\n| --- |\n| 1 |\n\nWritten by hand.\n"


@pytest.fixture
def dtype():
    return torch.float16


@pytest.fixture
def folder(dtype, tmp_path):
    """A model with a card of its own, whose weights are stored in half precision."""
    folder = tmp_path / "model"
    small_model().save(folder, card=CARD)
    weights = {name: weight.to(dtype) for name, weight in load_file(folder / WEIGHTS_FILE).items()}
    save_file(weights, folder / WEIGHTS_FILE)
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config[CHECKSUMS][WEIGHTS_FILE] = checksum(folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_card_and_dtype_are_kept(folder, tmp_path):
    model = Model.load(folder)
    assert {weight.dtype for weight in model.network.state_dict().values()} == {torch.float32}
    Extractor(model).save_pretrained(tmp_path / "copy")
    before, after = (load_file(path / WEIGHTS_FILE) for path in (folder, tmp_path / "copy"))
    assert {name: weight.dtype for name, weight in after.items()} == {name: w.dtype for name, w in before.items()}
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (tmp_path / "copy" / CARD_FILE).read_text(encoding="utf-8") == CARD
    again = Model.load(tmp_path / "copy").network.state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.network.state_dict().items())


def test_changed_weights_are_not_rounded(folder, tmp_path):
    model = Model.load(folder)
    name, weight = next(iter(model.network.state_dict().items()))
    with torch.no_grad():
        weight.add_(1e-6)
    model.save(tmp_path / "copy")
    written = load_file(tmp_path / "copy" / WEIGHTS_FILE)
    assert written[name].dtype == torch.float32
    assert torch.equal(written[name], weight)
    assert sum(value.dtype == torch.float32 for value in written.values()) == 1


def test_a_card_of_other_settings_has_a_notice(folder, tmp_path):
    model = Model.load(folder)
    changed = replace(model.settings, thresholds=replace(model.settings.thresholds, entity=0.9))
    replace(model, settings=changed).save(tmp_path / "copy")
    text = (tmp_path / "copy" / CARD_FILE).read_text(encoding="utf-8")
    assert text == f"{CARD}\n{CHANGED_NOTICE}\n"
    replace(Model.load(tmp_path / "copy"), settings=model.settings).save(tmp_path / "again")
    assert (tmp_path / "again" / CARD_FILE).read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_a_trained_model_has_a_new_card(folder, tmp_path):
    model = Model.load(folder)
    sentence = Sentence.from_words(["we", "train", "taggers"], [Span(2, 3, "Thing")])
    list(train(model, [Document.from_sentences([sentence])], settings=TrainingSettings(epochs=1, trackers=())))
    model.save(tmp_path / "copy")
    assert "Written by hand" not in (tmp_path / "copy" / CARD_FILE).read_text(encoding="utf-8")
    assert {weight.dtype for weight in load_file(tmp_path / "copy" / WEIGHTS_FILE).values()} >= {torch.float32}


@pytest.mark.parametrize("card", [None, b"\xff\xfe\x00", b"x" * (1 << 21)])
def test_cards_that_are_not_kept(folder, tmp_path, card):
    (folder / CARD_FILE).unlink()
    if card is not None:
        (folder / CARD_FILE).write_bytes(card)
    Model.load(folder).save(tmp_path / "copy")
    assert "library_name: cascade-srn" in (tmp_path / "copy" / CARD_FILE).read_text(encoding="utf-8")
