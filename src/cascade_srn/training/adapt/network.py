"""An encoder with a masked-language-model head, and the masking of words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer, quiet_transformers
from cascade_srn.errors import ModelError
from cascade_srn.training.adapt.packing import BEGINS, SPECIAL, Sequences

# Shares of masked pieces that are replaced by the mask and by a random piece. The others are not replaced.
_BY_MASK, _BY_OTHER = 0.8, 0.1


@dataclass(frozen=True)
class MaskedBatch:
    """Sequences with masked words."""

    ids: Tensor  # Piece ids, (n_rows, n_pieces)
    hidden: Tensor  # Flat positions of the masked pieces in ``ids``, ascending, (n_masked,)
    targets: Tensor  # The original pieces, (n_masked,)

    def to(self, device: torch.device) -> MaskedBatch:
        """Return the batch on a device."""
        return MaskedBatch(*(each.to(device, non_blocking=True) for each in (self.ids, self.hidden, self.targets)))

    def rows(self, start: int, stop: int, step: int = 1) -> MaskedBatch:
        """Return some of the rows with their masked pieces."""
        n_pieces = self.ids.shape[1]
        row = self.hidden // n_pieces
        own = (row >= start) & (row < stop) & ((row - start) % step == 0)
        place = (row[own] - start) // step * n_pieces + self.hidden[own] % n_pieces
        return MaskedBatch(self.ids[start:stop:step], place, self.targets[own])


class Masking:
    """Masks whole words of sequences."""

    def __init__(self, tokenizer: Any, *, share: float) -> None:
        self.share = share
        self._mask = int(tokenizer.mask_token_id)
        special = set(tokenizer.all_special_ids)
        plain = sorted(i for i in tokenizer.get_vocab().values() if i not in special)
        self._plain = np.array(plain, dtype=np.int64)

    def __call__(self, sequences: Sequences, chosen: NDArray[np.int64], *, seed: list[int]) -> MaskedBatch:
        """Mask words of the chosen sequences. The same seed gives the same words."""
        random = np.random.default_rng(seed)
        ids, kinds = sequences.ids[chosen].astype(np.int64), sequences.kinds[chosen]
        # A row begins with a special piece or a new word, so words can be numbered across rows.
        words = np.cumsum(kinds == BEGINS)
        hidden_words = random.random(int(words[-1]) + 1 if words.size else 1) < self.share
        hidden = np.flatnonzero(hidden_words[words] & (kinds.ravel() != SPECIAL))
        flat = ids.ravel()
        targets = flat[hidden]
        draw = random.random(len(hidden))
        others = self._plain[random.integers(len(self._plain), size=len(hidden))]
        shown = np.where(draw < _BY_MASK, self._mask, np.where(draw < _BY_MASK + _BY_OTHER, others, targets))
        flat[hidden] = shown
        return MaskedBatch(torch.from_numpy(ids), torch.from_numpy(hidden), torch.from_numpy(targets))


class MaskedNetwork(nn.Module):
    """A model of ``AutoModelForMaskedLM`` that computes logits for the masked pieces only.

    The head is as expensive as a small encoder, and the logits of the other pieces are not needed.
    """

    def __init__(self, model: Any, *, new_head: bool) -> None:
        super().__init__()
        self.model: Any = model
        self.new_head = new_head
        self._hidden: Tensor | None = None
        model.base_model.register_forward_hook(self._select)

    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        """Return the logits of the masked pieces.

        Shapes:
            ids: (n_rows, n_pieces), no padding
            hidden: (n_masked,), flat positions in ``ids``
            returns: (n_masked, n_vocabulary)
        """
        self._hidden = hidden
        try:
            logits: Tensor = self.model(input_ids=ids).logits
        finally:
            self._hidden = None
        return logits[0]

    def _select(self, module: nn.Module, arguments: Any, output: Any) -> Any:
        """Select the vectors of the masked pieces between encoder and head, as one row."""
        if self._hidden is not None:
            output.last_hidden_state = output.last_hidden_state.flatten(0, 1).index_select(0, self._hidden)[None]
        return output

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the encoder, with a decoder that is tied to the embeddings."""
        parameters: Iterator[nn.Parameter] = self.model.base_model.parameters()
        return parameters

    def save(self, folder: Path, *, encoder: str) -> None:
        """Write an encoder folder: configuration, weights, and the tokenizer of the original encoder.

        The folder contains the head, so that another adaptation can continue with it. Other readers ignore it.
        """
        with quiet_transformers():
            if hasattr(self.model.config, "auto_map"):
                # The folder does not contain the code that it names.
                del self.model.config.auto_map
            self.model.save_pretrained(folder)
            load_tokenizer(encoder).save_pretrained(folder)


def load_network(encoder: str, *, seed: int) -> MaskedNetwork:
    """Load an encoder by hub id or folder, in float32. A head that the checkpoint lacks is random, by the seed."""
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
    return MaskedNetwork(model, new_head=bool(missing))


def _load(encoder: str, **changes: Any) -> tuple[Any, set[str]]:
    """Load the model without running code of its repository; return it with the names of the weights it lacks."""
    try:
        with quiet_transformers():
            model, info = AutoModelForMaskedLM.from_pretrained(
                encoder, dtype=torch.float32, output_loading_info=True, trust_remote_code=False, **changes
            )
    except Exception as error:
        raise _unsupported(
            encoder, str(error).strip().splitlines()[0] if str(error).strip() else "no reason"
        ) from error
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
