"""int8 of small graphs: their error, their size, sensitive products, and windows that are read together."""

import numpy as np
import pytest

from cascade_srn.runtime.model import start_session

WIDTH, N_PIECES = 32, 3000
N_LAYERS = 3


@pytest.fixture(autouse=True)
def _needs_onnx():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")


def write_encoder(path, *, cancel=None):
    """Write an encoder: embeddings and feed-forward layers, with an input channel that is 50 times larger than others.

    ``cancel`` is a layer in which two large channels cancel each other, so that int8 has no steps for the others.
    """
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights, nodes = {"table": rng.normal(size=(N_PIECES, WIDTH)), "ones": np.ones(WIDTH)}, []
    nodes.append(helper.make_node("Gather", ["table", "input_ids"], ["x0"]))
    for layer in range(N_LAYERS):
        x, up, down = f"x{layer}", rng.normal(size=(WIDTH, 4 * WIDTH)) / 6, rng.normal(size=(4 * WIDTH, WIDTH)) / 12
        up[3] /= 50
        scale, shift = np.ones(WIDTH), np.zeros(WIDTH)
        scale[3] = 50
        if layer == cancel:
            scale[:2], shift[:2], up[0], up[1] = 0, 1000, 100, -100
        weights |= {f"up{layer}": up, f"down{layer}": down, f"bias{layer}": rng.normal(size=4 * WIDTH)}
        weights |= {f"scale{layer}": scale, f"shift{layer}": shift}
        for operator, *inputs, output in (
            ("Mul", x, f"scale{layer}", f"scaled{layer}"),
            ("Add", f"scaled{layer}", f"shift{layer}", f"in{layer}"),
            ("MatMul", f"in{layer}", f"up{layer}", f"wide{layer}"),
            ("Add", f"wide{layer}", f"bias{layer}", f"biased{layer}"),
            ("Relu", f"biased{layer}", f"positive{layer}"),
            ("MatMul", f"positive{layer}", f"down{layer}", f"narrow{layer}"),
            ("Add", f"narrow{layer}", x, f"x{layer + 1}"),
        ):
            nodes.append(helper.make_node(operator, inputs, [output]))
    nodes.append(helper.make_node("Mul", [f"x{N_LAYERS}", "ones"], ["hidden"]))
    sizes = ["n_windows", "n_pieces"]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, sizes)],
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, [*sizes, WIDTH])],
        [numpy_helper.from_array(value.astype(np.float16).astype(np.float32), name) for name, value in weights.items()],
    )
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    )
    return path


def windows(seed, n=40):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, N_PIECES, int(size)) for size in rng.integers(1, 30, n)]


def quantizer(path, **options):
    from cascade_srn.training.export.quantize import Quantizer

    return Quantizer(write_encoder(path, **options), windows(1))


def read(model, ids):
    return start_session(model, 1).run(["hidden"], {"input_ids": ids})[0]


def error(model, path):
    """Return the relative error on windows that were not used for calibration."""
    ids = np.concatenate(windows(2))[None]
    expected = read(str(path), ids)
    return np.square(read(model, ids) - expected).mean() / np.square(expected).mean()


def test_error_and_size(tmp_path):
    path = tmp_path / "encoder.onnx"
    made = quantizer(path)
    assert made.inputs == [name for layer in range(N_LAYERS) for name in (f"in{layer}", f"positive{layer}")]
    model = made.quantize()
    assert 1e-9 < error(model, path) < 4e-4
    assert len(model) < 0.35 * path.stat().st_size
    assert model == made.quantize() == quantizer(path).quantize()
    # Weights that are exact in float16.
    assert error(made.quantize(float32=made.inputs, tables=False), path) == 0
    assert 0 < error(made.quantize(float32=made.inputs), path) < error(model, path)


def test_windows_do_not_depend_on_each_other(tmp_path):
    model = quantizer(tmp_path / "encoder.onnx").quantize()
    ids = np.random.default_rng(3).integers(0, N_PIECES, (7, 13))
    together = read(model, ids)
    for row, expected in zip(ids, together, strict=True):
        np.testing.assert_array_equal(read(model, row[None])[0], expected)


@pytest.mark.parametrize("layer", range(N_LAYERS))
def test_the_most_sensitive_product_is_found(tmp_path, layer):
    path = tmp_path / "encoder.onnx"
    made = quantizer(path, cancel=layer)
    assert made.ranking[0] == f"in{layer}"
    assert sorted(made.ranking) == sorted(made.inputs)
    assert error(made.quantize(), path) > 0.01
    assert error(made.quantize(float32=made.ranking[:1]), path) < 5e-4
