"""Documents to sequences: nothing lost, nothing doubled, words known."""

from itertools import chain, pairwise

import numpy as np
import pytest
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_tokenizer
from tests.training.adapt.fields import documents
from tokenizers import Tokenizer, models, pre_tokenizers

from cascade_srn.errors import DataError, ModelError
from cascade_srn.training.adapt.packing import BEGINS, CONTINUES, SPECIAL, pack, word_starts

TEXTS = documents(150)


def _packed(family="bert", texts=TEXTS, **options):
    return pack(texts, tiny_tokenizer(family), **({"n_pieces": 16, "held_out": 0.01} | options))


def _rest(sequences, tokenizer):
    """The documents that sequences are made of, as tuples of pieces."""
    flat = sequences.ids[:, 1:-1].ravel().tolist()
    found, now = [], []
    for piece in flat:
        if piece == tokenizer.sep_token_id:
            found.append(tuple(now))
            now = []
        else:
            now.append(piece)
    return found, now


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_sequences_hold_the_documents_one_after_the_other(family):
    tokenizer, packed = tiny_tokenizer(family), _packed(family)
    expected = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    learned, cut = _rest(packed.train, tokenizer)
    held_out, held_cut = _rest(packed.held_out, tokenizer)
    assert packed.train.ids.shape[1] == 16
    assert set(packed.train.ids[:, 0]) == {tokenizer.cls_token_id}
    assert set(packed.train.ids[:, -1]) == {tokenizer.sep_token_id}
    # Each document is in one of the two parts, but for what did not fill a sequence at their ends.
    order = iter(expected)
    assert all(document in order for document in learned)
    assert not set(learned) & set(held_out)
    left_out = set(expected) - set(learned) - set(held_out)
    assert len(left_out) <= 4
    assert any(document[: len(cut)] == tuple(cut) for document in left_out)
    assert any(document[: len(held_cut)] == tuple(held_cut) for document in left_out)
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


def test_held_out_documents_are_a_share_of_them_and_always_the_same():
    packed, again = _packed(held_out=0.3), _packed(held_out=0.3)
    assert packed.n_held_out_documents == 45
    assert packed.sha256 == again.sha256
    assert packed.sha256 != _packed(held_out=0.31).sha256
    # One in a hundred would be two documents, which are too few sequences.
    assert 2 < _packed().n_held_out_documents < 20
    assert len(_packed().held_out) >= 16


def test_documents_of_nothing_are_not_counted():
    assert _packed(texts=[*TEXTS, " \n", "\u200b"]).n_documents <= len(TEXTS) + 1


def test_progress_is_told(monkeypatch):
    told = []
    _packed(texts=TEXTS * 4, on_documents=told.append)
    assert told == [512, 600]
    told.clear()
    monkeypatch.setattr("cascade_srn.training.adapt.packing._N_CHARACTERS", 20_000)
    _packed(texts=["text " * 3_000] * 3 + TEXTS[:100], on_documents=told.append)
    assert told[0] == 2
    assert told[-1] == 103


@pytest.mark.parametrize("n_parts", [1, 2, 3])
def test_of_few_long_documents_the_last_sequences_are_held_out(n_parts):
    """As of a file with a sentence a line and no blank lines, which is one document."""
    size = len(TEXTS) // n_parts
    texts = ["\n".join(TEXTS[i * size : (i + 1) * size]) for i in range(n_parts)]
    packed, again, more = _packed(texts=texts), _packed(texts=texts), _packed(texts=texts, held_out=0.1)
    n_all = len(packed.train) + len(packed.held_out)
    assert (packed.n_documents, packed.n_held_out_documents, len(packed.held_out)) == (n_parts, 0, 16)
    assert packed.sha256 == again.sha256 != more.sha256
    assert len(more.held_out) == round(0.1 * n_all)
    # No piece is lost, doubled or moved: the one part goes on where the other ends.
    tokenizer = tiny_tokenizer("bert")
    pieces = [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id] for text in texts]
    both = np.concatenate([packed.train.ids, packed.held_out.ids])[:, 1:-1].ravel().tolist()
    assert both == list(chain(*pieces))[: n_all * 14]


def test_one_long_document_among_many_does_not_take_the_rest_with_it():
    """Whichever documents are drawn, not much more than the share is held out."""
    long = " ".join(TEXTS * 4)
    for place in range(0, len(TEXTS), 30):
        packed = _packed(texts=[*TEXTS[:place], long, *TEXTS[place:]], held_out=0.1)
        n_all = len(packed.train) + len(packed.held_out)
        assert 0.0 < len(packed.held_out) <= 0.2 * n_all + 1


@pytest.mark.parametrize("texts", [[], TEXTS[:5], [" ".join(TEXTS[:20])]])
def test_text_that_is_too_short(texts):
    with pytest.raises(DataError, match=r"[\d,]+ pieces in \d documents .* 16 pieces, .*64 and 16"):
        _packed(texts=texts)


def test_a_tokenizer_without_a_mask():
    tokenizer = tiny_tokenizer("bert")
    tokenizer.mask_token = None
    with pytest.raises(ModelError, match="mask token"):
        pack(TEXTS, tokenizer, n_pieces=16, held_out=0.01)
