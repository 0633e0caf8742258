"""A small encoder from nothing: vocabulary learned from the texts at hand, weights at random.

For trying things out where no pretrained encoder is at hand: demonstrations, tests, a language nobody has
pretrained on. It knows nothing before training, so expect little from few sentences.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from cascade_srn.encoder.pretrained import quiet_transformers


def create_encoder(
    words: Iterable[str],
    folder: str | Path,
    *,
    width: int = 128,
    n_layers: int = 2,
    n_heads: int = 4,
    vocabulary: int = 2000,
    max_pieces: int = 256,
    dropout: float = 0.1,
    seed: int = 0,
) -> str:
    """Write a small BERT with a WordPiece vocabulary of these words to a folder, and return the folder."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = _bare_tokenizer(models.WordPiece(_vocabulary(list(words), special, vocabulary), unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=max_pieces,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(
            BertConfig(
                vocab_size=tokenizer.get_vocab_size(),
                hidden_size=width,
                num_hidden_layers=n_layers,
                num_attention_heads=n_heads,
                intermediate_size=2 * width,
                max_position_embeddings=max_pieces,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
                pad_token_id=0,
            ),
            add_pooling_layer=False,
        )
    with quiet_transformers():
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
    return str(folder)


def _bare_tokenizer(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _vocabulary(words: list[str], special: list[str], size: int) -> dict[str, int]:
    """The same pieces for the same words, every time.

    The trainer meets the characters inside words in the order of a hash table, and breaks ties by that order; it
    is given them in a fixed one, as special tokens, which they must not be in the tokenizer that is kept.
    """
    tokenizer = _bare_tokenizer(models.WordPiece(unk_token="[UNK]"))
    clean = (tokenizer.normalizer.normalize_str(word) for word in words)
    parts = {part for word in clean for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(word)}
    inside = sorted({f"##{character}" for part in parts for character in part[1:]})
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=[*special, *inside], show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    return dict(tokenizer.get_vocab())
