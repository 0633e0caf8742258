"""Let a saved model of torch run without torch as well: add an encoder for ONNX Runtime to its folder."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from tokenizers import Tokenizer

from cascade_srn.errors import ModelError
from cascade_srn.formats.files import replacing
from cascade_srn.model.folder import ENCODER_FILE, LIGHT_FILE, LIGHT_NEEDS, TOKENIZER_FILE, WEIGHTS_FILE
from cascade_srn.model.model import Model
from cascade_srn.storage.atomic import replace_durably, try_writing
from cascade_srn.training.export.encoder import export_encoder, require_same_vectors
from cascade_srn.training.export.run import ExportResult, check_model, describe_runtime
from cascade_srn.training.export.shared import share_weights

# Words that tokenizers treat in different ways.
_WORDS = (
    *("We", "don't", "Überraschung", "naïve", "state-of-the-art", "F1=0.5", "[CLS]", "<s>", "ﬁnal", "\u200b"),
    *("深度学习", "(", "``", "x²", "e.g.", "UPPER", "lower", "tokenization", "antidisestablishmentarianism", "🙂"),
)


def add_light_files(folder: str | Path) -> ExportResult:
    """Add the two files with which a model of torch also runs without torch.

    ``encoder.onnx`` has the graph of the encoder, whose weights stay in ``model.safetensors``. ``light.json`` has what
    ONNX Runtime and NumPy need besides. Torch is still used where it is installed. Earlier files are replaced.

    Args:
        folder: Folder of a saved cascade with an SRN.

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
        export_encoder(encoder, made, limit=limit)
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
