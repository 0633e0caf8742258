"""Uploads to the hub and downloads from it, against a stand-in for its HTTP interface."""

import pytest
from tests.cli.conftest import failure, run
from tests.small_models import small_model
from tests.storage.fake_hub import LFS_BYTES, running_hub

from cascade_srn import Extractor
from cascade_srn.errors import ModelError
from cascade_srn.model.info import push_model

pytestmark = pytest.mark.slow

TOKENS = {"hf_me": "me", "hf_you": "you"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Run a hub, and direct the client to it. There is a token of the user "me"."""
    from huggingface_hub import constants

    with running_hub(TOKENS) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setenv("HF_TOKEN", "hf_me")
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield server


@pytest.fixture(scope="module")
def extractor():
    return Extractor(small_model())


@pytest.fixture(scope="module")
def folder(extractor, tmp_path_factory):
    path = tmp_path_factory.mktemp("push") / "model"
    extractor.save_pretrained(path)
    return path


def test_a_model_is_uploaded_and_read_back(hub, extractor, monkeypatch):
    address = extractor.push_to_hub("me/mine", message="First.")
    repository = hub.repositories["me/mine"]
    assert repository.private
    assert repository.messages == ["First."]
    assert address == f"{hub.address}/me/mine/commit/{repository.sha('main')}"
    files = repository.branches["main"]
    assert len(files["model.safetensors"]) > LFS_BYTES
    assert any("/lfs/" in request for request in hub.requests)
    assert 'from_pretrained("me/mine")' in files["README.md"].decode()
    text = "neural speech recognition systems need data"
    assert Extractor.from_pretrained("me/mine", device="cpu").extract(text) == extractor.extract(text)


def test_a_public_repository_has_to_be_asked_for(hub, folder):
    push_model(folder, "me/mine", private=False)
    assert not hub.repositories["me/mine"].private
    before = dict(hub.repositories["me/mine"].branches["main"])
    with pytest.raises(ModelError) as caught:
        push_model(folder, "me/mine", message="Again.")
    assert caught.value.option == "private"
    assert hub.repositories["me/mine"].branches["main"] == before
    push_model(folder, "me/mine", private=False, message="Again.")
    assert hub.repositories["me/mine"].messages[-1] == "Again."


def test_a_branch_and_a_name_without_an_owner(hub, folder):
    push_model(folder, "mine", revision="trial")
    repository = hub.repositories["me/mine"]
    assert repository.branches["main"] == {}
    assert "config.json" in repository.branches["trial"]


def test_only_files_of_the_model_are_uploaded(hub, folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "train.jsonl").write_text("confidential", encoding="utf-8")
    push_model(copy, "me/mine")
    assert set(hub.repositories["me/mine"].branches["main"]) == {path.name for path in folder.iterdir()}
    (copy / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        push_model(copy, "me/other")
    assert "me/other" not in hub.repositories


@pytest.mark.parametrize("token", ["hf_you", "hf_wrong"])
def test_a_token_without_rights(hub, folder, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ModelError):
        push_model(folder, "me/mine")
    assert hub.repositories == {}


def test_no_token(hub, folder, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN" in failure(capsys, "push", folder, "me/mine")
    assert hub.requests == []


@pytest.mark.parametrize("name", ["a/b/c", "me/two words", ""])
def test_a_wrong_name(hub, folder, name):
    with pytest.raises(ModelError):
        push_model(folder, name)
    assert hub.repositories == {}


def test_offline(hub, folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        push_model(folder, "me/mine")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match="reached"):
        push_model(folder, "me/mine")


def test_the_command(hub, folder, capsys):
    assert run("push", folder, "me/mine", "--message", "From the command line.") == 0
    assert f"{hub.address}/me/mine" in capsys.readouterr().out
    assert hub.repositories["me/mine"].messages == ["From the command line."]
    push_model(folder, "me/open", private=False)
    capsys.readouterr()
    assert "--public" in failure(capsys, "push", folder, "me/open")
