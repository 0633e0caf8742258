"""Whole words are hidden, as many as asked for, and nothing else."""

import numpy as np
import pytest
import torch
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_tokenizer
from tests.training.adapt.fields import documents

from cascade_srn.training.adapt.network import Masking
from cascade_srn.training.adapt.packing import BEGINS, SPECIAL, pack


@pytest.fixture(scope="module", params=FAMILY_PARAMETERS)
def family(request):
    tokenizer = tiny_tokenizer(request.param)
    return tokenizer, pack(documents(400), tokenizer, n_pieces=32, held_out=0.05).train


def _all(sequences):
    return np.arange(len(sequences))


def test_words_are_hidden_whole(family):
    tokenizer, sequences = family
    batch = Masking(tokenizer, share=0.15)(sequences, _all(sequences), seed=[0])
    hidden = set(batch.hidden.tolist())
    kinds = sequences.kinds.ravel()
    # A slow, literal reading: word by word, row by row.
    words, now = [], []
    for at, kind in enumerate(kinds):
        if kind != BEGINS and kind != SPECIAL:
            now.append(at)
            continue
        words.append(now)
        now = [at] if kind == BEGINS else []
    for word in words:
        assert set(word) <= hidden or not set(word) & hidden
    assert not any(kinds[at] == SPECIAL for at in hidden)
    assert len(hidden) / (kinds != SPECIAL).sum() == pytest.approx(0.15, abs=0.02)


def test_what_is_shown_instead(family):
    tokenizer, sequences = family
    batch = Masking(tokenizer, share=0.5)(sequences, _all(sequences), seed=[0])
    before = torch.from_numpy(sequences.ids.astype(np.int64)).flatten()
    shown = batch.ids.flatten()
    assert torch.equal(before[batch.hidden], batch.targets)
    elsewhere = torch.ones_like(before, dtype=torch.bool)
    elsewhere[batch.hidden] = False
    assert torch.equal(before[elsewhere], shown[elsewhere])
    masked = shown[batch.hidden] == tokenizer.mask_token_id
    same = shown[batch.hidden] == batch.targets
    assert float(masked.float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float(same.float().mean()) == pytest.approx(0.1, abs=0.03)
    others = shown[batch.hidden][~masked & ~same]
    assert not set(others.tolist()) & set(tokenizer.all_special_ids)
    assert len(set(others.tolist())) > 10


def test_the_seed_decides():
    tokenizer = tiny_tokenizer("bert")
    sequences = pack(documents(150), tokenizer, n_pieces=16, held_out=0.01).train
    masking, chosen = Masking(tokenizer, share=0.15), np.array([5, 3, 60])
    first, again, other = (masking(sequences, chosen, seed=seed) for seed in ([1, 2], [1, 2], [1, 3]))
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.hidden, again.hidden)
    assert not torch.equal(first.hidden, other.hidden)
    assert masking(sequences, np.array([], dtype=np.int64), seed=[0]).ids.shape == (0, 16)


def test_some_rows_of_a_batch():
    tokenizer = tiny_tokenizer("bert")
    sequences = pack(documents(150), tokenizer, n_pieces=16, held_out=0.01).train
    whole = Masking(tokenizer, share=0.3)(sequences, np.arange(7), seed=[4])
    parts = [whole.rows(first, 7, 3) for first in range(3)]
    assert [len(part.ids) for part in parts] == [3, 2, 2]
    assert sum(len(part.targets) for part in parts) == len(whole.targets)
    for first, part in enumerate(parts):
        assert torch.equal(part.ids, whole.ids[first::3])
        original = torch.from_numpy(sequences.ids[:7][first::3].astype(np.int64)).flatten()
        assert torch.equal(original[part.hidden], part.targets)
    assert len(whole.rows(7, 7).ids) == 0
