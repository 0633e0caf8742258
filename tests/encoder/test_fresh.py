from __future__ import annotations

from pathlib import Path

import torch
from tests.tiny_encoders import WORDS

from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.encoder.pieces import WordPieces, piece_limit
from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer


def create(folder: Path, seed: int = 0) -> str:
    return create_encoder(
        WORDS, folder, width=16, n_layers=1, n_heads=2, vocabulary=120, max_pieces=40, dropout=0.3, seed=seed
    )


def test_the_encoder_has_the_given_shape(tmp_path: Path) -> None:
    folder = create(tmp_path / "fresh")
    assert folder == str(tmp_path / "fresh")
    tokenizer, encoder = load_tokenizer(folder), load_encoder(folder)
    assert encoder.width == 16
    assert encoder.config.num_hidden_layers == 1
    assert encoder.config.num_attention_heads == 2
    assert encoder.config.hidden_dropout_prob == encoder.config.attention_probs_dropout_prob == 0.3
    assert piece_limit(encoder.config, tokenizer) == 40
    assert len(tokenizer) == encoder.config.vocab_size == 120
    pieces = WordPieces(tokenizer, limit=40)
    assert pieces.prefix.tolist() == [tokenizer.cls_token_id]
    assert pieces.suffix.tolist() == [tokenizer.sep_token_id]
    assert encoder(pieces.batch([pieces.row(WORDS[:5])])).shape == (1, 5, 16)


def test_the_vocabulary_covers_its_words(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(create(tmp_path))
    row = WordPieces(tokenizer, limit=40).row(WORDS)
    assert tokenizer.unk_token_id not in row.pieces.tolist()
    assert WordPieces(tokenizer, limit=40).row(["We"]).pieces.tolist() != tokenizer("we")["input_ids"][1:-1]


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    first = create(tmp_path / "first")
    torch.rand(7)  # advances the global generator
    for again in range(3):
        second = create(tmp_path / f"again{again}")
        for file in ("tokenizer.json", "model.safetensors", "config.json"):
            assert (Path(first) / file).read_bytes() == (Path(second) / file).read_bytes()


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    a, b = load_encoder(create(tmp_path / "a", seed=1)), load_encoder(create(tmp_path / "b", seed=2))
    assert not torch.equal(a.model.get_input_embeddings().weight, b.model.get_input_embeddings().weight)


def test_the_global_generator_is_unchanged(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    create(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)
