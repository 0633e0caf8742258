"""The pretrained encoder as an ONNX graph, in float32 or with weights of 8 bits."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cascade_srn.errors import ModelError
from cascade_srn.runtime.model import INPUTS, OUTPUT

OPSET = 18
# Protocol buffers, and thus files of ONNX without external data, are limited to 2 GiB.
_MAX_BYTES = 1_800_000_000
# Largest difference between the vectors of torch and of ONNX Runtime. Their typical size is 1.
MAX_DIFFERENCE = 1e-3
_OPERATORS = ["MatMul", "Gemm"]


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

    Args:
        model: The encoder, in evaluation mode and on the CPU.
        path: File to write.
        limit: Largest number of pieces in a window.

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
    with _quiet():
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


def compare_encoders(model: Any, path: Path, *, limit: int) -> float:
    """Return the largest difference between the vectors of torch and of an exported encoder, at several sizes."""
    from cascade_srn.runtime.model import Session

    session, largest = Session(path), 0.0
    for n_windows, n_pieces in ((1, 1), (1, limit), (3, min(11, limit))):
        ids, mask = _sample(model, n_windows=n_windows, n_pieces=n_pieces)
        with torch.inference_mode():
            expected = _Encoder(model)(ids, mask).numpy()
        difference = np.abs(session.read(ids.numpy(), mask.numpy()) - expected)[mask.numpy().astype(bool)]
        largest = max(largest, float(difference.max()))
    return largest


def require_same_vectors(model: Any, path: Path, *, limit: int) -> float:
    """Return the result of :func:`compare_encoders`.

    Raises:
        ModelError: If the vectors differ by more than ``MAX_DIFFERENCE``.
    """
    difference = compare_encoders(model, path, limit=limit)
    if not difference <= MAX_DIFFERENCE:
        raise ModelError(
            f"the exported encoder computes other vectors than torch: they differ by up to {difference:.3g}",
            "Use the model without exporting it",
        )
    return difference


def quantize_encoder(path: Path) -> None:
    """Replace the weights of an ONNX file by integers of 8 bits, with a scale for each output channel.

    One scale for a whole weight loses several times as much, because a few channels have much larger weights. Two parts
    stay in float32: the embeddings, which would have a single scale and need no time, and the second layer of each
    feed-forward network, whose inputs have large outliers.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(str(path)).graph
    shapes = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    contracting = [node.name for node in graph.node if node.op_type == "MatMul" and _is_contracting(node, shapes)]
    written = path.with_suffix(".int8")
    with _quiet():
        quantize_dynamic(
            path,
            written,
            per_channel=True,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=_OPERATORS,
            nodes_to_exclude=contracting,
        )
    written.replace(path)


def _is_contracting(node: Any, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a product has a weight with more inputs than outputs."""
    weight = next((shapes[name] for name in node.input if len(shapes.get(name, ())) == 2), None)
    return weight is not None and weight[0] > weight[1]


def _sample(model: Any, *, n_windows: int, n_pieces: int) -> tuple[Tensor, Tensor]:
    """Return random pieces and a mask in which the last window is padded."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (n_windows, n_pieces), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, (n_pieces + 1) // 2 :] = 0
    return ids, mask


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress reports and warnings of the exporter and the quantizer."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
