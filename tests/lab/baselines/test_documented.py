import re
from pathlib import Path

import pytest
import yaml

from cascade_srn.config import MODEL_FAMILIES, EncoderSettings, ModelSettings
from cascade_srn.formats.registry import read_documents
from cascade_srn.model.build import family_of
from cascade_srn.schema import Schema

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
SCIERC = ROOT.parent / "shared" / "data" / "scierc" / "dygie"


def test_every_method_has_a_row_and_its_files_exist():
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| ((?:`[\w/]+\.py`(?:, )?)+) \|$", TEXT, flags=re.MULTILINE)
    assert tuple(name for name, _ in rows) == MODEL_FAMILIES
    for _, files in rows:
        for name in re.findall(r"`([^`]+)`", files):
            assert (ROOT / "src" / "cascade_srn" / name).is_file()


def test_defaults():
    rows = re.findall(r"^\| `([\w.]+)` \| `(\w[\w.]*)` \|", TEXT, flags=re.MULTILINE)
    assert len(rows) == 10
    for key, shown in rows:
        value = ModelSettings(EncoderSettings("e"))
        for part in key.split("."):
            value = getattr(value, part)
        assert yaml.safe_load(shown) == value, key


@pytest.mark.skipif(not SCIERC.is_dir(), reason="SciERC is not here")
@pytest.mark.parametrize(("split", "n_long", "n_entities"), [("train", 41, 5598), ("dev", 5, 811), ("test", 11, 1685)])
def test_number_of_long_entities_in_scierc(split, n_long, n_entities):
    documents = list(read_documents(SCIERC / f"{split}.json", "dygie"))
    sentences = [s for d in documents for s in d.sentences]
    settings = ModelSettings(EncoderSettings("e"), method="pipeline")
    schema = Schema.from_documents(documents)
    found = [
        lost
        for s in sentences
        for lost in family_of(settings.method).unreachable(settings, schema, s)
        if "8 words" in lost.problem
    ]
    assert len(found) == n_long
    assert sum(len(s.entities) for s in sentences) == n_entities
    assert f"{n_long} of {n_entities:,}" in TEXT.replace("\n", " ")
