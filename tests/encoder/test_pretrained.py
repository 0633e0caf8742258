from __future__ import annotations

import json
import re
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
from transformers import AutoConfig, AutoModel

from cascade_srn.encoder import pretrained
from cascade_srn.encoder.pieces import Row, WordPieces, piece_limit
from cascade_srn.encoder.pretrained import (
    PretrainedEncoder,
    add_markers,
    encoder_from_config,
    load_encoder,
    load_tokenizer,
)
from cascade_srn.encoder.windows import FewShapes, LeastWork
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.storage import bundled

SENTENCES = (
    ["We", "train", "a", "tagger", "for", "named", "entity", "recognition", ",", "with", "words", "and", "spans", "."],
    ["recognition"],
    [],
    ["The", "parser", "reads", "every", "sentence", "twice", ";", "scientific", "relations"],
)
MARKERS = {"[S:S]": "subject start", "[S:E]": "subject end", "[E:S]": "entity start", "[E:E]": "entity end"}
POOLINGS = ("first", "mean", "max")


def load(folder: str, **settings: Any) -> tuple[PretrainedEncoder, WordPieces]:
    tokenizer, encoder = load_tokenizer(folder), load_encoder(folder)
    settings.setdefault("limit", piece_limit(encoder.config, tokenizer))
    return encoder, WordPieces(tokenizer, **settings)


def encode(encoder: PretrainedEncoder, pieces: WordPieces, *rows: Row) -> Tensor:
    with torch.no_grad():
        vectors: Tensor = encoder(pieces.batch(rows))
    return vectors


def window_output(encoder: PretrainedEncoder, pieces: WordPieces, inner: Any) -> Tensor:
    """Return the output of the model for one window, without special pieces."""
    window = torch.tensor([[*pieces.prefix, *inner, *pieces.suffix]])
    with torch.no_grad():
        output = encoder.model(input_ids=window, attention_mask=torch.ones_like(window)).last_hidden_state[0]
    return output[len(pieces.prefix) : len(pieces.prefix) + len(inner)]


def check_pooled_vectors(encoder: PretrainedEncoder, pieces: WordPieces) -> None:
    """Compare the vectors of a batch with the pooled output of the model for each sentence alone."""
    rows = [pieces.row(words) for words in SENTENCES]
    vectors = encode(encoder, pieces, *rows)
    assert vectors.shape == (len(SENTENCES), max(map(len, SENTENCES)), encoder.width)
    assert vectors.dtype == torch.float32
    for i, row in enumerate(rows):
        output = window_output(encoder, pieces, row.pieces)
        for k, own in enumerate(output.split(row.sizes.tolist())):
            expected = {"first": own[0], "mean": own.mean(dim=0), "max": own.amax(dim=0)}[encoder.pooling]
            torch.testing.assert_close(vectors[i, k], expected, rtol=0, atol=1e-5)
        assert torch.count_nonzero(vectors[i, len(row) :]) == 0
    assert max(rows[0].sizes) > 1


# Each family -------------------------------------------------------------------------------------------------


def test_each_family_encodes_words(family: str, encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = load(encoder_folder(family))
    assert encoder.config.model_type == family
    assert encoder.width == 32
    check_pooled_vectors(encoder, pieces)
    # A full window fits. RoBERTa and MPNet lose the positions up to the padding index.
    limit = 62 if family in ("roberta", "mpnet") else 64
    batch = pieces.batch([pieces.row(["a"] * pieces.room * 2)])
    assert batch.piece_ids.shape[1] == limit
    assert encoder(batch).isfinite().all()
    # Gradients reach all parameters.
    row = pieces.row(SENTENCES[0])
    vectors = encoder.train()(pieces.batch([row, pieces.row(["a"])]))
    (vectors * torch.linspace(-1, 1, vectors.numel()).view_as(vectors)).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    table = encoder.model.get_input_embeddings().weight.grad
    assert table[row.pieces].abs().amax(dim=1).gt(0).all()


def test_markers_of_each_family(family: str, encoder_folder: Callable[[str], str]) -> None:
    folder = encoder_folder(family)
    encoder, tokenizer = load_encoder(folder), load_tokenizer(folder)
    n_before = len(tokenizer)
    before = encoder.model.get_input_embeddings().weight.detach().clone()
    descriptions = {
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
    assert encoder.config.vocab_size == table.shape[0] >= len(tokenizer)
    assert torch.equal(table[:n_before], before[:n_before])
    # Embeddings start near their descriptions, and apart from each other.
    spread = before.std()
    for marker, i in zip(MARKERS, ids, strict=True):
        away = (table[i] - before[descriptions[marker]].mean(dim=0)).square().mean().sqrt()
        assert 0.2 * spread < away < 0.8 * spread
    assert all((table[i] - table[j]).abs().max() > 0.1 * spread for k, i in enumerate(ids) for j in ids[:k])
    # The extended encoder can be rebuilt from its configuration and weights.
    saved = json.loads(json.dumps(encoder.config.to_dict()))
    again = encoder_from_config(saved, pooling="max")
    assert saved["model_type"] == family
    again.load_state_dict(encoder.state_dict(), strict=True)
    pieces = WordPieces(tokenizer, limit=piece_limit(again.config, tokenizer))
    encoder.pooling = "max"
    rows = [pieces.row(words) for words in SENTENCES]
    assert torch.equal(encode(again.eval(), pieces, *rows), encode(encoder.eval(), pieces, *rows))


# Words to vectors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings(encoder_folder: Callable[[str], str], pooling: str) -> None:
    encoder, pieces = load(encoder_folder("bert"))
    encoder.pooling = pooling
    check_pooled_vectors(encoder, pieces)
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


def test_context_changes_the_vectors_of_a_sentence_but_has_none(encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = load(encoder_folder("bert"))
    words, left, right = SENTENCES[3], ["We", "train"], ["a", "tagger"]
    plain = encode(encoder, pieces, pieces.row(words))
    around = encode(encoder, pieces, pieces.row(words, left, right))
    whole = encode(encoder, pieces, pieces.row([*left, *words, *right]))
    assert around.shape == plain.shape
    torch.testing.assert_close(around, whole[:, 2:-2], rtol=0, atol=1e-5)
    assert (around - plain).abs().amax(dim=-1).gt(1e-3).all()


def test_nothing_to_encode(encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = load(encoder_folder("bert"))
    assert encoder(pieces.batch([])).shape == (0, 0, 32)
    assert encoder(pieces.batch([pieces.row([]), pieces.row([])])).shape == (2, 0, 32)


def test_an_unknown_pooling_is_refused(encoder_folder: Callable[[str], str]) -> None:
    with pytest.raises(ConfigError, match="'men'"):
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
    """An encoder with two layers of local attention, in which a piece depends on four pieces on either side."""
    return tiny_encoder(
        "modernbert",
        tmp_path_factory.mktemp("local"),
        positions=500,
        layer_types=["sliding_attention"] * 2,
        local_attention=4,
    )


REACH = 4


def test_the_local_encoder_reaches_four_pieces(local_folder: str) -> None:
    encoder, pieces = load(local_folder)
    row = pieces.row(long_sentence(40))
    assert len(row.pieces) > 30
    changed = row.pieces.copy()
    changed[20] = (row.pieces[20] + 1) % 300 + 10
    difference = window_output(encoder, pieces, row.pieces) - window_output(encoder, pieces, changed)
    assert difference.abs().amax(dim=-1).gt(1e-6).nonzero().flatten().tolist() == list(range(16, 25))


@pytest.mark.parametrize(("limit", "overlap"), [(42, 20), (12, 9)])
def test_words_far_from_a_window_edge_do_not_depend_on_the_window(local_folder: str, limit: int, overlap: int) -> None:
    """A piece is at least ``overlap // 2`` away from an edge, which is the reach of the local encoder or more."""
    assert overlap // 2 >= REACH
    encoder, one_window = load(local_folder)
    _, windows = load(local_folder, limit=limit, overlap=overlap)
    words = long_sentence(150)
    assert len(one_window.batch([one_window.row(words)]).piece_ids) == 1
    assert len(windows.batch([windows.row(words)]).piece_ids) > 4
    expected = encode(encoder, one_window, one_window.row(words))
    torch.testing.assert_close(encode(encoder, windows, windows.row(words)), expected, rtol=0, atol=2e-5)


def test_vectors_do_not_depend_on_the_passes(encoder_folder: Callable[[str], str]) -> None:
    encoder, pieces = load(encoder_folder("mpnet"), limit=42)
    encoder.pooling = "first"
    rows = [pieces.row(long_sentence(n)) for n in (3, 20, 5, 90, 4)]
    whole = pieces.batch(rows)
    for division in (LeastWork(8), FewShapes(2)):
        parted = pieces.batch(rows, division)
        assert len(parted.passes) > 2
        with torch.no_grad():
            torch.testing.assert_close(encoder(parted), encoder(whole), rtol=0, atol=2e-5)


def test_a_vector_comes_from_the_window_with_most_context(encoder_folder: Callable[[str], str]) -> None:
    room, words = 20, long_sentence(77)
    for overlap in (0, 9):
        encoder, pieces = load(encoder_folder("bert"), limit=22, overlap=overlap)
        row = pieces.row(words)
        assert len(row.pieces) == 77
        vectors = encode(encoder, pieces, row)[0]
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


# Markers -----------------------------------------------------------------------------------------------------


def test_adding_markers_again_adds_nothing(encoder_folder: Callable[[str], str]) -> None:
    encoder, tokenizer = load_encoder(encoder_folder("bert")), load_tokenizer(encoder_folder("bert"))
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


@pytest.mark.parametrize("family_of_tokenizer", ["albert", "roberta"])
def test_markers_survive_saving(family_of_tokenizer: str, encoder_folder: Callable[[str], str], tmp_path: Path) -> None:
    folder = encoder_folder(family_of_tokenizer)
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


# Configurations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"model_type": "no-such-model"}, {"model_type": None}, {"hidden_size": "wide"}])
def test_a_configuration_that_cannot_be_built_is_refused(
    encoder_folder: Callable[[str], str], changes: dict[str, Any]
) -> None:
    config = AutoConfig.from_pretrained(encoder_folder("bert")).to_dict() | changes
    with pytest.raises(ModelError, match=re.escape(repr(config["model_type"]))):
        encoder_from_config(config)


# Errors on loading -------------------------------------------------------------------------------------------

LOADERS = {"encoder": load_encoder, "tokenizer": load_tokenizer}


def test_a_folder_without_a_configuration(own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("bert")
    (folder / "config.json").unlink()
    for name in (str(folder), str(folder / "nowhere"), "./nowhere", "~/nowhere/at/all", "../nowhere"):
        for what, load_it in LOADERS.items():
            with pytest.raises(ModelError) as error:
                load_it(name)
            assert what in error.value.problem
            assert repr(name) in error.value.problem
            assert "config.json" in error.value.problem


def test_a_hub_id_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for name in ("no-such-owner/no-such-encoder", "not//an id"):
        with pytest.raises(ModelError, match=name):
            load_encoder(name)


def test_a_hub_that_is_out_of_reach_is_not_asked_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(name: str, **settings: Any) -> None:
        asked.append(settings.get("local_files_only", False))
        raise OSError("nothing in the cache")

    monkeypatch.setattr(pretrained.AutoModel, "from_pretrained", ask)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as hub:
        hub.bind(("127.0.0.1", 0))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{hub.getsockname()[1]}")
        with pytest.raises(ModelError, match="the cache does not have it"):
            load_encoder("an-owner/a-name")
        hub.listen()
        with pytest.raises(ModelError):
            load_encoder("an-owner/a-name")
    assert asked == [True, False]


def test_a_model_is_no_encoder() -> None:
    for load_it in LOADERS.values():
        with pytest.raises(ModelError, match=bundled.DEFAULT):
            load_it(bundled.DEFAULT)
    # Its folder has a tokenizer, which loading the model uses.
    folder = str(bundled.find_model(bundled.DEFAULT))
    with pytest.raises(ModelError, match=re.escape(folder)):
        load_encoder(folder)
    load_tokenizer(folder)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError("We couldn't connect\nto the hub"), "(We couldn't connect)"), (ValueError(), "(ValueError)")],
)
def test_an_error_of_transformers_is_reported_in_one_line(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(pretrained.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(ModelError) as caught:
        load_tokenizer("some-owner/some-encoder")
    assert reason in caught.value.problem
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "configuration is not JSON": lambda f: (f / "config.json").write_text("{"),
    "configuration that contradicts itself": lambda f: change_config(f, num_attention_heads=3),
    "configuration of another size": lambda f: change_config(f, hidden_size=64),
    "configuration of more layers": lambda f: change_config(f, num_hidden_layers=3),
    "weights are cut": lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:999]),
    "tokenizer is cut": lambda f: (f / "tokenizer.json").write_text("{"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_encoder_folder(damage: str, own_folder: Callable[[str], Path]) -> None:
    folder = own_folder("bert")
    DAMAGES[damage](folder)
    with pytest.raises(ModelError, match=re.escape(repr(str(folder)))):
        LOADERS["tokenizer" if damage.startswith("tokenizer") else "encoder"](str(folder))


@pytest.mark.parametrize("family_of_tokenizer", ["bert", "deberta-v2"])
def test_a_folder_without_tokenizer_files(family_of_tokenizer: str, own_folder: Callable[[str], Path]) -> None:
    """Most classes of transformers would return a tokenizer to which every word is unknown."""
    folder = own_folder(family_of_tokenizer)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=re.escape(repr(str(folder)))):
        load_tokenizer(str(folder))
