"""An encoder with a masked-language-model head."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM

from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer, quiet_transformers
from cascade_srn.errors import ModelError


def load_network(encoder: str, *, seed: int) -> tuple[Any, bool]:
    """Load an encoder by hub id or folder, in float32. A head that the checkpoint lacks is random, by the seed.

    Returns:
        The model, and whether its head is new.
    """
    # Reports defects of the encoder, and gives the weights to compare with.
    plain = load_encoder(encoder).model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, missing = _load(encoder)
        if _lacks_decoder(model, missing):
            torch.manual_seed(seed)
            model, missing = _load(encoder, tie_word_embeddings=True)
    if model.get_output_embeddings() is None:
        raise _unsupported(encoder, "its head has no decoder over the vocabulary")
    own = model.base_model.state_dict()
    for name, tensor in plain.state_dict().items():
        if name in own and not torch.equal(own[name], tensor):
            raise _unsupported(encoder, f"its weights {name!r} are not found under a head")
    return model, bool(missing)


def save_network(model: Any, folder: Path, *, encoder: str) -> None:
    """Write an encoder folder: configuration, weights, and the tokenizer of the original encoder.

    The folder contains the head, so that another adaptation can continue with it. Other readers ignore it.
    """
    with quiet_transformers():
        if hasattr(model.config, "auto_map"):
            # The folder does not contain the code that it names.
            del model.config.auto_map
        model.save_pretrained(folder)
        load_tokenizer(encoder).save_pretrained(folder)


def _load(encoder: str, **changes: Any) -> tuple[Any, set[str]]:
    """Load the model without running code of its repository; return it with the names of the weights it lacks."""
    try:
        with quiet_transformers():
            model, info = AutoModelForMaskedLM.from_pretrained(
                encoder, dtype=torch.float32, output_loading_info=True, trust_remote_code=False, **changes
            )
    except Exception as error:
        raise _unsupported(encoder, (str(error).strip() or "no reason").splitlines()[0]) from error
    return model, set(info["missing_keys"])


def _lacks_decoder(model: Any, missing: set[str]) -> bool:
    """Return whether the decoder is not tied to the embeddings and has no weights."""
    decoder = model.get_output_embeddings()
    if decoder is not None and decoder.weight is model.get_input_embeddings().weight:
        return False
    return any(module is decoder and f"{name}.weight" in missing for name, module in model.named_modules())


def _unsupported(encoder: str, reason: str) -> ModelError:
    return ModelError(
        f"the encoder {encoder!r} does not support masked-language-model training ({reason})",
        "Choose an encoder that AutoModelForMaskedLM supports, such as BERT, RoBERTa, MPNet, ELECTRA, ALBERT, DeBERTa "
        "or ModernBERT",
        option="encoder",
    )
