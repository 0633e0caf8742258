"""An ONNX graph whose weights stay in the safetensors file of the model.

The weights of the graph are external data: the place of a tensor in ``model.safetensors``. They keep their type there,
such as float16. ONNX Runtime converts and transposes them once, when it loads the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from cascade_srn.errors import ModelError
from cascade_srn.model.folder import StoredTensor, find_tensors, read_tensors
from cascade_srn.runtime.layers import Array

# Constants of the graph up to this number of bytes, such as shapes and masks, are stored in it.
_MAX_INLINE = 4096
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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

    Args:
        path: The ONNX file, in float32. It is replaced.
        weights: The safetensors file.

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
    fresh = _fresh_names(kept)
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


def _fresh_names(taken: set[str]) -> Iterator[str]:
    """Yield short names in turn: 0, 1, …, z, 10, 11, …"""
    for number in count():
        digits, rest = "", number
        while rest or not digits:
            rest, digit = divmod(rest, len(_DIGITS))
            digits = _DIGITS[digit] + digits
        if digits not in taken:
            yield digits
