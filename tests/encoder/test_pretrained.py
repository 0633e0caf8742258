from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from tests.tiny_encoders import WORDS, tiny_encoder
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from cascade_srn.encoder import pretrained
from cascade_srn.encoder.pieces import Row, WordPieces, piece_limit
from cascade_srn.encoder.pretrained import (
    PretrainedEncoder,
    add_markers,
    encoder_from_config,
    load_encoder,
    load_tokenizer,
    quiet_transformers,
)
from cascade_srn.encoder.windows import FewShapes, LeastWork
from cascade_srn.errors import CascadeError, ConfigError, ModelError
from cascade_srn.storage import bundled

SENTENCES = (
    ["We", "train", "a", "tagger", "for", "named", "entity", "recognition", ",", "with", "words", "and", "spans", "."],
    ["recognition"],
    [],
    ["The", "parser", "reads", "every", "sentence", "twice", ";", "scientific", "relations"],
)
MARKERS = {"[S:S]": "subject start", "[S:E]": "subject end", "[E:S]": "entity start", "[E:E]": "entity end"}
POOLINGS = ("first", "mean", "max")


@pytest.fixture
def folder(family: str, encoder_folder: Callable[[str], str]) -> str:
    return encoder_folder(family)


def loaded(folder: str, **settings: Any) -> tuple[PretrainedEncoder, WordPieces]:
    tokenizer, encoder = load_tokenizer(folder), load_encoder(folder)
    settings.setdefault("limit", piece_limit(encoder.config, tokenizer))
    return encoder, WordPieces(tokenizer, **settings)


def encoded(encoder: PretrainedEncoder, pieces: WordPieces, *rows: Row) -> Tensor:
    with torch.no_grad():
        vectors: Tensor = encoder(pieces.batch(rows))
    return vectors


def window_output(encoder: PretrainedEncoder, pieces: WordPieces, inner: Any) -> Tensor:
    """The model's own output for one window, without what stands before and after it."""
    window = torch.tensor([[*pieces.prefix, *inner, *pieces.suffix]])
    with torch.no_grad():
        output = encoder.model(input_ids=window, attention_mask=torch.ones_like(window)).last_hidden_state[0]
    return output[len(pieces.prefix) : len(pieces.prefix) + len(inner)]


# Words to vectors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_words_vector_is_pooled_from_the_models_output_for_its_pieces(folder: str, pooling: str) -> None:
    encoder, pieces = loaded(folder)
    encoder.pooling = pooling
    rows = [pieces.row(words) for words in SENTENCES]
    vectors = encoded(encoder, pieces, *rows)
    assert vectors.shape == (len(SENTENCES), max(map(len, SENTENCES)), encoder.width)
    assert vectors.dtype == torch.float32
    assert encoder.width == 32
    for i, row in enumerate(rows):
        output = window_output(encoder, pieces, row.pieces)
        at = 0
        for k, size in enumerate(row.sizes):
            own = output[at : at + size]
            expected = {"first": own[0], "mean": own.mean(dim=0), "max": own.amax(dim=0)}[pooling]
            torch.testing.assert_close(vectors[i, k], expected, rtol=0, atol=1e-5)
            at += size


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_of_pooling(encoder_folder: Callable[[str], str], pooling: str) -> None:
    encoder, pieces = loaded(encoder_folder("bert"))
    encoder.pooling = pooling
    row = pieces.row(["We", "recognition", "a"])
    table = encoder.model.get_input_embeddings().weight
    weight = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    (received,) = torch.autograd.grad((encoder(pieces.batch([row]))[0] * weight).sum(), table)
    window = torch.tensor([[*pieces.prefix, *row.pieces, *pieces.suffix]])
    output = encoder.model(input_ids=window).last_hidden_state[0, 1:-1]
    words = [output[:1], output[1:-1], output[-1:]]
    pooled = {"first": lambda w: w[0], "mean": lambda w: w.mean(dim=0), "max": lambda w: w.amax(dim=0)}[pooling]
    (expected,) = torch.autograd.grad((torch.stack([pooled(w) for w in words]) * weight).sum(), table)
    torch.testing.assert_close(received, expected, rtol=1e-4, atol=1e-4)
    assert received.abs().max() > 0.01


def test_poolings_differ(encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = loaded(encoder_folder("bert"))
    found = []
    for pooling in POOLINGS:
        encoder.pooling = pooling
        found.append(encoded(encoder, pieces, pieces.row(["recognition"])))
    assert all((a - b).abs().max() > 0.1 for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_zero_at_padding(encoder_folder: Callable[[str], str], pooling: str) -> None:
    encoder, pieces = loaded(encoder_folder("bert"))
    encoder.pooling = pooling
    vectors = encoded(encoder, pieces, *(pieces.row(words) for words in SENTENCES))
    for i, words in enumerate(SENTENCES):
        assert torch.count_nonzero(vectors[i, len(words) :]) == 0
        assert vectors[i, : len(words)].abs().amax(dim=-1).gt(0.1).all()


def test_a_sentence_alone_equals_the_same_in_a_batch(folder: str) -> None:
    encoder, pieces = loaded(folder)
    rows = [pieces.row(words) for words in SENTENCES]
    together = encoded(encoder, pieces, *rows)
    order = [2, 3, 0, 1]
    moved = encoded(encoder, pieces, *(rows[i] for i in order))
    torch.testing.assert_close(moved, together[order], rtol=0, atol=1e-5)
    for i, row in enumerate(rows):
        torch.testing.assert_close(encoded(encoder, pieces, row)[0], together[i, : len(row)], rtol=0, atol=1e-5)


def test_words_around_the_sentence_change_its_vectors_but_get_none(folder: str) -> None:
    encoder, pieces = loaded(folder)
    words, left, right = SENTENCES[3], ["We", "train"], ["a", "tagger"]
    plain = encoded(encoder, pieces, pieces.row(words))
    around = encoded(encoder, pieces, pieces.row(words, left, right))
    whole = encoded(encoder, pieces, pieces.row([*left, *words, *right]))
    assert around.shape == plain.shape
    torch.testing.assert_close(around, whole[:, 2:-2], rtol=0, atol=1e-5)
    assert (around - plain).abs().amax(dim=-1).gt(1e-3).all()


def test_nothing_to_encode(encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = loaded(encoder_folder("bert"))
    assert encoder(pieces.batch([])).shape == (0, 0, 32)
    assert encoder(pieces.batch([pieces.row([]), pieces.row([])])).shape == (2, 0, 32)


def test_gradients_reach_the_whole_encoder(folder: str) -> None:
    encoder, pieces = loaded(folder)
    row = pieces.row(SENTENCES[0])
    vectors = encoder.train()(pieces.batch([row, pieces.row(["a"])]))
    (vectors * torch.linspace(-1, 1, vectors.numel()).view_as(vectors)).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    table = encoder.model.get_input_embeddings().weight.grad
    assert table[row.pieces].abs().amax(dim=1).gt(0).all()


def test_the_pooler_is_left_out(folder: str) -> None:
    encoder = load_encoder(folder)
    assert not [name for name, _ in encoder.named_parameters() if "pooler" in name]
    with torch.no_grad():
        whole = AutoModel.from_pretrained(folder).eval()(torch.tensor([[1, 2, 9, 3]])).last_hidden_state
        assert torch.equal(encoder.eval().model(torch.tensor([[1, 2, 9, 3]])).last_hidden_state, whole)


def test_an_unknown_pooling_is_refused(encoder_folder: Callable[[str], str]) -> None:
    with pytest.raises(ConfigError, match=r"pooling is 'men', not one of first, mean, max.*'mean'"):
        load_encoder(encoder_folder("bert"), pooling="men")


def test_weights_are_float32_whatever_they_were_saved_in(own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("bert")
    AutoModel.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    encoder = load_encoder(str(folder))
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    again = encoder_from_config(encoder.config.to_dict())
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}


# Windows -----------------------------------------------------------------------------------------------------

# One piece each for the tiny BERT.
SHORT_WORDS = [word for word in WORDS if 1 < len(word) < 7]


def long_sentence(n_words: int, seed: int = 0) -> list[str]:
    return np.random.default_rng(seed).choice(SHORT_WORDS, n_words).tolist()


@pytest.fixture(scope="module")
def local_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoder in which a piece sees two pieces to either side in each of two layers, so four in all."""
    return tiny_encoder(
        "modernbert",
        tmp_path_factory.mktemp("local"),
        positions=500,
        layer_types=["sliding_attention"] * 2,
        local_attention=4,
    )


REACH = 4


def test_the_local_encoder_sees_four_pieces_to_either_side(local_folder: str) -> None:
    encoder, pieces = loaded(local_folder)
    row = pieces.row(long_sentence(40))
    assert len(row.pieces) > 30
    changed = row.pieces.copy()
    changed[20] = (row.pieces[20] + 1) % 300 + 10
    difference = window_output(encoder, pieces, row.pieces) - window_output(encoder, pieces, changed)
    assert difference.abs().amax(dim=-1).gt(1e-6).nonzero().flatten().tolist() == list(range(16, 25))


@pytest.mark.parametrize(("limit", "overlap"), [(42, 20), (22, 10), (32, 29), (12, 9)])
def test_words_far_from_a_window_edge_do_not_depend_on_the_window(local_folder: str, limit: int, overlap: int) -> None:
    """A piece stands at least ``overlap // 2`` from an edge: with that much reach, no vector changes at all."""
    assert overlap // 2 >= REACH
    encoder, one_window = loaded(local_folder)
    _, windows = loaded(local_folder, limit=limit, overlap=overlap)
    words = long_sentence(150)
    assert len(one_window.batch([one_window.row(words)]).piece_ids) == 1
    assert len(windows.batch([windows.row(words)]).piece_ids) > 4
    expected = encoded(encoder, one_window, one_window.row(words))
    torch.testing.assert_close(encoded(encoder, windows, windows.row(words)), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_do_not_depend_on_the_passes(encoder_folder: Callable[[str], str], pooling: str) -> None:
    encoder, pieces = loaded(encoder_folder("mpnet"), limit=42)
    encoder.pooling = pooling
    rows = [pieces.row(long_sentence(n)) for n in (3, 20, 5, 90, 4)]
    whole = pieces.batch(rows)
    for division in (LeastWork(8), FewShapes(2)):
        parted = pieces.batch(rows, division)
        assert len(parted.passes) > 2
        with torch.no_grad():
            torch.testing.assert_close(encoder(parted), encoder(whole), rtol=0, atol=2e-5)


def test_words_near_a_window_edge_are_the_only_ones_to_depend_on_the_window(local_folder: str) -> None:
    encoder, one_window = loaded(local_folder)
    _, windows = loaded(local_folder, limit=42, overlap=0)
    row = one_window.row(long_sentence(150))
    batch = windows.batch([row])
    n_pieces, room = len(row.pieces), 40
    owner = (batch.source // 42).numpy()
    start = np.minimum(owner * room, n_pieces - room)
    position = np.arange(n_pieces)
    before = np.where(start > 0, position - start, n_pieces)
    after = np.where(start + room < n_pieces, start + room - 1 - position, n_pieces)
    # A word of several pieces is as near as its nearest piece.
    ends = np.cumsum(row.sizes)
    near = np.array(
        [np.minimum(before, after)[end - size : end].min() for end, size in zip(ends, row.sizes, strict=True)]
    )
    difference = (encoded(encoder, windows, row) - encoded(encoder, one_window, row))[0].abs().amax(dim=-1).numpy()
    assert (difference[near >= REACH] < 2e-5).all()
    assert (difference[near < REACH] > 1e-4).any()


@pytest.mark.parametrize("overlap", [0, 1, 9, 16])
def test_a_words_vector_is_that_of_the_window_it_stands_deepest_in(
    encoder_folder: Callable[[str], str], overlap: int
) -> None:
    encoder, pieces = loaded(encoder_folder("bert"), limit=22, overlap=overlap)
    room, words = 20, long_sentence(77)
    row = pieces.row(words)
    assert len(row.pieces) == 77
    vectors = encoded(encoder, pieces, row)[0]
    assert vectors.isfinite().all()
    starts = [*range(0, 57, room - overlap), 57]
    outputs = {start: window_output(encoder, pieces, row.pieces[start : start + room]) for start in starts}
    for word in range(77):
        depth = {}
        for start in starts:
            if start <= word < start + room:
                before = word - start if start else 77
                after = start + room - 1 - word if start + room < 77 else 77
                depth[start] = min(before, after)
        deepest = max(depth, key=lambda start: (depth[start], -start))
        torch.testing.assert_close(vectors[word], outputs[deepest][word - deepest], rtol=0, atol=1e-5)


def test_a_sentence_longer_than_the_encoder_takes_is_read_to_its_end(folder: str) -> None:
    encoder, pieces = loaded(folder)
    words = long_sentence(200)
    vectors = encoded(encoder, pieces, pieces.row(SENTENCES[0]), pieces.row(words))
    assert vectors.shape == (2, 200, 32)
    assert vectors[1].isfinite().all()
    assert vectors[1].abs().amax(dim=-1).gt(0.01).all()
    changed = encoded(encoder, pieces, pieces.row(SENTENCES[0]), pieces.row([*words[:-1], "relations"]))
    assert (changed[1, -1] - vectors[1, -1]).abs().max() > 0.01
    torch.testing.assert_close(changed[1, :100], vectors[1, :100], rtol=0, atol=1e-5)
    torch.testing.assert_close(
        vectors[0, :14], encoded(encoder, pieces, pieces.row(SENTENCES[0]))[0], rtol=0, atol=1e-5
    )


def test_a_full_window_is_within_what_the_encoder_takes(folder: str) -> None:
    encoder, pieces = loaded(folder)
    filler = pieces.row(["a"]).pieces
    row = Row(
        pieces=np.resize(filler, pieces.room),
        sizes=np.ones(pieces.room, dtype=np.int64),
        word_items=np.arange(pieces.room),
        left=filler[:0],
        right=filler[:0],
    )
    batch = pieces.batch([row])
    assert batch.piece_ids.shape == (1, piece_limit(encoder.config, load_tokenizer(folder)))
    assert encoder(batch).isfinite().all()


# Markers -----------------------------------------------------------------------------------------------------


def test_markers_become_special_tokens_with_vectors_near_what_describes_them(folder: str) -> None:
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    n_before = len(tokenizer)
    before = encoder.model.get_input_embeddings().weight.detach().clone()
    describing = {
        marker: tokenizer(f" {words}", add_special_tokens=False)["input_ids"] for marker, words in MARKERS.items()
    }
    torch.manual_seed(0)
    add_markers(encoder, tokenizer, MARKERS)
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert sorted(ids) == list(range(n_before, n_before + 4))
    for marker, i in zip(MARKERS, ids, strict=True):
        assert tokenizer(f"We {marker} train", add_special_tokens=False)["input_ids"].count(i) == 1
        assert tokenizer.added_tokens_decoder[i].special
    table = encoder.model.get_input_embeddings().weight.detach()
    assert table.shape[0] >= len(tokenizer)
    assert encoder.config.vocab_size == table.shape[0]
    assert torch.equal(table[:n_before], before[:n_before])
    spread = before.std()
    for marker, i in zip(MARKERS, ids, strict=True):
        away = (table[i] - before[describing[marker]].mean(dim=0)).square().mean().sqrt()
        assert 0.2 * spread < away < 0.8 * spread
    assert all((table[i] - table[j]).abs().max() > 0.1 * spread for k, i in enumerate(ids) for j in ids[:k])


def test_markers_of_the_same_description_start_apart(encoder_folder: Callable[[str], str]) -> None:
    encoder, tokenizer = load_encoder(encoder_folder("bert")), load_tokenizer(encoder_folder("bert"))
    add_markers(encoder, tokenizer, {"[A]": "entity", "[B]": "entity", "[C]": ""})
    table = encoder.model.get_input_embeddings().weight
    a, b, c = (table[i] for i in tokenizer.convert_tokens_to_ids(["[A]", "[B]", "[C]"]))
    assert (a - b).abs().max() > 0.01
    assert c.isfinite().all()


def test_adding_markers_again_adds_nothing(folder: str) -> None:
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    add_markers(encoder, tokenizer, MARKERS)
    n_tokens, table = len(tokenizer), encoder.model.get_input_embeddings().weight.detach().clone()
    add_markers(encoder, tokenizer, MARKERS)
    assert len(tokenizer) == n_tokens
    assert torch.equal(encoder.model.get_input_embeddings().weight, table)
    add_markers(encoder, tokenizer, {**MARKERS, "[O:S]": "object start"})
    assert len(tokenizer) == n_tokens + 1
    assert torch.equal(encoder.model.get_input_embeddings().weight[:n_tokens], table[:n_tokens])


def test_markers_use_spare_rows_of_the_table_first(tmp_path: Path) -> None:
    n_tokens = len(load_tokenizer(tiny_encoder("bert", tmp_path / "plain")))
    folder = tiny_encoder("bert", tmp_path / "spare", vocab_size=n_tokens + 10)
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    add_markers(encoder, tokenizer, MARKERS)
    assert encoder.model.get_input_embeddings().weight.shape[0] == n_tokens + 10
    assert max(tokenizer.convert_tokens_to_ids(list(MARKERS))) == n_tokens + 3


def test_markers_survive_saving(folder: str, tmp_path: Path) -> None:
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    add_markers(encoder, tokenizer, MARKERS)
    encoder.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(str(tmp_path))
    ids = tokenizer.convert_tokens_to_ids(list(MARKERS))
    assert again.convert_tokens_to_ids(list(MARKERS)) == ids
    assert set(WordPieces(again, limit=64).row(list(MARKERS)).pieces.tolist()).isdisjoint(ids)
    table = load_encoder(str(tmp_path)).model.get_input_embeddings().weight
    assert torch.equal(table, encoder.model.get_input_embeddings().weight)


def test_a_marker_has_a_vector_of_its_own(folder: str) -> None:
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    add_markers(encoder, tokenizer, MARKERS)
    pieces = WordPieces(tokenizer, limit=piece_limit(encoder.config, tokenizer))
    plain = pieces.row(["We", "train"])
    ids = tokenizer.convert_tokens_to_ids(["[S:S]", "[E:S]"])
    vectors = []
    for i in ids:
        marked = Row(
            pieces=np.insert(plain.pieces, 0, i),
            sizes=np.insert(plain.sizes, 0, 1),
            word_items=plain.word_items + 1,
            left=plain.left,
            right=plain.right,
        )
        vectors.append(encoded(encoder, pieces, marked)[0])
    assert vectors[0].shape == (3, 32)
    assert (vectors[0] - vectors[1]).abs().amax(dim=-1).gt(1e-4).all()


# Shapes without weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_markers", [False, True])
def test_an_encoder_is_rebuilt_from_its_configuration(folder: str, with_markers: bool) -> None:
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    if with_markers:
        add_markers(encoder, tokenizer, MARKERS)
    saved = json.loads(json.dumps(encoder.config.to_dict()))
    again = encoder_from_config(saved, pooling="max")
    assert again.pooling == "max"
    assert saved["model_type"] == encoder.config.model_type  # the configuration handed in is left as it was
    again.load_state_dict(encoder.state_dict(), strict=True)
    pieces = WordPieces(tokenizer, limit=piece_limit(again.config, tokenizer))
    encoder.pooling = "max"
    rows = [pieces.row(words) for words in SENTENCES]
    assert torch.equal(encoded(again.eval(), pieces, *rows), encoded(encoder.eval(), pieces, *rows))


@pytest.mark.parametrize("config", [{"model_type": "no-such-model", "hidden_size": 32}, {"hidden_size": 32}, {}])
def test_an_unknown_model_type_is_refused(config: dict[str, Any]) -> None:
    named = repr(config.get("model_type"))
    with pytest.raises(ModelError, match=f"names the model type {named}, which the installed transformers cannot"):
        encoder_from_config(config)


@pytest.mark.parametrize("spoilt", [{"hidden_size": "wide"}, {"hidden_act": "no-such-activation"}])
def test_a_configuration_that_cannot_be_built_is_refused(
    encoder_folder: Callable[[str], str], spoilt: dict[str, Any]
) -> None:
    config = AutoConfig.from_pretrained(encoder_folder("bert")).to_dict()
    with pytest.raises(ModelError, match="names the model type 'bert', which the installed transformers cannot build"):
        encoder_from_config(config | spoilt)


# What can go wrong on loading --------------------------------------------------------------------------------

LOADERS = {"encoder": load_encoder, "tokenizer": load_tokenizer}


@pytest.fixture(params=LOADERS)
def what(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_missing_folder(what: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=rf"there is no {what} in '.*nowhere': a folder with config.json was expected"):
        LOADERS[what](str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere/at/all", "../nowhere"])
def test_a_missing_folder_by_a_relative_path(what: str, name: str) -> None:
    with pytest.raises(ModelError, match=f"there is no {what} in '{name}'"):
        LOADERS[what](name)


def test_a_folder_without_a_configuration(what: str, own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("bert")
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=rf"there is no {what} in .*give the folder of a pretrained encoder"):
        LOADERS[what](str(folder))


@pytest.mark.parametrize("name", ["no-such-owner/no-such-encoder", "no-such-encoder", "not//an id"])
def test_a_hub_id_without_a_network(what: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=rf"the {what} '{name}' could not be loaded \(.+\); check the name, or"):
        LOADERS[what](name)


def test_a_hub_that_is_out_of_reach_is_not_asked_again_and_again(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(name: str, **settings: Any) -> None:
        asked.append(settings.get("local_files_only", False))
        raise OSError("nothing in the cache")

    monkeypatch.setattr(pretrained.AutoModel, "from_pretrained", ask)
    monkeypatch.setattr(pretrained.AutoTokenizer, "from_pretrained", ask)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as hub:
        hub.bind(("127.0.0.1", 0))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{hub.getsockname()[1]}")
        with pytest.raises(ModelError, match=rf"the {what} 'an-owner/a-name' could not be loaded \(nothing in"):
            LOADERS[what]("an-owner/a-name")
        hub.listen()
        with pytest.raises(ModelError, match="could not be loaded"):
            LOADERS[what]("an-owner/a-name")
    assert asked == [True, False]


def test_a_bundled_model_is_no_encoder(what: str) -> None:
    told = f"'{bundled.DEFAULT}' is a trained model of cascade-srn, not an encoder; give the folder of a pretrained"
    with pytest.raises(ModelError, match=told):
        LOADERS[what](bundled.DEFAULT)


def test_the_folder_of_a_model_is_no_encoder() -> None:
    folder = str(bundled.find_model(bundled.DEFAULT))
    with pytest.raises(ModelError, match=r"is a trained model of cascade-srn, not an encoder; give the folder of a"):
        load_encoder(folder)
    load_tokenizer(folder)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("We couldn't connect\nto the hub"), r"\(We couldn't connect\)"),
        (ConnectionError("reset"), r"\(reset\)"),
        (KeyError("model"), r"\('model'\)"),
        (ValueError(), r"\(ValueError\)"),
        (RuntimeError("sizes differ"), r"\(sizes differ\)"),
    ],
)
def test_an_error_of_transformers_is_told_in_one_line(
    what: str, error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(pretrained.AutoModel, "from_pretrained", fail)
    monkeypatch.setattr(pretrained.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(ModelError, match=reason) as caught:
        LOADERS[what]("some-owner/some-encoder")
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def changed_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


SPOILERS: dict[str, Callable[[Path], object]] = {
    "configuration is not JSON": lambda f: (f / "config.json").write_text("{"),
    "configuration is empty": lambda f: (f / "config.json").write_text("{}"),
    "configuration of an unknown model": lambda f: changed_config(f, model_type="no-such-model"),
    "configuration of the wrong type": lambda f: changed_config(f, hidden_size="wide"),
    "configuration that contradicts itself": lambda f: changed_config(f, num_attention_heads=3),
    "configuration of another size": lambda f: changed_config(f, hidden_size=64),
    "weights are missing": lambda f: (f / "model.safetensors").unlink(),
    "weights are empty": lambda f: (f / "model.safetensors").write_bytes(b""),
    "weights are cut": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:999]),
    "weights are a pointer": lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec"),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_spoilt_encoder_folder(spoiler: str, own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("bert")
    SPOILERS[spoiler](folder)
    with pytest.raises(CascadeError, match=r"the encoder .* could not be loaded \(.+\)"):
        load_encoder(str(folder))


@pytest.mark.parametrize("content", ["{", "{}", ""])
@pytest.mark.parametrize("family_of_file", ["bert", "modernbert"])
def test_a_spoilt_tokenizer(family_of_file: str, content: str, own_folder: Callable[[str], Path]) -> None:
    folder = own_folder(family_of_file)
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(CascadeError, match=r"the tokenizer .* could not be loaded \(.+\)"):
        load_tokenizer(str(folder))


def test_a_folder_without_tokenizer_files(family: str, own_folder: Callable[[str], Path]) -> None:
    """Most classes of transformers would give a tokenizer to which every word is unknown."""
    folder = own_folder(family)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"tokenizer.* (has no vocabulary but special tokens|could not be loaded)"):
        load_tokenizer(str(folder))


# Noise -------------------------------------------------------------------------------------------------------


def fail_in_quiet() -> None:
    assert logging.get_verbosity() == logging.ERROR
    assert not logging.is_progress_bar_enabled()
    raise RuntimeError("inside")


@pytest.mark.parametrize("bars", [True, False])
def test_quiet_transformers_puts_everything_back(bars: bool) -> None:
    before, bars_before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_info()
        (logging.enable_progress_bar if bars else logging.disable_progress_bar)()
        with pytest.raises(RuntimeError, match="inside"), quiet_transformers():
            fail_in_quiet()
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled() == bars
    finally:
        logging.set_verbosity(before)
        (logging.enable_progress_bar if bars_before else logging.disable_progress_bar)()


def test_loading_says_nothing(folder: str, capfd: pytest.CaptureFixture[str]) -> None:
    load_encoder(folder)
    load_tokenizer(folder)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_the_tiny_encoders_load_as_their_family_does(family: str, folder: str) -> None:
    assert AutoConfig.from_pretrained(folder).model_type == family
    assert AutoTokenizer.from_pretrained(folder).is_fast


def test_weights_that_the_configuration_asks_for_and_the_folder_lacks_are_not_made_up(tmp_path: Path) -> None:
    folder = Path(tiny_encoder("bert", tmp_path / "bert"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"lacks \d+ of the weights that its config.json asks for, such as 'encoder"):
        load_encoder(str(folder))
