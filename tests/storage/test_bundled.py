import socket
from pathlib import Path

import huggingface_hub.constants
import pytest

from cascade_srn.errors import ModelError
from cascade_srn.storage.bundled import bundled_models, find_model, hub_is_out_of_reach, is_model


@pytest.mark.parametrize("name", ["~nosuchuser/x", Path("~nosuchuser/x")], ids=["text", "path"])
def test_the_home_of_an_unknown_user(name):
    with pytest.raises(ModelError, match="'~nosuchuser/x'"):
        find_model(name)


def test_a_folder_in_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert find_model("~/model") == tmp_path / "model"


def test_what_is_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (name,) = bundled_models()
    assert is_model(name)
    assert is_model(find_model(name))
    assert not is_model("owner/name")
    for content in ("{", "[]", '{"model_type": "bert"}'):
        (tmp_path / "config.json").write_text(content)
        assert not is_model(tmp_path)
    # A folder takes precedence over a bundled model of the same name.
    (tmp_path / name).mkdir()
    assert not is_model(name)


@pytest.fixture
def hub(monkeypatch):
    """Replace the hub by a local port without a listener."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port.getsockname()[1]}")
        yield port


def test_a_hub_out_of_reach(hub):
    assert hub_is_out_of_reach()
    with pytest.raises(ModelError, match="'no-such-owner/no-such-model'"):
        find_model("no-such-owner/no-such-model")
    hub.listen()
    assert not hub_is_out_of_reach()


def test_the_hub_is_not_checked_behind_a_proxy_or_offline(hub, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert not hub_is_out_of_reach()
    monkeypatch.delenv("http_proxy")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert not hub_is_out_of_reach()
