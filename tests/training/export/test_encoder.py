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


def test_products_add_their_biases(tmp_path):
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    from cascade_srn.training.export.encoder import join_biases

    rng = np.random.default_rng(0)
    constants = {
        "table": rng.normal(size=(9, 4)),
        "wide": rng.normal(size=(4, 6)),
        "wide bias": rng.normal(size=6),
        "narrow": rng.normal(size=(6, 4)),
        "narrow bias": rng.normal(size=4),
        "shared": rng.normal(size=(4, 4)),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["read"]),
        helper.make_node("MatMul", ["read", "wide"], ["a"]),
        helper.make_node("Add", ["wide bias", "a"], ["b"]),
        helper.make_node("MatMul", ["b", "narrow"], ["c"]),
        helper.make_node("Add", ["c", "narrow bias"], ["d"]),
        # Neither a weight that is used twice nor a sum with another value is a linear layer of its own.
        helper.make_node("MatMul", ["d", "shared"], ["e"]),
        helper.make_node("Add", ["e", "narrow bias"], ["f"]),
        helper.make_node("MatMul", ["f", "shared"], ["g"]),
        helper.make_node("Add", ["g", "read"], ["hidden"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "m"])],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["n", "m", 4])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
        value_info=[
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m", None]) for name in ["read", "b", "d", "f"]
        ],
    )
    path, given = tmp_path / "encoder.onnx", {"input_ids": np.array([[3, 0, 8], [1, 1, 5]])}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    [expected] = onnxruntime.InferenceSession(str(path)).run(None, given)
    join_biases(path)
    kinds = [node.op_type for node in onnx.load(str(path)).graph.node]
    assert [kinds.count(kind) for kind in ("Gemm", "MatMul", "Add")] == [2, 2, 2]
    [found] = onnxruntime.InferenceSession(str(path)).run(None, given)
    np.testing.assert_allclose(found, expected, atol=1e-5)
