"""What the README shows is run: its examples as they stand, in a folder that holds what they speak of."""

import re
from pathlib import Path

import pytest
from tests.twelve_sentences import DOCUMENTS, WORDS

from cascade_srn.data import write_documents
from cascade_srn.encoder.fresh import create_encoder

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _encoder(folder):
    return create_encoder(WORDS, folder, width=32, n_layers=1, n_heads=2, vocabulary=200)


def test_two_lines_extract():
    first, second = BLOCKS[:2]
    assert len([line for line in first.splitlines() if line]) == 2
    names = {}
    exec(first, names)
    found = {(entity.text, entity.label) for entity in names["document"].entities}
    assert found == {("CRF", "Method"), ("named entity recognition", "Task")}
    (relation,) = names["document"].relations
    assert (relation.head.text, relation.label, relation.tail.text) == ("CRF", "USED-FOR", "named entity recognition")
    exec(second, names)


def test_training_as_shown(workplace):
    shown = BLOCKS[2]
    assert "allenai/scibert_scivocab_uncased" in shown
    # No network here: a small encoder, the corpus's own symmetric relation, and one epoch stand in.
    shown = shown.replace("allenai/scibert_scivocab_uncased", _encoder(workplace / "encoder"))
    shown = shown.replace('["COMPARE", "CONJUNCTION"]', '["married-to"]').replace("epochs=30", "epochs=1")
    write_documents(DOCUMENTS, "train.json", format="dygie")
    write_documents(DOCUMENTS, "dev.json", format="spert")
    exec(shown, {})
    assert (workplace / "my-model" / "model.safetensors").is_file()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target
