"""Write the ONNX graph of an encoder in int8, except for the products that lose most.

Inputs of products have a few large channels, which would leave few steps to the others. Each channel is divided by a
factor that its weights are multiplied by, as in SmoothQuant (Xiao et al., ICML 2023). Factors and ranges are measured
on calibration windows. Inputs of contracting layers get their scale from each row while the model runs, because their
rows differ most. No scale depends on other windows, so that windows can be read together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.encoder.windows import Integers
from cascade_srn.runtime.layers import Array
from cascade_srn.runtime.model import INPUTS, OUTPUT, start_session

# How much of the difference between channels moves from the inputs to the weights, between 0 and 1.
_SMOOTHING = 0.7
# Zero of the inputs among 0 to 255: in the middle, or low if few values are negative, as after a GELU.
_MIDDLE, _LOW = 128, 32
_TINY = 1e-12
# Smaller tables of embeddings stay in float32.
_MIN_TABLE = 1 << 16
MAX_WINDOWS = 256
_MEASURED_WINDOWS = 16


class Quantizer:
    """Quantizes an encoder. Products with the same input, such as those of queries, keys and values, belong together.

    Args:
        path: The encoder in float32, as ONNX.
        windows: Pieces of real texts. Shape of each: (n_pieces,)
    """

    def __init__(self, path: Path, windows: Sequence[Integers]) -> None:
        import onnx
        from onnx import numpy_helper

        self._data = path.read_bytes()
        graph = onnx.load_from_string(self._data).graph
        self.windows = windows[:: -(-len(windows) // MAX_WINDOWS) or 1]
        self._weights: dict[str, Array] = {
            item.name: numpy_helper.to_array(item) for item in graph.initializer if item.data_type == 1
        }
        self._products: dict[str, list[str]] = defaultdict(list)  # weights by input
        for node in graph.node:
            if node.op_type == "MatMul" and self._weights.get(node.input[1], np.empty(0)).ndim == 2:
                self._products[node.input[0]].append(node.input[1])
        self._low, self._high = self._measure_ranges()

    @property
    def inputs(self) -> list[str]:
        """The inputs that can be quantized, in the order of the graph."""
        return list(self._products)

    @cached_property
    def ranking(self) -> list[str]:
        """The inputs by the error of the encoder if only they are quantized, the largest error first."""
        windows = self.windows[:: -(-len(self.windows) // _MEASURED_WINDOWS) or 1]
        expected = [found[0] for found in _run(self._data, [OUTPUT], windows)]
        error = {}
        for name in self.inputs:
            others = [other for other in self.inputs if other != name]
            found = _run(self.quantize(float32=others, tables=False), [OUTPUT], windows)
            pairs = zip(found, expected, strict=True)
            error[name] = float(np.mean([np.square(one[0] - other).mean() for one, other in pairs]))
        return sorted(self.inputs, key=lambda name: -error[name])

    def _measure_ranges(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the smallest and the largest value of each channel of each input, at most and at least 0."""
        import onnx
        from onnx import helper

        model = onnx.load_from_string(self._data)
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self.inputs)
        low, high = ({name: np.zeros(1, np.float32) for name in self.inputs} for _ in range(2))
        for found in _run(model.SerializeToString(), self.inputs, self.windows):
            for name, values in zip(self.inputs, found, strict=True):
                rows = values.reshape(-1, values.shape[-1])
                low[name], high[name] = np.minimum(low[name], rows.min(0)), np.maximum(high[name], rows.max(0))
        return low, high

    def quantize(self, *, float32: Collection[str] = (), tables: bool = True) -> bytes:
        """Return the graph in int8.

        Args:
            float32: Inputs whose products stay in float32, with weights in float16.
            tables: Store the embeddings in 8 bits, with a scale for each row.
        """
        import onnx

        model = onnx.load_from_string(self._data)
        rewriter = _Rewriter(model.graph)
        for node in list(model.graph.node):
            name = node.input[0] if node.input else ""
            if node.op_type == "MatMul" and node.input[1] in self._products.get(name, ()):
                if name in float32:
                    rewriter.store_half(node.input[1], self._weights[node.input[1]])
                else:
                    self._replace_product(rewriter, node)
            elif tables and node.op_type == "Gather" and self._is_table(name):
                rewriter.look_up(node, self._weights[name])
        return rewriter.finish(model)

    def _is_table(self, name: str) -> bool:
        return name in self._weights and self._weights[name].ndim == 2 and self._weights[name].size >= _MIN_TABLE

    def _replace_product(self, rewriter: _Rewriter, node: Any) -> None:
        name, weight = node.input
        weights = [self._weights[each] for each in self._products[name]]
        largest = np.maximum(-self._low[name], self._high[name])
        factors = _smoothing(largest, np.max([np.abs(each).max(1) for each in weights], axis=0))
        low, high = -(self._low[name] / factors).min(), (self._high[name] / factors).max()
        zero = _LOW if low < 0.1 * high else _MIDDLE
        by_row = any(each.shape[0] > each.shape[1] for each in weights)
        if not by_row:
            factors = factors * np.float32(max(low / zero, high / (255 - zero), _TINY))
        rewriter.quantize_input(name, factors, zero, by_row=by_row)
        rewriter.multiply(node, self._weights[weight] * factors[:, None], by_row=by_row)


def _smoothing(inputs: Array, weights: Array) -> Array:
    """Return the factor of each channel from its largest input and weight."""
    factors = np.maximum(inputs, _TINY) ** _SMOOTHING / np.maximum(weights, _TINY) ** (1 - _SMOOTHING)
    found: Array = np.maximum(factors, 1e-4 * factors.max()).astype(np.float32)
    return found


def _run(model: bytes, outputs: Sequence[str], windows: Sequence[Integers]) -> list[list[Array]]:
    """Run an encoder on each window."""
    session = start_session(model, 1)
    names = {item.name for item in session.get_inputs()}
    found = []
    for window in windows:
        given = dict(zip(INPUTS, (window[None], np.ones_like(window)[None]), strict=True))
        found.append(session.run(list(outputs), {name: value for name, value in given.items() if name in names}))
    return found


class _Rewriter:
    """Replaces nodes of a graph. New constants have the name of what they belong to."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._constants: dict[str, NDArray[Any]] = {}
        for name, value in (("one", np.float32(1)), ("tiny", np.float32(_TINY)), ("last", np.array([-1]))):
            self._constant(f"q/{name}", value)
        self._before: dict[int, list[Any]] = {}  # new nodes, by the place of the node that they replace
        self._made: set[str] = set()
        self._pending: list[Any] = []
        self._places = {node.output[0]: place for place, node in enumerate(graph.node)}
        self._sizes = {item.name: tuple(item.dims) for item in graph.initializer}
        self._users: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._users[name].append(node)

    def _constant(self, name: str, value: Any) -> str:
        self._constants[name] = np.asarray(value)
        return name

    def _node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self._pending.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _replace(self, node: Any, *others: Any) -> None:
        """Put the pending nodes in the place of a node, and drop others."""
        self._before[self._places[node.output[0]]] = self._pending
        for other in others:
            self._before[self._places[other.output[0]]] = []
        self._pending = []

    def quantize_input(self, name: str, factors: Array, zero: int, *, by_row: bool) -> None:
        """Quantize the input of products once, with one scale or with a scale for each row."""
        if name in self._made:
            return
        self._made.add(name)
        self._constant(f"{name}/zero", np.uint8(zero))
        values = self._node("Mul", [name, self._constant(f"{name}/factors", 1 / factors)], f"{name}/even")
        if by_row:
            largest = self._node("ReduceMax", [values, "q/last"], f"{name}/largest", keepdims=1)
            smallest = self._node("ReduceMin", [values, "q/last"], f"{name}/smallest", keepdims=1)
            up = self._constant(f"{name}/up", np.float32(1 / (255 - zero)))
            down = self._constant(f"{name}/down", np.float32(-1 / zero))
            scales = [
                self._node("Mul", [largest, up], f"{name}/scale up"),
                self._node("Mul", [smallest, down], f"{name}/scale down"),
            ]
            scale = self._node("Max", [*scales, "q/tiny"], f"{name}/scale")
            values = self._node("Div", [values, scale], f"{name}/scaled")
        self._node("QuantizeLinear", [values, "q/one", f"{name}/zero"], f"{name}/int8")

    def multiply(self, node: Any, weight: Array, *, by_row: bool) -> None:
        """Multiply a quantized input by a weight in int8, with a scale for each output channel."""
        name, made = node.input[0], node.output[0]
        scale = np.maximum(np.abs(weight).max(0) / 127, _TINY).astype(np.float32)
        values = [f"{name}/int8", self._constant(f"{made}/weight", np.rint(weight / scale).astype(np.int8)), "q/one"]
        values += [self._constant(f"{made}/weight scale", scale), f"{name}/zero"]
        operator, attributes = "MatMulIntegerToFloat", {"domain": "com.microsoft"}
        users = self._users[made]
        bias = [each for user in users for each in user.input if self._sizes.get(each) == scale.shape]
        if by_row:
            product = self._node(operator, values, f"{made}/unscaled", **attributes)
            self._node("Mul", [product, f"{name}/scale"], made)
            self._replace(node)
        elif bias and [user.op_type for user in users] == ["Add"]:
            self._node(operator, [*values, "", *bias], users[0].output[0], **attributes)
            self._replace(node, users[0])
        else:
            self._node(operator, values, made, **attributes)
            self._replace(node)

    def look_up(self, node: Any, table: Array) -> None:
        """Look up rows of a table in int8, with a scale for each row."""
        name, rows = node.input
        scale = np.maximum(np.abs(table).max(1, keepdims=True) / 127, _TINY).astype(np.float32)
        self._constant(f"{name}/int8", np.rint(table / scale).astype(np.int8))
        self._constant(f"{name}/scale", scale)
        made = node.output[0]
        found = self._node("Gather", [f"{name}/int8", rows], f"{made}/int8")
        values = self._node("Cast", [found], f"{made}/unscaled", to=1)
        scales = self._node("Gather", [f"{name}/scale", rows], f"{made}/scale")
        self._node("Mul", [values, scales], made)
        self._replace(node)

    def store_half(self, name: str, weight: Array) -> None:
        """Store a weight in float16. ONNX Runtime converts it when the model is loaded."""
        from onnx import helper

        if f"{name}/half" in self._constants:
            return
        self._constant(f"{name}/half", weight.astype(np.float16))
        self._before.setdefault(-1, []).append(helper.make_node("Cast", [f"{name}/half"], [name], to=1))

    def finish(self, model: Any) -> bytes:
        """Return the new graph, without constants that nothing uses."""
        from onnx import helper, numpy_helper

        nodes = list(self._before.get(-1, []))
        for place, node in enumerate(self.graph.node):
            nodes += self._before.get(place, [node])
        made = {name for node in nodes for name in node.output}
        used = {name for node in nodes for name in node.input} - made
        kept = [item for item in self.graph.initializer if item.name in used]
        kept += [numpy_helper.from_array(value, name) for name, value in self._constants.items() if name in used]
        del self.graph.node[:], self.graph.initializer[:], self.graph.value_info[:]
        self.graph.node.extend(nodes)
        self.graph.initializer.extend(kept)
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        data: bytes = model.SerializeToString()
        return data
