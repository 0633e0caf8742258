"""Export a model: to another folder, compared with the model, or as an addition to its own folder."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from cascade_srn.config import ModelSettings
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.evaluation.calibration.calibrate import calibrate
from cascade_srn.evaluation.calibration.precision import measure_precision
from cascade_srn.evaluation.evaluate import check_labels, read_annotated
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.files import replacing
from cascade_srn.formats.reports import ReadReport
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.model.card import model_card
from cascade_srn.model.folder import (
    CARD_FILE,
    CHECKSUMS,
    CONFIG_FILE,
    ENCODER_FILE,
    EXPORT,
    EXPORT_VERSION,
    FORMAT_VERSION,
    LIGHT_FILE,
    LIGHT_NEEDS,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    write_precision,
)
from cascade_srn.model.model import Model
from cascade_srn.runtime.model import ENCODER_WEIGHTS, LightModel
from cascade_srn.storage.atomic import replace_durably, replacing_folder, try_writing
from cascade_srn.storage.bundled import find_model
from cascade_srn.storage.files import checksum, file_crc32
from cascade_srn.training.export.encoder import (
    export_encoder,
    join_biases,
    require_same_vectors,
    reuse_graph,
    share_weights,
)
from cascade_srn.training.export.parity import GUARDED, MAX_LOSS, Comparison, Parity
from cascade_srn.training.export.quantize import Quantizer
from cascade_srn.training.run_folder import TASKS
from cascade_srn.types import Document
from cascade_srn.version import __version__

SEQUENCE_ENCODERS = ("srn", "bisrn")
REPORT_FILE = "parity.json"
MAX_FLOAT32 = 0.25
"""Largest share of the inputs of layers that stay in float32. More of them would leave int8 no use."""


@dataclass(frozen=True)
class ExportResult:
    """An exported model."""

    folder: Path  # Its folder
    precision: str  # Precision of the encoder, "float32" or "int8"
    n_bytes: int  # Size of all files
    encoder_difference: float  # Largest difference of the vectors of the encoder in float32
    parity: Parity | None  # Comparison on the given documents, if there are any
    recalibrated: bool  # Whether thresholds and temperatures were chosen again
    n_float32: int | None = None  # In int8, the number of inputs of layers that stay in float32

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = asdict(self) | {"folder": str(self.folder)}
        return values | {"parity": None if self.parity is None else self.parity.to_dict()}


def export_model(
    model: str | Path,
    output: str | Path,
    *,
    int8: bool = False,
    dev: str | None = None,
    format: str | None = None,
    align: Align = "exact",
    allow_loss: bool = False,
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> ExportResult:
    """Write a model in a form that runs without torch and transformers.

    :meth:`.Extractor.from_pretrained` reads the folder. It has the encoder as ONNX, all other weights, the tokenizer, a
    card, and ``parity.json`` with the comparison. A previous export in the folder is replaced at the end.

    Args:
        model: Folder, name or hub id of a cascade with an SRN.
        output: A new or empty folder, or one with an exported model.
        int8: Store the weights of the encoder in 8 bits, except for the layers that lose most on ``dev``, and the other
            weights in float16. Thresholds and temperatures are chosen again on ``dev`` if that helps.
        dev: Annotated documents on which the exported model is compared with the model. Needed for ``int8``.
        format: Format of these documents; detected if None.
        align: "exact" to reject offsets inside a word, or "expand" to extend them to whole words.
        allow_loss: Accept an exported model that loses more than 0.1 points of F1.
        on_read: Called with the report of reading the documents.

    Raises:
        ConfigError: If ``int8`` is given without ``dev``.
        DataError: If the documents cannot be read or have no entities.
        ModelError: If the model cannot be exported, or the exported model loses too much.
        SchemaError: If the documents have labels that the model does not have.

    Example:
        >>> result = export_model("scierc-small", "light")  # doctest: +SKIP
        >>> result.precision, result.n_bytes // 1_000_000  # doctest: +SKIP
        ('float32', 100)
    """
    if int8 and dev is None:
        raise ConfigError(
            "the ranges and the loss of int8 cannot be measured without annotated documents",
            "Give documents that the model was not trained on",
            option="dev",
        )
    documents = [] if dev is None else read_annotated(dev, format, align, on_read)
    folder = find_model(model)
    loaded = Model.load(folder)
    check_model(loaded)
    if dev is not None:
        check_labels(loaded.schema, documents, model=str(model), data=dev)
    with replacing_folder(output, marker=CONFIG_FILE, key=EXPORT) as target:
        encoder, limit = loaded.network.encoder.model, loaded.cascade_collator.pieces.limit
        export_encoder(encoder, target / ENCODER_FILE, limit=limit)
        if not int8:
            join_biases(target / ENCODER_FILE)
        difference = require_same_vectors(encoder, target / ENCODER_FILE, limit=limit)
        _write_weights(loaded, target, np.float16 if int8 else np.float32)
        parity, settings, n_float32 = None, loaded.settings, None
        if dev is None:
            _write_config(loaded, settings, target, None)
        else:
            comparison = Comparison(loaded, documents, Path(dev).name)
            export = _export_int8 if int8 else _export_float32
            parity, settings, n_float32 = export(loaded, target, comparison)
            if not parity.is_accepted and not allow_loss:
                raise _too_much_loss(parity)
        result = ExportResult(
            Path(output),
            "int8" if int8 else "float32",
            0,
            difference,
            parity,
            recalibrated=settings != loaded.settings,
            n_float32=n_float32,
        )
        write_precision(target, _precision_record(loaded, target, documents))
        _write_card(folder, loaded, target, result)
        (target / REPORT_FILE).write_text(json.dumps(_report(result), indent=2) + "\n", encoding="utf-8")
        return replace(result, n_bytes=sum(path.stat().st_size for path in target.iterdir()))


def check_model(model: Model) -> None:
    """Refuse models that the light runtime cannot run."""
    model.require_cascade("an export")
    if model.settings.sequence_encoder not in SEQUENCE_ENCODERS:
        raise ModelError(
            f"the model has the sequence encoder {model.settings.sequence_encoder!r}, which cannot be exported",
            f"Export a model with one of {', '.join(SEQUENCE_ENCODERS)}",
        )


_Exported = tuple[Parity, ModelSettings, int | None]


def _export_float32(model: Model, target: Path, comparison: Comparison) -> _Exported:
    _write_config(model, model.settings, target, None)
    return comparison.compare(LightModel.load(target)), model.settings, None


def _export_int8(model: Model, target: Path, comparison: Comparison) -> _Exported:
    """Quantize the encoder. Its most sensitive inputs stay in float32, as few of them as the comparison accepts.

    If it accepts none, thresholds and temperatures are chosen again for the best, and used if they lose less.
    """
    path, collator = target / ENCODER_FILE, model.cascade_collator
    rows = collator.pieces.arrays([collator.plain(example) for example in comparison.examples])
    windows = [ids[mask] for ids, mask in zip(rows.piece_ids, rows.piece_mask, strict=True)]
    quantizer = Quantizer(path, windows)
    best: tuple[Parity, int] | None = None

    def write(settings: ModelSettings, n_float32: int) -> None:
        # The ranking takes a while, and is not needed if all products are quantized.
        path.write_bytes(quantizer.quantize(float32=quantizer.ranking[:n_float32] if n_float32 else ()))
        _write_config(model, settings, target, n_float32)

    for n_float32 in range(int(MAX_FLOAT32 * len(quantizer.inputs)) + 1):
        write(model.settings, n_float32)
        parity = comparison.compare(LightModel.load(target))
        if parity.is_accepted:
            return parity, model.settings, n_float32
        if best is None or parity.worst_loss < best[0].worst_loss:
            best = parity, n_float32
    assert best is not None
    parity, n_float32 = best
    write(model.settings, n_float32)
    # An exported model has everything that calibration uses of a model.
    chosen = cast(LightModel, calibrate(cast(Model, LightModel.load(target)), comparison.examples))
    other = comparison.compare(chosen)
    if other.worst_loss >= parity.worst_loss:
        return parity, model.settings, n_float32
    _write_config(model, chosen.settings, target, n_float32)
    return other, chosen.settings, n_float32


def _precision_record(model: Model, target: Path, documents: Sequence[Document]) -> PrecisionRecord | None:
    """Return the precision statistics of an exported model. Scores in 8 bits differ from those of the model."""
    exported = LightModel.load(target)
    if documents:
        return measure_precision(exported, documents)
    return model.precision_record if exported.precision == "float32" else None


def _too_much_loss(parity: Parity) -> ModelError:
    losses = [f"{TASKS[task]} {parity.before[task]:.1f} → {parity.after[task]:.1f}" for task in GUARDED]
    return ModelError(
        f"the exported model loses more than {MAX_LOSS} points of F1 on {parity.data!r} ({', '.join(losses)})",
        "Export it in float32, or accept the loss",
        option="allow_loss",
    )


def _write_weights(model: Model, target: Path, dtype: type[np.floating[Any]]) -> None:
    """Write all weights except the pretrained encoder, and the tokenizer."""
    weights = {
        name: np.ascontiguousarray(value.detach().cpu().float().numpy().astype(dtype))
        for name, value in model.network.state_dict().items()
        if not name.startswith(ENCODER_WEIGHTS)
    }
    save_file(weights, target / WEIGHTS_FILE)
    model.tokenizer.backend_tokenizer.save(str(target / TOKENIZER_FILE))


def _write_config(model: Model, settings: ModelSettings, target: Path, n_float32: int | None) -> None:
    """Write the configuration. ``n_float32`` is that of :class:`ExportResult`."""
    runtime = describe_runtime(
        model, "float32" if n_float32 is None else "int8", {name: target / name for name in LIGHT_NEEDS}
    )
    name = Path(settings.encoder.name).name if Path(settings.encoder.name).exists() else settings.encoder.name
    stored = replace(settings, encoder=replace(settings.encoder, name=name)).to_dict()
    config = {
        "format_version": FORMAT_VERSION,
        "cascade_srn_version": __version__,
        "model": {key: value for key, value in stored.items() if key != "start"},
        "schema": model.schema.to_dict(),
        "encoder": {"model_type": model.network.encoder.config.model_type},
        EXPORT: runtime if n_float32 is None else runtime | {"n_float32": n_float32},
        CHECKSUMS: {name: checksum(target / name) for name in LIGHT_NEEDS},
    }
    (target / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def describe_runtime(model: Model, precision: str, files: Mapping[str, Path]) -> dict[str, Any]:
    """Return what the light runtime has to know of a model besides its settings, as plain values."""
    pieces = model.cascade_collator.pieces
    return {
        "version": EXPORT_VERSION,
        "precision": precision,
        "n_parameters": sum(parameter.numel() for parameter in model.network.parameters()),
        "limit": pieces.limit,
        "special_pieces": asdict(pieces.special),
        "markers": dict(model.cascade_collator.markers.ids),
        "crc32": {name: file_crc32(path) for name, path in files.items()},
    }


def _report(result: ExportResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key not in ("folder", "n_bytes")}


def _write_card(folder: Path, model: Model, target: Path, result: ExportResult) -> None:
    """Write the card of the model with a section about the export."""
    try:
        card = (folder / CARD_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        card = model_card(model.settings, model.schema, Path(model.settings.encoder.name).name)
    lines = [
        "## Export",
        "",
        f"Exported by cascade-srn {__version__} for ONNX Runtime. The encoder is in {result.precision}.",
    ]
    if result.recalibrated:
        lines.append("Thresholds and temperatures were chosen again for it.")
    if (parity := result.parity) is None:
        lines += ["", "It was not compared with the original model on documents."]
    else:
        lines += ["", f"Micro F1 on {parity.data} ({parity.n_sentences} sentences):", ""]
        lines += ["| | original | exported |", "| --- | --- | --- |"]
        lines += [f"| {name} | {parity.before[task]:.1f} | {parity.after[task]:.1f} |" for task, name in TASKS.items()]
        lines += [
            "",
            f"Entities or relations differ in {parity.n_changed} sentences. Scores differ by at most "
            f"{parity.max_score_difference:.2g}.",
        ]
    (target / CARD_FILE).write_text(f"{card.rstrip()}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


# Words that tokenizers treat in different ways.
_WORDS = (
    *("We", "don't", "Überraschung", "naïve", "state-of-the-art", "F1=0.5", "[CLS]", "<s>", "ﬁnal", "\u200b"),
    *("深度学习", "(", "``", "x²", "e.g.", "UPPER", "lower", "tokenization", "antidisestablishmentarianism", "🙂"),
)


def add_light_files(folder: str | Path, *, start: str | Path | None = None) -> ExportResult:
    """Add the two files with which a PyTorch model also runs without torch.

    ``encoder.onnx`` has the graph of the encoder, whose weights stay in ``model.safetensors``. ``light.json`` has what
    ONNX Runtime and NumPy need besides. Torch is still used where it is installed. Earlier files are replaced.

    Args:
        folder: Folder of the model.
        start: The model that it was trained from. If this has such a graph, it is used again, which saves some seconds.

    Raises:
        ModelError: If this is not a folder, or the model cannot be exported.

    Example:
        >>> add_light_files("runs/scierc/best").precision  # doctest: +SKIP
        'float32'
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelError(
            f"{str(folder)!r} is not a folder, so that nothing can be added to it",
            "Give the folder of a saved model",
            option="in_place",
        )
    try_writing(folder)
    model = Model.load(folder)
    check_model(model)
    _check_tokenizer(model, folder / TOKENIZER_FILE)
    encoder, limit = model.network.encoder.model, model.cascade_collator.pieces.limit
    # In the folder of the weights, which the graph refers to.
    made = folder / f".{ENCODER_FILE}.{secrets.token_hex(8)}"
    try:
        difference = None if start is None else _reuse(start, encoder, made, folder / WEIGHTS_FILE, limit=limit)
        if difference is None:
            export_encoder(encoder, made, limit=limit)
            join_biases(made)
            share_weights(made, folder / WEIGHTS_FILE)
            difference = require_same_vectors(encoder, made, limit=limit)
        files = {name: made if name == ENCODER_FILE else folder / name for name in LIGHT_NEEDS}
        light = describe_runtime(model, "float32", files)
        replace_durably(made, folder / ENCODER_FILE)
    finally:
        made.unlink(missing_ok=True)
    with replacing(folder / LIGHT_FILE) as file:
        file.write((json.dumps(light, indent=2) + "\n").encode())
    n_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return ExportResult(folder, "float32", n_bytes, difference, None, recalibrated=False)


def _reuse(start: str | Path, encoder: Any, made: Path, weights: Path, *, limit: int) -> float | None:
    """Write the graph of another model, and return the largest difference of its vectors; None if it does not fit."""
    from google.protobuf.message import DecodeError

    try:
        return (
            require_same_vectors(encoder, made, limit=limit) if reuse_graph(find_model(start), weights, made) else None
        )
    except (ModelError, OSError, DecodeError):
        return None  # The layers have another number of heads, or the other model is damaged or gone.


def _check_tokenizer(model: Model, path: Path) -> None:
    """Refuse a folder whose ``tokenizer.json`` alone makes other pieces than the tokenizer of transformers."""
    try:
        alone = Tokenizer.from_file(str(path))
    except Exception as error:
        # tokenizers raises plain exceptions.
        raise ModelError(
            f"{str(path)!r} cannot be read without transformers ({error})", "Export the model to another folder"
        ) from error
    whole = model.tokenizer.backend_tokenizer
    words = [*_WORDS, *(f" {word}" for word in _WORDS)]
    found, expected = ([each.encode(w, add_special_tokens=False).ids for w in words] for each in (alone, whole))
    if found != expected or alone.get_vocab() != whole.get_vocab():
        raise ModelError(
            f"{str(path)!r} alone makes other pieces than transformers does", "Export the model to another folder"
        )
