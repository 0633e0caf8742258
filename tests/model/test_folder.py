"""What a model folder may contain. Tensors of a safetensors file are read as torch reads them."""

import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.small_models import link_bundled_model

from cascade_srn.errors import ModelError
from cascade_srn.extractor import load_model
from cascade_srn.model.folder import find_tensors, read_settings, read_tensors
from cascade_srn.model.info import describe_model
from cascade_srn.model.model import Model
from cascade_srn.runtime.model import LightModel
from cascade_srn.storage.bundled import is_model

READERS = (read_settings, describe_model, load_model, LightModel.load, Model.load)


@pytest.fixture
def folder(tmp_path):
    return link_bundled_model(tmp_path / "model")


def refuse(folder, *words):
    """Check that all readers refuse a folder with the same sentence. A reader that hangs exceeds the time limit."""
    for read in READERS:
        with pytest.raises(ModelError) as failed:
            read(folder)
        assert all(word in failed.value.problem for word in words)
        assert failed.value.hint
        assert "\n" not in str(failed.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "light.json", "vocab.txt"])
def test_a_fifo_is_refused(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refuse(folder, name, "not a regular file")
    assert is_model(folder) == (name != "config.json")


def test_sockets_and_devices_are_refused(folder, monkeypatch):
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/dev/zero")
    refuse(folder, "config.json", "not a regular file")
    (folder / "config.json").unlink()
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("config.json")
        refuse(folder, "config.json", "not a regular file")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "README.md", "encoder.onnx"])
def test_links_out_of_the_folder_are_refused(folder, name):
    shutil.move(folder / name, folder.parent / name)
    (folder / name).symlink_to(Path("..", name))
    refuse(folder, name, "outside of the model folder")


def test_blobs_of_the_cache_are_not_left_by_links(folder, tmp_path):
    snapshot, blobs = tmp_path / "repository" / "snapshots" / "1", tmp_path / "repository" / "blobs"
    blobs.mkdir(parents=True)
    shutil.copytree(folder, snapshot)
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to("../../blobs/config.json")
    (blobs / "config.json").symlink_to(folder / "config.json")
    refuse(snapshot, "outside of the model folder")


def test_other_entries_and_links_inside_are_accepted(folder, tmp_path):
    (folder / "data").mkdir()
    (folder / "config.json").rename(folder / "data" / "config.json")
    (folder / "config.json").symlink_to("data/config.json")
    (folder / "gone.txt").symlink_to("nowhere")
    (folder / "elsewhere").symlink_to(tmp_path)
    os.mkfifo(folder / ".fifo")
    (tmp_path / "link").symlink_to(folder)
    assert isinstance(load_model(tmp_path / "link", device="cpu"), LightModel)
    assert describe_model(folder).damaged == ()


def test_all_types_and_places(tmp_path):
    path, values = tmp_path / "model.safetensors", torch.randn(3, 5)
    stored = {"c": torch.ones(1).half(), "b": values.bfloat16(), "a": values, "d": values.half(), "e": torch.zeros(())}
    save_file(stored, path, metadata={"format": "pt"})
    found = read_tensors(path)
    assert found.keys() == stored.keys()
    for name, expected in stored.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], expected.float().numpy())
    places, data = find_tensors(path), path.read_bytes()
    for name, expected in stored.items():
        place = places[name]
        raw = expected.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        assert data[place.offset : place.offset + place.length] == raw
    assert read_tensors(path, lambda name: name == "d").keys() == {"d"}


def test_what_cannot_be_read(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.arange(3)}, path)
    with pytest.raises(ModelError):
        find_tensors(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError):
        find_tensors(path)
