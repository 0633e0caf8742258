"""Create a small encoder with random weights and a vocabulary learned from given words.

Use it for demonstrations, for tests, or for a language without a pretrained encoder. A model that is trained from it on
few sentences has low scores.
"""

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
    """Write a small BERT with random weights and a WordPiece vocabulary, learned from the words, to a folder.

    ``max_pieces`` limits the length of an input, ``dropout`` applies to hidden states and attention.
    """
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = _learn_vocabulary(list(words), special, vocabulary)
    tokenizer = _bare_tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
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


def _learn_vocabulary(words: list[str], special: list[str], size: int) -> dict[str, int]:
    """Learn a vocabulary that depends on the words only.

    The trainer breaks ties by the order of characters in a hash table. Passing the characters as special tokens fixes
    their order. The returned vocabulary is for a new tokenizer, in which they are not special.
    """
    tokenizer = _bare_tokenizer(models.WordPiece(unk_token="[UNK]"))
    clean = (tokenizer.normalizer.normalize_str(word) for word in words)
    parts = {part for word in clean for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(word)}
    inside = sorted({f"##{character}" for part in parts for character in part[1:]})
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=[*special, *inside], show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    return dict(tokenizer.get_vocab())
