"""An ONNX graph whose weights are in a safetensors file: each type, transposed weights, tables, and what is missing."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cascade_srn.errors import ModelError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _needs_onnx():
    pytest.importorskip("onnx")


def write_graph(path, table, weight, bias):
    """Write a graph with a lookup, a product and a sum."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Gather", ["embeddings.table", "ids"], ["looked_up"], name="first"),
        helper.make_node("MatMul", ["looked_up", "layer.weight"], ["product"]),
        helper.make_node("Add", ["product", "layer.bias"], ["hidden"]),
    ]
    constants = {"embeddings.table": table, "layer.weight": weight, "layer.bias": bias}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["n", weight.shape[1]])],
        [numpy_helper.from_array(value.float().numpy(), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_weights_in_the_other_file(tmp_path, dtype, is_transposed):
    import onnxruntime

    from cascade_srn.training.export.encoder import share_weights

    torch.manual_seed(0)
    table, weight, bias = (torch.randn(size).to(dtype) for size in ((500, 4), (4, 300), (300,)))
    path, weights = tmp_path / "encoder.onnx", tmp_path / "model.safetensors"
    write_graph(path, table, weight, bias)
    stored = weight.T.contiguous() if is_transposed else weight
    # The first tensor makes the others begin at any byte.
    save_file({"a": torch.ones(1).half(), "w": stored, "t": table, "b": bias}, weights)
    share_weights(path, weights)
    assert path.stat().st_size < 1000
    found = onnxruntime.InferenceSession(str(path)).run(None, {"ids": np.array([3, 0])})[0]
    expected = table.float()[[3, 0]] @ weight.float() + bias.float()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_weights_that_are_not_in_it(tmp_path):
    from cascade_srn.training.export.encoder import share_weights

    path, weights = tmp_path / "encoder.onnx", tmp_path / "model.safetensors"
    table, weight, bias = torch.randn(500, 4), torch.randn(4, 300), torch.randn(300)
    write_graph(path, table, weight, bias)
    save_file({"w": weight + 1, "t": table}, weights)
    before = path.read_bytes()
    with pytest.raises(ModelError):
        share_weights(path, weights)
    assert path.read_bytes() == before
