from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.tiny_encoders import WORDS, tiny_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, PreTrainedTokenizerFast, PythonBackend

from cascade_srn.encoder.pieces import Row, WordPieces, piece_limit
from cascade_srn.encoder.pretrained import load_tokenizer
from cascade_srn.encoder.windows import FewShapes, LeastWork, window_owners, window_starts
from cascade_srn.errors import ModelError

TEXT = "We train a tagger for named entity recognition , with words and spans ."
SENTENCE = TEXT.split()
BYTE_LEVEL = ("roberta", "modernbert")

# Names of special tokens of all families, and of a marker.
SPECIAL_NAMES = (*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<pad>", "<unk>", "<mask>"), "[S:S]")


@pytest.fixture
def bert(encoder_folder: Callable[[str], str]) -> Any:
    return load_tokenizer(encoder_folder("bert"))


def split(row: Row) -> list[list[int]]:
    """Return the pieces of each item."""
    ends = np.cumsum(row.sizes)
    return [row.pieces[end - size : end].tolist() for end, size in zip(ends, row.sizes, strict=True)]


# Words to pieces ---------------------------------------------------------------------------------------------


def test_a_word_is_read_in_its_form(bert: Any) -> None:
    plain = WordPieces(bert, limit=64, text_form="verbatim")
    natural, escaped = (WordPieces(bert, limit=64, text_form=form) for form in ("natural", "escaped"))
    words = ["tag-\nger", "(", "“", "ﬁnd", "”", '"', "s"]
    forms = ["tagger", "(", '"', "find", '"', '"', "s"]
    assert split(natural.row(words)) == split(plain.row(forms))
    assert split(escaped.row(words)) == split(plain.row(["tagger", "-LRB-", "``", "find", "''", "``", "s"]))
    row = natural.row(["s"], left=words[:2], right=words[3:4])
    assert (row.left.tolist(), row.right.tolist()) == (
        plain.row(forms[:2]).pieces.tolist(),
        plain.row(["find"]).pieces.tolist(),
    )


def test_a_word_without_a_form_is_one_item(family: str, encoder_folder: Callable[[str], str]) -> None:
    row = WordPieces(load_tokenizer(encoder_folder(family)), limit=64).row(["a", "\u200b\u00ad", "b"])
    assert len(row) == 3
    assert (row.sizes >= 1).all()


def test_pieces_are_those_of_the_tokenizer_of_each_family(family: str, encoder_folder: Callable[[str], str]) -> None:
    tokenizer = load_tokenizer(encoder_folder(family))
    lead = " " if family in BYTE_LEVEL else ""
    pieces = WordPieces(tokenizer, limit=64)
    row = pieces.row(SENTENCE)
    expected = [tokenizer(lead + word, add_special_tokens=False)["input_ids"] for word in SENTENCE]
    assert split(row) == expected
    assert max(len(pieces) for pieces in expected) > 1
    assert len(row) == len(SENTENCE)
    assert row.word_items.tolist() == list(range(len(SENTENCE)))
    assert len(row.left) == len(row.right) == 0
    assert pieces.batch([row]).piece_ids[0].tolist() == tokenizer(lead + " ".join(SENTENCE))["input_ids"]
    assert pieces.prefix.tolist() == [tokenizer.cls_token_id]
    assert pieces.suffix.tolist() == [tokenizer.sep_token_id]
    assert pieces.room == 62
    assert pieces.pad_id == tokenizer.pad_token_id
    # A word that spells a special token is read as text, and a word without pieces is still an item.
    for markers in ((), ("[S:S]", "[S:E]")):
        tokenizer.add_tokens(list(markers), special_tokens=True)
        pieces = WordPieces(tokenizer, limit=64)
        forbidden = {*tokenizer.all_special_ids, *tokenizer.convert_tokens_to_ids(list(markers))}
        for name in SPECIAL_NAMES:
            row = pieces.row(["We", name, f"a{name}", f"{name}.", "train"])
            assert len(row) == 5
            assert (forbidden - {tokenizer.unk_token_id}).isdisjoint(row.pieces.tolist())
    for word in ("", " ", "\u200b", "\u00ad", "\x00", "\x07", "\ufeff", "\t\n", "\u0301"):
        items = split(pieces.row(["We", word, "train", word]))
        assert len(items) == 4
        assert all(items)
        assert items[1] == items[3]
        assert [items[0], items[2]] == split(pieces.row(["We", "train"]))


def test_a_word_without_pieces_becomes_the_unknown_piece(bert: Any) -> None:
    for word in ("", "\u200b", "\u00ad", "\x07"):
        assert bert(word, add_special_tokens=False)["input_ids"] == []
        assert WordPieces(bert, limit=64).row([word]).pieces.tolist() == [bert.unk_token_id]


def test_a_masked_word_keeps_its_number_of_pieces(bert: Any) -> None:
    pieces = WordPieces(bert, limit=64)
    row = pieces.row(SENTENCE, left=SENTENCE[:2], right=SENTENCE[2:])
    assert split(pieces.mask_words(row, 1.0, random.Random(0))) == [[bert.mask_token_id] * n for n in row.sizes]
    some = pieces.mask_words(row, 0.5, random.Random(0))
    masked = [here != before for here, before in zip(split(some), split(row), strict=True)]
    assert set(masked) == {True, False}
    assert all(set(p) == {bert.mask_token_id} for p, m in zip(split(some), masked, strict=True) if m)
    # The context is not masked, and the original row is unchanged.
    assert some.left.tolist() == row.left.tolist()
    assert some.right.tolist() == row.right.tolist()
    assert split(row) == split(pieces.row(SENTENCE))


def test_no_words_give_an_empty_row_and_a_window_without_items(bert: Any) -> None:
    pieces = WordPieces(bert, limit=64)
    row = pieces.row([])
    assert len(row) == len(row.pieces) == 0
    batch = pieces.batch([row, pieces.row(["We"])])
    assert batch.piece_ids[0, :2].tolist() == [bert.cls_token_id, bert.sep_token_id]
    assert batch.item_lengths.tolist() == [0, 1]
    assert batch.target.tolist() == [0 + batch.n_items] * len(pieces.row(["We"]).pieces)


# The cache of words ------------------------------------------------------------------------------------------


def test_the_size_of_the_cache_does_not_change_results(bert: Any) -> None:
    plenty, short = WordPieces(bert, limit=64), WordPieces(bert, limit=64, cache_size=3)
    for start in (0, 5, 2, 0, 9):
        words = WORDS[start : start + 4]
        expected, received = plenty.row(words, left=WORDS[:2]), short.row(words, left=WORDS[:2])
        assert split(received) == split(expected)
        assert received.left.tolist() == expected.left.tolist()
        assert len(short.words.by_form) <= 6


@pytest.mark.parametrize("text_form", ["natural", "escaped", "verbatim"])
@pytest.mark.parametrize("cache_size", [200_000, 4])
def test_rows_made_together_are_those_made_one_by_one(bert: Any, text_form: str, cache_size: int) -> None:
    sentences = [SENTENCE, [], ["parser" * 30, "(", "“", "We", "”", '"', "train", '"'], ["We"], SENTENCE[::-1]]
    together = WordPieces(bert, limit=64, text_form=text_form, cache_size=cache_size)
    single = WordPieces(bert, limit=64, text_form=text_form)
    for again in (sentences, sentences[::-1], sentences[:1]):
        rows, expected = together.rows(again), [single.row(words) for words in again]
        assert [split(row) for row in rows] == [split(row) for row in expected]
        for row, other in zip(rows, expected, strict=True):
            assert row.word_items.tolist() == other.word_items.tolist()
            assert (len(row.left), len(row.right)) == (0, 0)
            assert together.cost(row) == single.cost(other)
    assert together.rows([]) == []


# Tokenizers with settings of their own -----------------------------------------------------------------------


def test_truncation_and_padding_of_a_tokenizer_are_ignored(own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("roberta")
    tokenizer = load_tokenizer(str(folder))
    plain = WordPieces(tokenizer, limit=64).row(SENTENCE)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())
    for cutting in (tokenizer, load_tokenizer(str(folder))):
        pieces = WordPieces(cutting, limit=64)
        assert pieces.prefix.tolist() == [tokenizer.cls_token_id]
        assert pieces.suffix.tolist() == [tokenizer.sep_token_id]
        assert split(pieces.row(SENTENCE)) == split(plain)


def test_a_slow_tokenizer_is_refused() -> None:
    class SlowTokenizer(PythonBackend):  # type: ignore[misc]
        vocab_size = 0

        def get_vocab(self) -> dict[str, int]:
            return {}

    with pytest.raises(ModelError, match="SlowTokenizer"):
        WordPieces(SlowTokenizer(), limit=64)


def test_windows_without_room_are_refused(bert: Any) -> None:
    for limit, overlap in ((12, 10), (12, -1), (3, None)):
        with pytest.raises(ModelError, match=rf"\b{limit}\b.*\b{limit - 2}\b"):
            WordPieces(bert, limit=limit, overlap=overlap)
    assert WordPieces(bert, limit=12, overlap=9).overlap == 9
    assert WordPieces(bert, limit=4, overlap=0).room == 2
    assert WordPieces(bert, limit=42).overlap == 10


# Context ----------------------------------------------------------------------------------------------------

# One piece each for the tiny BERT, all different.
LEFT = ["we", "train", "for", "named", "with", "words", "and", "spans", "of"]
RIGHT = ["text", "the", "method", "uses", "graphs", "to", "find", "in", "every"]
INNER = ["(", "reads", "twice", ")"]


def test_context_is_trimmed_evenly_from_the_outside(bert: Any) -> None:
    for limit, n_left, n_right, kept_left, kept_right in (
        (30, 9, 9, 9, 9),  # room for all
        (12, 9, 9, 3, 3),  # room for six: evenly
        (11, 9, 9, 2, 3),  # an odd piece goes to the right
        (12, 1, 9, 1, 5),  # a short side leaves room for the other
        (12, 9, 0, 6, 0),
        (6, 9, 9, 0, 0),  # the sentence fills the window
    ):
        pieces = WordPieces(bert, limit=limit)
        left, right = LEFT[9 - n_left :], RIGHT[:n_right]
        batch = pieces.batch([pieces.row(INNER, left, right)])
        expected = [*left[n_left - kept_left :], *INNER, *right[:kept_right]]
        assert bert.convert_ids_to_tokens(batch.piece_ids[0].tolist()) == ["[CLS]", *expected, "[SEP]"]
        assert batch.source.tolist() == [1 + kept_left + i for i in range(4)]
        assert batch.target.tolist() == [0, 1, 2, 3]
        assert batch.n_items == 4


@given(n_words=st.integers(0, 20), n_left=st.integers(0, 20), n_right=st.integers(0, 20), limit=st.integers(4, 30))
def test_context_fills_the_room_and_never_replaces_a_word(n_words: int, n_left: int, n_right: int, limit: int) -> None:
    pieces = tiny_pieces(limit)
    assume(n_words <= pieces.room)
    batch = pieces.batch([pieces.row(["a"] * n_words, ["we"] * n_left, ["the"] * n_right)])
    (window,) = batch.piece_ids.tolist()
    inside = TINY_BERT.convert_ids_to_tokens(window[1:-1])
    assert inside.count("a") == n_words
    assert len(inside) == min(pieces.room, n_words + n_left + n_right)
    assert batch.source.tolist() == [i + 1 for i, token in enumerate(inside) if token == "a"]
    kept_left, kept_right = inside.count("we"), inside.count("the")
    assert inside == ["we"] * kept_left + ["a"] * n_words + ["the"] * kept_right
    if kept_left < n_left and kept_right < n_right:
        assert abs(kept_left - kept_right) <= 1


TINY_BERT = tiny_tokenizer("bert")


@cache
def tiny_pieces(limit: int) -> WordPieces:
    return WordPieces(TINY_BERT, limit=limit)


# Batches -----------------------------------------------------------------------------------------------------


def test_a_batch_is_padded_and_maps_pieces_to_items(bert: Any) -> None:
    pieces = WordPieces(bert, limit=64)
    rows = [pieces.row(["We", "recognition"]), pieces.row(["a"]), pieces.row(["we", "train", "a"])]
    batch = pieces.batch(rows)
    width = 2 + max(len(row.pieces) for row in rows)
    assert batch.piece_ids.shape == batch.piece_mask.shape == (3, width)
    assert batch.piece_mask.dtype == torch.bool
    for i, row in enumerate(rows):
        n = len(row.pieces)
        expected = [bert.cls_token_id, *row.pieces.tolist(), bert.sep_token_id]
        assert batch.piece_ids[i, : n + 2].tolist() == expected
        assert set(batch.piece_ids[i, n + 2 :].tolist()) <= {bert.pad_token_id}
        assert batch.piece_mask[i].tolist() == [True] * (n + 2) + [False] * (width - n - 2)
    n_first = len(rows[0].pieces)
    assert batch.source.tolist() == [
        *(1 + p for p in range(n_first)),
        width + 1,
        *(2 * width + 1 + p for p in range(3)),
    ]
    assert batch.target.tolist() == [0, *[1] * (n_first - 1), 3, 6, 7, 8]
    assert batch.n_items == 3
    assert batch.item_lengths.tolist() == batch.word_lengths.tolist() == [2, 1, 3]
    assert batch.word_items.tolist() == [[0, 1, 0], [0, 0, 0], [0, 1, 2]]


def test_markers_are_items_but_not_words(bert: Any) -> None:
    pieces = WordPieces(bert, limit=64)
    plain = pieces.row(["we", "train", "a"])
    marker = bert.mask_token_id
    marked = Row(
        pieces=np.insert(plain.pieces, [1, 2], marker),
        sizes=np.ones(5, dtype=np.int64),
        word_items=np.array([0, 2, 4]),
        left=plain.left,
        right=plain.right,
    )
    batch = pieces.batch([plain, marked])
    assert batch.n_items == 5
    assert batch.item_lengths.tolist() == [3, 5]
    assert batch.word_lengths.tolist() == [3, 3]
    assert batch.word_items.tolist() == [[0, 1, 2], [0, 2, 4]]
    assert batch.target.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]


def test_rows_of_different_lengths_are_read_in_separate_passes(bert: Any) -> None:
    pieces = WordPieces(bert, limit=12, overlap=2)
    rows = [pieces.row(["a"] * n) for n in (2, 9, 3, 25)]
    whole = pieces.batch(rows)
    # The longest row has three windows, the others one each.
    assert whole.passes == ((6, 12),)
    batch = pieces.batch(rows, LeastWork(1))
    assert sum(n for n, _ in batch.passes) == 6
    assert sum(n * width for n, width in batch.passes) < 6 * 12
    parts, first = [], 0
    for n, width in batch.passes:
        parts.append(batch.piece_ids[first : first + n, :width].flatten())
        # Only padding is cut off.
        assert not batch.piece_mask[first : first + n, width:].any()
        first += n
    assert torch.cat(parts)[batch.source].tolist() == whole.piece_ids.flatten()[whole.source].tolist()
    assert torch.equal(batch.target, whole.target)
    assert pieces.batch(rows, LeastWork(10**6)).passes == whole.passes


def test_passes_of_few_shapes_are_filled_with_empty_windows(bert: Any) -> None:
    pieces = WordPieces(bert, limit=12, overlap=2)
    rows = [pieces.row(["a"] * n) for n in (2, 5, 3)]
    batch = pieces.batch(rows, FewShapes(2, multiple=8))
    assert batch.passes == ((2, 8), (2, 8))
    assert batch.piece_ids.shape == (4, 8)
    # The empty window has special pieces, so that attention has a target.
    assert batch.piece_mask.sum(1).tolist() == [7, 5, 4, 2]
    whole = pieces.batch(rows)
    assert batch.piece_ids.flatten()[batch.source].tolist() == whole.piece_ids.flatten()[whole.source].tolist()
    assert torch.equal(batch.target, whole.target)


def test_a_batch_of_no_rows(bert: Any) -> None:
    assert WordPieces(bert, limit=64).batch([], LeastWork(1)).source.shape[0] == 0
    batch = WordPieces(bert, limit=64).batch([])
    assert batch.piece_ids.shape[0] == batch.source.shape[0] == batch.item_lengths.shape[0] == 0
    assert batch.n_items == 0


def test_a_batch_moves_to_a_device_as_a_whole(bert: Any) -> None:
    pieces = WordPieces(bert, limit=64)
    moved = pieces.batch([pieces.row(["we", "train"])]).to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 7
    assert all(value.device.type == "meta" for value in tensors)
    assert moved.n_items == 2


# Windows -----------------------------------------------------------------------------------------------------


@st.composite
def long_rows(draw: st.DrawFn) -> tuple[int, int, int]:
    room = draw(st.integers(2, 30))
    return draw(st.integers(room + 1, 200)), room, draw(st.integers(0, room - 1))


def inner_distance(piece: int, start: int, room: int, n_pieces: int) -> int:
    """Return the distance of a piece to the nearer window edge inside the row, or −1 outside the window."""
    if not start <= piece < start + room:
        return -1
    before = piece - start if start > 0 else n_pieces
    after = start + room - 1 - piece if start + room < n_pieces else n_pieces
    return min(before, after)


@given(long_rows())
def test_windows_cover_a_row_with_at_least_the_overlap(shape: tuple[int, int, int]) -> None:
    n_pieces, room, overlap = shape
    starts = window_starts(n_pieces, room, overlap)
    assert starts[0] == 0
    assert starts[-1] + room == n_pieces
    steps = [after - before for before, after in itertools.pairwise(starts)]
    assert all(0 < step <= room - overlap for step in steps)
    assert all(step == room - overlap for step in steps[:-1])


@given(long_rows())
def test_each_piece_is_read_from_the_window_with_most_context(shape: tuple[int, int, int]) -> None:
    n_pieces, room, overlap = shape
    starts = window_starts(n_pieces, room, overlap)
    owners = window_owners(n_pieces, starts, room)
    assert owners.shape == (n_pieces,)
    assert sorted(owners.tolist()) == owners.tolist()
    for piece, owner in enumerate(owners.tolist()):
        distances = [inner_distance(piece, start, room, n_pieces) for start in starts]
        assert distances[owner] == max(distances)
        assert distances[owner] >= overlap // 2


def test_a_long_row_is_batched_as_windows_that_own_each_piece_once(bert: Any) -> None:
    n_words = 40
    words = (LEFT + RIGHT + INNER)[:22] * 2
    pieces = WordPieces(bert, limit=12, overlap=4)
    row = pieces.row(words[:n_words], left=["we"], right=["we"])
    short = pieces.row(["a"])
    batch = pieces.batch([short, row, short])
    starts = window_starts(n_words, 10, 4)
    assert batch.piece_ids.shape == (2 + len(starts), 12)
    assert batch.piece_mask[1:-1].all()
    for start, window in zip(starts, batch.piece_ids[1:-1].tolist(), strict=True):
        assert window == [bert.cls_token_id, *row.pieces[start : start + 10].tolist(), bert.sep_token_id]
    assert batch.piece_ids.flatten()[batch.source].tolist() == [*short.pieces, *row.pieces, *short.pieces]
    assert len(set(batch.source.tolist())) == n_words + 2
    assert batch.target.tolist() == [0, *(n_words + i for i in range(n_words)), 2 * n_words]
    assert batch.n_items == n_words


# The limit of an encoder -------------------------------------------------------------------------------------


def test_the_piece_limit_is_the_smaller_one_of_model_and_tokenizer(
    bert: Any, encoder_folder: Callable[[str], str]
) -> None:
    config = AutoConfig.from_pretrained(encoder_folder("bert"))
    for stated, expected in ((20, 20), (64, 64), (500, 64), (int(1e30), 64), (None, 64)):
        bert.model_max_length = stated
        assert piece_limit(config, bert) == expected


def test_the_piece_limit_is_512_if_none_is_stated(bert: Any) -> None:
    class Config:
        model_type = "bert"
        pad_token_id = 0
        max_position_embeddings = -1

    assert piece_limit(Config(), bert) == 512


def test_special_pieces_are_found_for_a_vocabulary_without_latin_letters() -> None:
    backend = Tokenizer(models.BPE(vocab={"[CLS]": 0, "[SEP]": 1, "д": 2, "а": 3}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]", pad_token="[SEP]"
    )
    pieces = WordPieces(tokenizer, limit=10)
    assert pieces.prefix.tolist() == [0]
    assert pieces.suffix.tolist() == [1]
