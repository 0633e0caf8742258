import json

import pytest
from tests.small_models import SCHEMA, small_model

from cascade_srn.errors import ModelError
from cascade_srn.model.info import describe_model, list_models
from cascade_srn.model.model import CARD_FILE, CONFIG_FILE, WEIGHTS_FILE
from cascade_srn.storage.bundled import DEFAULT
from cascade_srn.storage.files import checksum


@pytest.fixture
def folder(tmp_path):
    small_model().save(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_model(folder):
    model = small_model()
    info = describe_model(folder)
    assert info.schema == SCHEMA
    assert info.settings.thresholds == model.settings.thresholds
    assert info.n_parameters == sum(value.numel() for value in model.network.state_dict().values())
    assert info.n_bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert info.sha256 == checksum(folder / WEIGHTS_FILE)
    assert (info.damaged, info.scores, info.folder) == ((), (), folder)
    record = info.to_dict()
    assert json.loads(json.dumps(record)) == record
    for label in (*SCHEMA.entity_types, *SCHEMA.relation_types):
        assert label in str(info)


def test_scores_of_the_card(folder):
    table = (
        "| corpus | NER | RE |\n| --- | --- | ---: |\n| mine | 70.1 | 40.2 |\n\n| other | x |\n| --- | --- |\n| y | 1 |"
    )
    (folder / CARD_FILE).write_text(f"# A model\n\n## Scores\n\nMicro F1.\n\n{table}\n\n## Limits\n", encoding="utf-8")
    info = describe_model(folder)
    assert info.to_dict()["scores"] == [{"corpus": "mine", "NER": "70.1", "RE": "40.2"}]
    assert "70.1" in str(info)


@pytest.mark.parametrize("card", [b"\xff\xfe", b"## Scores\n| a | b |\n| --- | --- |\n| 1 |\n", b"## Scores\nnone\n"])
def test_cards_without_scores(folder, card):
    (folder / CARD_FILE).write_bytes(card)
    assert describe_model(folder).scores == ()


def test_a_damaged_file(folder):
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").unlink()
    assert describe_model(folder).damaged == ("tokenizer.json", "tokenizer_config.json")


@pytest.mark.parametrize("missing", [CONFIG_FILE, WEIGHTS_FILE])
def test_no_model(folder, missing):
    (folder / missing).unlink()
    with pytest.raises(ModelError):
        describe_model(folder)


def test_models_of_the_hub_cache(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    for owner, name in (("me", "mine"), ("you", "bert")):
        snapshot = cache / f"models--{owner}--{name}" / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("abc", encoding="utf-8")
        (snapshot / "config.json").write_text("{}", encoding="utf-8")
    for path in folder.iterdir():
        (cache / "models--me--mine" / "snapshots" / "abc" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.utils._cache_manager.HF_HUB_CACHE", str(cache))
    found = {model["name"]: model["source"] for model in list_models()}
    assert found == {DEFAULT: "bundled", "me/mine": "hub cache"}
    monkeypatch.setattr("huggingface_hub.utils._cache_manager.HF_HUB_CACHE", str(tmp_path / "nothing"))
    assert [model["name"] for model in list_models()] == [DEFAULT]
