"""Documents to sequences with masked words: nothing lost, nothing doubled, words whole."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_tokenizer
from tests.training.adapt.fields import documents
from tokenizers import Tokenizer, models, pre_tokenizers

from cascade_srn.errors import DataError, ModelError
from cascade_srn.formats.registry import write_documents
from cascade_srn.training.adapt.text import (
    BEGINS,
    CONTINUES,
    SPECIAL,
    HeldOutSentences,
    MaskedSequences,
    Masking,
    pack,
    word_starts,
)
from cascade_srn.types import Document

TEXTS = documents(150)


def _packed(family="bert", texts=TEXTS, **options):
    return pack(texts, tiny_tokenizer(family), **({"n_pieces": 16, "held_out": 0.01} | options))


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_sequences_hold_the_documents_one_after_the_other(family):
    tokenizer, packed = tiny_tokenizer(family), _packed(family)
    expected = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    rows = np.concatenate([packed.train.ids, packed.held_out.ids])
    assert rows.shape[1] == 16
    assert set(rows[:, 0]) == {tokenizer.cls_token_id}
    assert set(rows[:, -1]) == {tokenizer.sep_token_id}
    found, now = [], []
    for piece in rows[:, 1:-1].ravel().tolist():
        now.append(piece)
        if piece == tokenizer.sep_token_id:
            found.append(tuple(now[:-1]))
            now = []
    # Each document once, in a random order, but for one that did not fill a sequence at the end.
    assert len(found) == len(set(found)) >= len(TEXTS) - 1
    assert set(found) <= set(expected)
    assert found != [document for document in expected if document in found]
    assert packed.n_documents == len(TEXTS)
    assert packed.n_pieces == sum(map(len, expected))


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_words_begin_where_they_do_in_the_text(family):
    tokenizer = tiny_tokenizer(family)
    # Without punctuation, all families agree on what a word is.
    texts = [text.replace(".", "") for text in TEXTS]
    packed = _packed(family, texts)
    kinds, ids = packed.train.kinds, packed.train.ids
    special = np.isin(ids, [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.unk_token_id])
    assert (special == (kinds == SPECIAL)).all()
    assert (kinds == CONTINUES).any()
    # A row's words, read by their beginnings, are words of the text, but for those that were cut.
    known = {word for text in texts for word in text.lower().split()}
    row = packed.train.ids[0]
    starts = [*np.flatnonzero(kinds[0] != CONTINUES), len(row)]
    words = [tokenizer.decode(row[a:b]).strip().lower() for a, b in pairwise(starts)]
    inner = [word for word, at in zip(words, starts, strict=False) if kinds[0][at] == BEGINS][1:-1]
    assert inner
    assert set(inner) <= known


def test_a_cut_word_begins_anew():
    packed = _packed()
    assert (packed.train.kinds[:, 1] != CONTINUES).all()
    texts = [" ".join(["recognition"] * 40) for _ in range(60)]
    cut = _packed(texts=texts)
    # Nine pieces a word do not fill rows of fourteen.
    assert (cut.train.kinds[:, 1] == BEGINS).sum() > (cut.train.ids[:, 1] == cut.train.ids[0, 1]).sum()


def test_a_tokenizer_that_cuts_no_words_goes_by_whitespace():
    letters = {letter: i for i, letter in enumerate("abc d")}
    whole = Tokenizer(models.BPE(vocab={**letters, "ab": 5, " c": 6}, merges=[("a", "b"), (" ", "c")]))
    text = "abc cab d a"
    encoding = whole.encode(text)
    assert encoding.tokens == ["ab", "c", " c", "ab", " ", "d", " ", "a"]
    assert set(encoding.word_ids) == {0}
    assert word_starts(encoding, text).tolist() == [True, False, True, False, True, False, True, False]


def test_a_tokenizer_that_cuts_words_is_followed():
    cutting = Tokenizer(models.BPE(vocab={"a": 0, "b": 1, "-": 2}, merges=[]))
    cutting.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    assert word_starts(cutting.encode("ab-ba b"), "ab-ba b").tolist() == [True, False, True, True, False, True]
    assert word_starts(cutting.encode(""), "").tolist() == []


def test_the_name_of_a_special_piece_in_a_text_is_text():
    tokenizer, packed = tiny_tokenizer("bert"), _packed(texts=[*["The [MASK] of [SEP] and [CLS]."] * 30, *TEXTS])
    for part in (packed.train, packed.held_out):
        assert tokenizer.mask_token_id not in part.ids
        assert tokenizer.cls_token_id not in part.ids[:, 1:]


def test_the_held_out_text_is_a_share_and_always_the_same():
    packed, again = _packed(held_out=0.3), _packed(held_out=0.3)
    n_all = len(packed.train) + len(packed.held_out)
    assert len(packed.held_out) == round(0.3 * n_all)
    assert packed.sha256 == again.sha256 != _packed(held_out=0.31).sha256
    # One in a hundred would be too few sequences.
    assert len(_packed().held_out) == 16


@pytest.mark.parametrize("texts", [[], TEXTS[:5], [" ".join(TEXTS[:20])]])
def test_text_that_is_too_short(texts):
    with pytest.raises(DataError, match=r"[\d,]+ pieces in \d documents .* 16 pieces, .*64 .* 16"):
        _packed(texts=texts)


def test_a_tokenizer_without_a_mask():
    tokenizer = tiny_tokenizer("bert")
    tokenizer.mask_token = None
    with pytest.raises(ModelError, match="mask token"):
        pack(TEXTS, tokenizer, n_pieces=16, held_out=0.01)


@pytest.fixture(scope="module", params=FAMILY_PARAMETERS)
def family(request):
    tokenizer = tiny_tokenizer(request.param)
    return tokenizer, pack(documents(400), tokenizer, n_pieces=32, held_out=0.05).train


class TestMasking:
    def _masked(self, family, share):
        tokenizer, sequences = family
        masking = Masking(tokenizer, share)
        rows = [
            masking.mask(ids, kinds, seed=[0, number])
            for number, (ids, kinds) in enumerate(zip(sequences.ids, sequences.kinds, strict=True))
        ]
        return tuple(torch.stack([row[name] for row in rows]).numpy() for name in ("input_ids", "labels"))

    def test_words_are_masked_whole(self, family):
        _, labels = self._masked(family, 0.15)
        masked, kinds = (labels != -100).ravel(), family[1].kinds.ravel()
        # A slow, literal reading: word by word, row by row.
        words, now = [], []
        for at, kind in enumerate(kinds):
            if kind != BEGINS and kind != SPECIAL:
                now.append(at)
                continue
            words.append(now)
            now = [at] if kind == BEGINS else []
        for word in words:
            assert len(set(masked[word])) <= 1
        assert not masked[kinds == SPECIAL].any()
        assert masked.sum() / (kinds != SPECIAL).sum() == pytest.approx(0.15, abs=0.02)

    def test_what_is_shown_instead(self, family):
        tokenizer, sequences = family
        shown, labels = self._masked(family, 0.5)
        masked = labels != -100
        assert (sequences.ids[masked] == labels[masked]).all()
        assert (sequences.ids[~masked] == shown[~masked]).all()
        is_mask, is_same = shown[masked] == tokenizer.mask_token_id, shown[masked] == labels[masked]
        assert is_mask.mean() == pytest.approx(0.8, abs=0.03)
        assert is_same.mean() == pytest.approx(0.1, abs=0.03)
        assert len(set(shown[masked][~is_mask & ~is_same])) > 10


def test_the_number_of_a_sequence_decides():
    tokenizer, sequences = tiny_tokenizer("bert"), _packed().train
    n = len(sequences)
    made = [MaskedSequences(sequences, Masking(tokenizer, 0.3), 2 * n, seed=seed) for seed in (1, 1, 2)]
    assert len(made[0]) == 2 * n
    # Not in order, as a resumed training or a worker process reads them.
    for number in (n + 3, 3, 2 * n - 1):
        first, again, other = (each[number] for each in made)
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert not torch.equal(first["labels"], other["labels"])

    def restored(number):
        ids, labels = made[0][number].values()
        return tuple(torch.where(labels == -100, ids, labels).tolist())

    epochs = [[restored(number) for number in range(start, start + n)] for start in (0, n)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(map(tuple, sequences.ids.tolist()))


HELD = Document.from_words([["We", "train", "a", "parser", ",", "twice", "."], ["It", "works", "."], []])


class TestHeldOutSentences:
    def test_equal_sentences_are_removed_and_counted(self):
        held = HeldOutSentences([HELD])
        assert len(held) == 2
        text = "First one. WE train a\n parser, twice. Another one.  It works. We train a parser."
        assert held.remove_from(text) == "First one. Another one. We train a parser."
        assert held.n_removed == 2
        assert held.remove_from("It works.") == ""
        assert held.n_removed == 3

    def test_they_are_read_from_any_format(self, tmp_path):
        write_documents([HELD], tmp_path / "test.json", "dygie")
        write_documents([Document.from_words([["So", "."]])], tmp_path / "dev.jsonl")
        held = HeldOutSentences.read([tmp_path / "test.json", tmp_path / "dev.jsonl"])
        assert len(held) == 3
        assert held.remove_from("It works. And. So.") == "And."
