"""Tiny random encoders with tokenizers, one for each supported family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertTokenizer,
    AutoConfig,
    AutoModel,
    BertTokenizer,
    DebertaV2Tokenizer,
    MPNetTokenizer,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
)

from cascade_srn.encoder.pretrained import quiet_transformers

FAMILIES = ("bert", "albert", "roberta", "deberta-v2", "electra", "mpnet", "modernbert")
# The same as parameters of tests: the default tier runs three families that differ most, the slow one all of them.
FAMILY_PARAMETERS = tuple(
    pytest.param(name, marks=() if name in ("bert", "mpnet", "modernbert") else pytest.mark.slow) for name in FAMILIES
)

_TEXT = """
we train a tagger for named entity recognition with words and spans of text the method uses graphs
to find relations between entities in scientific abstracts a parser reads every sentence twice
We The CRF subject object entity start end ( ) , . ; - [ ] < > / : S
"""
WORDS = _TEXT.split()

# Special tokens in the order of their ids.
_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_MPNET_SPECIAL = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
_ALBERT_SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_DEBERTA_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
_MODERNBERT_SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")


def tiny_tokenizer(family: str) -> Any:
    """Return the fast tokenizer of a family with a small vocabulary."""
    if family in ("bert", "electra"):
        return BertTokenizer(vocab=_wordpiece(_BERT_SPECIAL), do_lower_case=False)
    if family == "mpnet":
        return MPNetTokenizer(vocab=_wordpiece(_MPNET_SPECIAL), do_lower_case=True)
    if family == "albert":
        return AlbertTokenizer(vocab=_unigram(_ALBERT_SPECIAL), do_lower_case=True)
    if family == "deberta-v2":
        return DebertaV2Tokenizer(vocab=_unigram(_DEBERTA_SPECIAL), do_lower_case=False)
    if family == "roberta":
        vocabulary, merges = _byte_level(_ROBERTA_SPECIAL)
        return RobertaTokenizer(vocab=vocabulary, merges=merges)
    if family == "modernbert":
        return _modernbert()
    raise ValueError(f"family is {family!r}, not one of {', '.join(FAMILIES)}")


def tiny_encoder(family: str, folder: str | Path, *, positions: int = 64, seed: int = 0, **changes: Any) -> str:
    """Write an encoder of 2 layers and width 32 with its tokenizer to a folder, and return the folder.

    Weights are larger than usual, so that the vector of a piece clearly depends on the pieces around it.

    Args:
        family: One of ``FAMILIES``.
        folder: The output folder.
        positions: Number of position embeddings.
        seed: Seed of the weights.
        changes: Other settings of the configuration of the family.
    """
    tokenizer = tiny_tokenizer(family)
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": positions,
        "initializer_range": 0.3,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }
    if family in ("albert", "electra"):
        settings["embedding_size"] = 16
    if family == "deberta-v2":
        settings |= {
            "relative_attention": True,
            "position_buckets": 16,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        }
    if family == "modernbert":
        settings |= {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(seed)
        model = AutoModel.from_config(AutoConfig.for_model(family, **(settings | changes)))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return str(folder)


def _wordpiece(special: tuple[str, ...]) -> dict[str, int]:
    """Return a fixed WordPiece vocabulary: short words, letters and two suffixes."""
    letters = sorted({letter for word in WORDS for letter in word})
    inside = [f"##{letter}" for letter in letters if letter.isalpha()]
    whole = sorted({word for word in WORDS if 1 < len(word) < 7})
    return {piece: i for i, piece in enumerate([*special, *letters, *inside, "##tion", "##ing", *whole])}


def _unigram(special: tuple[str, ...]) -> list[tuple[str, float]]:
    """Return the same for Unigram. Special tokens come first with score 0, as in sentencepiece."""
    letters = sorted({letter for word in WORDS for letter in word})
    whole = sorted({f"▁{word}" for word in WORDS if 1 < len(word) < 7})
    plain = [("▁", -4.0), ("tion", -6.0), ("▁a", -4.0)]
    plain += [(word, -5.0 - i / 100) for i, word in enumerate(whole)]
    plain += [(letter, -7.0 - i / 100) for i, letter in enumerate(letters)]
    return [(token, 0.0) for token in special] + plain


def _byte_level(special: tuple[str, ...]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(WORDS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def _modernbert() -> PreTrainedTokenizerFast:
    vocabulary, merges = _byte_level(_MODERNBERT_SPECIAL)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        mask_token="[MASK]",
    )  # fmt: skip
