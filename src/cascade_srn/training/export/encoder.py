"""The pretrained encoder as an ONNX graph in float32, with its weights in it or in the file of the model."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cascade_srn.errors import ModelError
from cascade_srn.model.folder import ENCODER_FILE, WEIGHTS_FILE, StoredTensor, find_tensors, read_tensors
from cascade_srn.runtime.layers import Array
from cascade_srn.runtime.model import INPUTS, OUTPUT

OPSET = 20
# Protocol buffers, and thus files of ONNX without external data, are limited to 2 GiB.
_MAX_BYTES = 1_800_000_000
# Largest difference between the vectors of torch and of ONNX Runtime. Their typical size is 1.
MAX_DIFFERENCE = 1e-3


class _Encoder(nn.Module):
    """The encoder with tensors as inputs and output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Shapes: input_ids, attention_mask (n_windows, n_pieces); returns (n_windows, n_pieces, width)."""
        hidden: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        return hidden


def export_encoder(model: Any, path: Path, *, limit: int) -> None:
    """Write an encoder of transformers as ONNX, with any number of windows and pieces.

    Raises:
        ModelError: If torch cannot export the encoder, or it is too large for a file of ONNX.
    """
    n_bytes = sum(4 * parameter.numel() for parameter in model.parameters())
    if n_bytes > _MAX_BYTES:
        raise ModelError(
            f"the encoder has {n_bytes / 1e9:.1f} GB of weights, but an ONNX file has at most 2 GB",
            "Export a model with a smaller encoder",
        )
    # Sizes other than 1, which torch would treat as constants.
    ids, mask = _sample(model, n_windows=2, n_pieces=min(7, limit))
    sizes = {0: torch.export.Dim("n_windows"), 1: torch.export.Dim("n_pieces", max=limit)}
    with _quiet(), _plain_attention(model):
        try:
            torch.onnx.export(
                _Encoder(model).eval(),
                (ids, mask),
                str(path),
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_shapes=(sizes, sizes),
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except ModuleNotFoundError:
            raise
        except Exception as error:
            # Each step of the export raises exceptions of its own.
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise ModelError(
                f"torch cannot export the encoder, whose type is {model.config.model_type!r} ({reason})",
                "Use the model without exporting it",
            ) from error


def require_same_vectors(model: Any, path: Path, *, limit: int) -> float:
    """Return the largest difference between the vectors of torch and of an exported encoder, at several sizes.

    Raises:
        ModelError: If the vectors differ by more than ``MAX_DIFFERENCE``.
    """
    from cascade_srn.runtime.model import Session

    session, largest = Session(path), 0.0
    for n_windows, n_pieces in ((1, 1), (1, limit), (3, min(11, limit))):
        ids, mask = _sample(model, n_windows=n_windows, n_pieces=n_pieces)
        with torch.inference_mode():
            expected = _Encoder(model)(ids, mask).numpy()
        difference = np.abs(session.read(ids.numpy(), mask.numpy()) - expected)[mask.numpy().astype(bool)]
        largest = max(largest, float(difference.max()))
    if not largest <= MAX_DIFFERENCE:
        raise ModelError(
            f"the exported encoder computes other vectors than torch: they differ by up to {largest:.3g}",
            "Use the model without exporting it",
        )
    return largest


def _sample(model: Any, *, n_windows: int, n_pieces: int) -> tuple[Tensor, Tensor]:
    """Return random pieces and a mask in which the last window is padded."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (n_windows, n_pieces), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, (n_pieces + 1) // 2 :] = 0
    return ids, mask


@contextmanager
def _plain_attention(model: Any) -> Iterator[None]:
    """Compute attention as plain products, whose graph is smaller and faster than that of PyTorch's own attention."""
    given = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(given)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress reports and warnings of the exporter."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def join_biases(path: Path) -> None:
    """Let the products of linear layers add their biases, and read the weights as PyTorch stores them.

    The exporter writes a product and a sum, which is another pass over the result. It transposes the weights, so that a
    graph that refers to those of PyTorch would copy them when it is loaded.
    """
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(path))
    graph = model.graph
    constants = {constant.name: constant for constant in graph.initializer}
    rank = {value.name: len(value.type.tensor_type.shape.dim) for value in graph.value_info}
    users: dict[str, list[Any]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            users[name].append(node)

    def find_bias(node: Any) -> str | None:
        """Return the bias of a linear layer that has its own weight, given the product."""
        if node.op_type != "MatMul" or rank.get(node.input[0]) != 3:
            return None
        weight, sums = constants.get(node.input[1]), users[node.output[0]]
        if weight is None or len(weight.dims) != 2:
            return None
        is_layer = len(users[weight.name]) == 1 and [user.op_type for user in sums] == ["Add"]
        return next((name for name in sums[0].input if name in constants), None) if is_layer else None

    nodes, heads, shapes, made = [], dict[str, Any](), dict[str, list[int]](), set[str]()
    for node in graph.node:
        if (bias := find_bias(node)) is None:
            nodes += [] if node.output[0] in made else [node]
            continue
        weight, result = constants[node.input[1]], users[node.output[0]][0].output[0]
        values = numpy_helper.to_array(weight)
        weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values.T), weight.name))
        before, after = values.shape
        rows, width, sizes = f"join/rows of {before}", f"join/{after}", f"join/sizes of {after}"
        shapes |= {rows: [-1, before], width: [after]}
        heads[sizes] = helper.make_node("Concat", ["join/sizes", width], [sizes], axis=0)
        nodes += [
            helper.make_node("Reshape", [node.input[0], rows], [f"{result}/rows"]),
            helper.make_node("Gemm", [f"{result}/rows", weight.name, bias], [f"{result}/sum"], transB=1),
            helper.make_node("Reshape", [f"{result}/sum", sizes], [result]),
        ]
        made.add(result)
    # The numbers of windows and pieces come first.
    nodes = [helper.make_node("Shape", [INPUTS[0]], ["join/sizes"]), *heads.values(), *nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in shapes.items())
    path.write_bytes(model.SerializeToString())


# Constants of the graph up to this number of bytes, such as shapes and masks, are stored in it.
_MAX_INLINE = 4096


class _StoredWeights:
    """The tensors of a safetensors file, found by their values."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.places = find_tensors(path)
        self._values = read_tensors(path)
        self._by_shape: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for name, value in self._values.items():
            self._by_shape[value.shape].append(name)

    def find(self, values: Array) -> tuple[StoredTensor, bool] | None:
        """Return the tensor with these values, and whether it has to be transposed; None if there is none."""
        forms = [(values, False)] if values.ndim != 2 else [(values, False), (values.T, True)]
        for form, is_transposed in forms:
            for name in self._by_shape[form.shape]:
                if np.array_equal(self._values[name], form):
                    return self.places[name], is_transposed
        return None


def share_weights(path: Path, weights: Path) -> None:
    """Replace the weights in an ONNX file by references to a safetensors file, which has to be in the same folder.

    Raises:
        ModelError: If a large weight of the graph is not in the safetensors file.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    graph, stored = model.graph, _StoredWeights(weights)
    kept, first = [], []
    for constant in graph.initializer:
        values = numpy_helper.to_array(constant)
        found = stored.find(values) if values.dtype == np.float32 and values.size > 1 else None
        if found is not None:
            kept.append(_external(constant.name, found[0], stored.name))
            first += _restore(graph, kept[-1], is_transposed=found[1])
        elif values.nbytes <= _MAX_INLINE:
            kept.append(constant)
        else:
            raise ModelError(
                f"the exported encoder has a weight of {values.nbytes:,} bytes that is not in {str(weights)!r}",
                "Export the model to another folder",
            )
    nodes = [*first, *graph.node]
    del graph.initializer[:], graph.node[:], graph.value_info[:], graph.metadata_props[:], model.metadata_props[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    _shorten(graph)
    path.write_bytes(model.SerializeToString())


def reuse_graph(source: Path, weights: Path, path: Path) -> bool:
    """Write the graph of another model's encoder, made by :func:`share_weights`, with the weights of this model.

    This takes no time, but only :func:`require_same_vectors` shows whether both encoders compute the same. A graph
    converts weights that are stored in 16 bits, which does no harm to those in 32.

    Args:
        source: Folder of the other model.
        weights: The safetensors file of this model.
        path: File for the graph, in the same folder.

    Returns:
        Whether there is such a graph, and this model has all of its weights in the same shapes.
    """
    import onnx
    from onnx import TensorProto

    if not (source / ENCODER_FILE).is_file():
        return False
    model = onnx.load(str(source / ENCODER_FILE), load_external_data=False)
    names = {str(tensor.offset): name for name, tensor in find_tensors(source / WEIGHTS_FILE).items()}
    places = find_tensors(weights)
    for constant in model.graph.initializer:
        offset = next((entry.value for entry in constant.external_data if entry.key == "offset"), None)
        if offset is None:
            continue
        tensor = places.get(names.get(offset, ""))
        if tensor is None or list(tensor.shape) != list(constant.dims):
            return False
        found = _external(constant.name, tensor, weights.name)
        if found.data_type not in (constant.data_type, TensorProto.FLOAT):
            return False
        constant.CopyFrom(found)
    path.write_bytes(model.SerializeToString())
    return True


def _external(name: str, tensor: StoredTensor, file: str) -> Any:
    """Return a weight whose values are in another file."""
    from onnx import TensorProto

    types = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16}
    found = TensorProto(name=name, dims=tensor.shape, data_type=types[tensor.dtype], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", tensor.offset), ("length", tensor.length)):
        found.external_data.add(key=key, value=str(value))
    return found


def _restore(graph: Any, weight: Any, *, is_transposed: bool) -> list[Any]:
    """Make the nodes that turn a stored weight into that of the graph, under whose name the graph knows it.

    Rows of a table are converted after they are looked up, so that the table is not copied.
    """
    from onnx import TensorProto, helper

    name, is_float32 = weight.name, weight.data_type == TensorProto.FLOAT
    users = [node for node in graph.node if name in node.input]
    if not is_transposed and all(node.op_type == "Gather" and node.input[0] == name for node in users):
        if not is_float32:
            for node in users:
                _cast_output(graph, node)
        return []
    steps: list[tuple[str, dict[str, Any]]] = []
    if is_transposed:
        steps.append(("Transpose", {"perm": [1, 0]}))
    if not is_float32:
        steps.append(("Cast", {"to": TensorProto.FLOAT}))
    nodes = []
    for number, (operator, attributes) in enumerate(steps):
        given, made = f"{name}/{number}", name if number == len(steps) - 1 else f"{name}/{number + 1}"
        nodes.append(helper.make_node(operator, [given], [made], **attributes))
    if nodes:
        weight.name = nodes[0].input[0]
    return nodes


def _cast_output(graph: Any, node: Any) -> None:
    """Convert the output of a node to float32."""
    from onnx import TensorProto, helper

    made = node.output[0]
    node.output[0] = f"{made}/stored"
    at = next(number for number, other in enumerate(graph.node) if other.output[0] == node.output[0])
    graph.node.insert(at + 1, helper.make_node("Cast", [node.output[0]], [made], to=TensorProto.FLOAT))


def _shorten(graph: Any) -> None:
    """Drop descriptions and replace names by short ones, which are most of a graph without weights."""
    kept = {value.name for value in (*graph.input, *graph.output)}
    names = {"": "", **{name: name for name in kept}}
    fresh = (f"{number:x}" for number in count())
    has_subgraphs = any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)
    for node in graph.node:
        node.name = node.doc_string = ""
        del node.metadata_props[:]
        # A subgraph refers to values of the graph around it.
        if not has_subgraphs:
            for values in (node.input, node.output):
                values[:] = [names[name] if name in names else names.setdefault(name, next(fresh)) for name in values]
    for constant in graph.initializer:
        constant.doc_string = ""
        constant.name = names.get(constant.name, constant.name)
