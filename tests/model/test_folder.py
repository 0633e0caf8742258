import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cascade_srn.errors import ModelError
from cascade_srn.model.folder import find_tensors, read_tensors


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
