"""CUDA graphs of encoder passes in prediction: the same vectors as without them, and when they are used.

Tests without a GPU call the functions that a GPU captures.
"""

import gc
import pickle
import threading
import warnings
import weakref

import pytest
import torch
from tests.small_models import SENTENCES, examples, small_model
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder

from cascade_srn.encoder.cuda_graphs.passes import (
    Bf16Linears,
    PassCudaGraphs,
    begin_prediction,
    pass_cuda_graphs,
    read_pass,
)
from cascade_srn.encoder.pretrained import load_encoder
from cascade_srn.encoder.windows import FullPasses
from cascade_srn.types import Sentence


def rows_of(model, sentences=SENTENCES, max_pieces=64):
    pieces = model.collator.pieces
    rows = [model.collator.plain(example) for example in examples(sentences)]
    return pieces.batch(rows, FullPasses(max_pieces)).to(model.device)


def uncaptured(**settings):
    return PassCudaGraphs(capture=False, **{"min_occurrences": 1, **settings})


@torch.inference_mode()
def features(model, rows, graphs=None, *, bf16=False):
    return model.cascade.features(rows, bf16=bf16, replay=None if graphs is None else graphs.read)


def autocast(bf16, device="cpu"):
    return torch.autocast(device, torch.bfloat16, enabled=bf16)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("fusion", ["swift", "early"])
def test_replayed_passes_give_the_features_of_plain_ones(fusion, bf16):
    model = small_model(fusion)
    rows, graphs = rows_of(model), uncaptured()
    assert len(rows.passes) > 2
    expected = features(model, rows, bf16=bf16)
    assert torch.equal(features(model, rows, graphs, bf16=bf16), expected)
    # The static tensors have values of other passes now.
    assert torch.equal(features(model, rows, graphs, bf16=bf16), expected)
    assert len(graphs) == len(set(rows.passes))


def test_a_pass_of_the_same_shape_reads_its_own_pieces():
    model, graphs = small_model(), uncaptured()
    batches = [
        rows_of(model, [Sentence.from_words(words)]) for words in (["a"] * 6, ["tagger", "helps"], ["a", "parser"])
    ]
    assert len({batch.passes for batch in batches}) == 1
    assert len({int(batch.piece_mask.sum()) for batch in batches}) > 1
    for batch in batches:
        assert torch.equal(features(model, batch, graphs), features(model, batch))
    assert len(graphs) == 1


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_half_linears_compute_what_autocast_computes(family, tmp_path):
    model = load_encoder(tiny_encoder(family, tmp_path)).eval().model
    bf16 = Bf16Linears(model)
    ids, mask = torch.arange(4, 28).view(3, 8), torch.arange(8) < torch.tensor([8, 5, 1])[:, None]
    with torch.no_grad(), autocast(True):
        assert torch.equal(read_pass(bf16.module, ids, mask), read_pass(model, ids, mask))
    replaced = [p for p in bf16.module.parameters() if p.dtype == torch.bfloat16]
    assert replaced
    # Everything else is shared, and the model itself has not changed.
    own = {id(parameter) for parameter in model.parameters()}
    assert all(id(p) in own for p in bf16.module.parameters() if p.dtype != torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_weights_that_changed_are_read_again():
    model, graphs = small_model(), uncaptured()
    rows = rows_of(model)
    before = features(model, rows, graphs, bf16=True)
    with torch.no_grad():
        for weight in model.cascade.encoder.parameters():
            weight.mul_(1.5)
    graphs.begin_prediction()
    after = features(model, rows, graphs, bf16=True)
    assert not torch.equal(after, before)
    assert torch.equal(after, features(model, rows, bf16=True))


def test_only_an_encoder_with_graphs_reads_its_weights_again(monkeypatch):
    encoder = small_model().cascade.encoder
    updated = []
    monkeypatch.setattr(PassCudaGraphs, "begin_prediction", lambda self: updated.append(self))
    begin_prediction(encoder)
    assert updated == []
    graphs = pass_cuda_graphs(encoder)
    begin_prediction(encoder)
    assert updated == [graphs]


def test_graphs_of_weights_that_moved_are_dropped():
    model, graphs = small_model(), uncaptured()
    rows = rows_of(model)
    features(model, rows, graphs, bf16=True)
    for weight in model.network.parameters():
        weight.data = weight.data * 1.5
    one = rows_of(model, SENTENCES[:1])
    assert torch.equal(features(model, one, graphs, bf16=True), features(model, one, bf16=True))
    assert len(graphs) == len(set(one.passes)) < len(set(rows.passes))
    assert torch.equal(features(model, rows, graphs, bf16=True), features(model, rows, bf16=True))


def test_a_shape_is_captured_when_it_recurs():
    model, graphs = small_model(), uncaptured(min_occurrences=3)
    rows = rows_of(model, SENTENCES[:1])
    for expected in (0, 0, 1, 1):
        features(model, rows, graphs)
        assert len(graphs) == expected
    # Another precision is another graph.
    features(model, rows, graphs, bf16=True)
    assert len(graphs) == 1


def test_the_number_of_graphs_is_bounded():
    model, graphs = small_model(), uncaptured(max_graphs=2)
    rows = rows_of(model)
    assert len(set(rows.passes)) > 2
    assert torch.equal(features(model, rows, graphs), features(model, rows))
    assert len(graphs) == 2


def test_a_capture_that_fails_is_reported_once_and_changes_nothing(monkeypatch):
    model, graphs = small_model(), uncaptured()
    rows = rows_of(model)
    expected = features(model, rows)

    def refuse(*args):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("cascade_srn.encoder.cuda_graphs.passes.read_pass", refuse)
    with pytest.warns(UserWarning, match="not permitted"):
        assert torch.equal(features(model, rows, graphs), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(features(model, rows, graphs), expected)
    assert len(graphs) == 0


def test_graphs_do_not_keep_an_encoder_alive_and_are_not_stored_with_it():
    model = small_model()
    encoder = model.cascade.encoder
    names = set(encoder.state_dict())
    pass_cuda_graphs(encoder)
    assert set(encoder.state_dict()) == names
    copied = pickle.loads(pickle.dumps(encoder))
    begin_prediction(copied)
    gone = weakref.ref(encoder)
    del model, encoder
    gc.collect()
    assert gone() is None


def test_passes_of_full_shapes_end_with_empty_windows():
    rows = rows_of(small_model(), max_pieces=512)
    n_windows = sum(n for n, _ in rows.passes)
    assert n_windows > len(SENTENCES)
    # Attention over no piece is undefined.
    assert bool(rows.piece_mask.any(1).all())
    assert rows.piece_ids.shape == rows.piece_mask.shape == (n_windows, max(width for _, width in rows.passes))


# With a GPU.


def on_gpu(*args, **kwargs):
    model = small_model(*args, **kwargs)
    model.to("cuda")
    return model


@pytest.mark.gpu
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("fusion", ["swift", "early"])
def test_graphs_give_the_features_without_them(fusion, bf16):
    model, graphs = on_gpu(fusion), PassCudaGraphs(min_occurrences=1)
    rows = rows_of(model)
    expected = features(model, rows, bf16=bf16)
    for _ in range(3):
        torch.testing.assert_close(features(model, rows, graphs, bf16=bf16), expected, rtol=1e-4, atol=1e-4)
    assert len(graphs) == len(set(rows.passes))


@pytest.mark.gpu
def test_two_streams_and_two_threads_use_the_same_graphs():
    model, graphs = on_gpu("swift"), PassCudaGraphs(min_occurrences=1)
    rows = [rows_of(model, SENTENCES[first : first + 4]) for first in (0, 2)]
    expected = [features(model, each, graphs, bf16=True) for each in rows]
    failures = []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            for _ in range(200):
                if not torch.equal(features(model, rows[number], graphs, bf16=True), expected[number]):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.gpu
def test_trained_and_moved_weights_are_read_on_a_gpu():
    model, graphs = on_gpu("swift"), PassCudaGraphs(min_occurrences=1)
    rows, encoder = rows_of(model), model.cascade.encoder
    features(model, rows, graphs, bf16=True)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(1.5)
    graphs.begin_prediction()
    assert len(graphs) > 0
    torch.testing.assert_close(features(model, rows, graphs, bf16=True), features(model, rows, bf16=True))
    model.to("cpu")
    model.to("cuda")
    torch.testing.assert_close(features(model, rows, graphs, bf16=True), features(model, rows, bf16=True))


@pytest.mark.gpu
def test_a_prediction_reads_the_weights_again_on_a_gpu(monkeypatch):
    model = on_gpu("swift")
    updated = []
    monkeypatch.setattr(PassCudaGraphs, "begin_prediction", lambda self: updated.append(self))
    graphs = pass_cuda_graphs(model.cascade.encoder)
    with model.inference():
        pass
    assert updated == [graphs]
