"""CUDA graphs of prediction: the same results as without them, and when they are used.

Tests without a GPU call the functions that a GPU captures.
"""

import gc
import json
import threading
import weakref
from pathlib import Path

import pytest
import torch
from tests.small_models import EMPTY, NESTED, SENTENCES, SHARED_SUBJECT, examples, small_model, spread_probabilities

from cascade_srn.config import PRESETS, Thresholds
from cascade_srn.encoder.cuda_graphs.passes import pass_cuda_graphs
from cascade_srn.encoder.cuda_graphs.pool import MIN_OCCURRENCES
from cascade_srn.extractor import Extractor
from cascade_srn.inference import predictor as predictor_module
from cascade_srn.inference.cuda_graphs.search import CudaSearch
from cascade_srn.inference.cuda_graphs.turns import PredictionCudaGraphs, prediction_cuda_graphs
from cascade_srn.network.examples import Example
from cascade_srn.types import Sentence

SCIERC_DEV = (Path("/data/scierc/dev.json"), Path(__file__).parents[4] / "shared/data/scierc/dygie/dev.json")
THRESHOLDS = Thresholds(0.3, 0.1, 0.1)


def predict(model, sentences, graphs=None, *, given_entities=False, thresholds=THRESHOLDS):
    """Predict, with the given graphs if there are any."""
    predictor = model.predictor(thresholds=thresholds, precision="float32")
    if graphs is not None:
        predictor.search = lambda settings: CudaSearch(model.cascade, model.collator, settings, graphs)
    return predictor.predict(examples(sentences), given_entities=given_entities)


def assert_close(found, expected, tolerance=1e-5):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.entities == other.entities
        assert one.triples == other.triples
        scores = [[item.score for item in (*s.entities, *s.triples)] for s in (one, other)]
        assert scores[0] == [None if score is None else pytest.approx(score, abs=tolerance) for score in scores[1]]


def uncaptured(**settings):
    return PredictionCudaGraphs(capture=False, **{"min_occurrences": 1, **settings})


@pytest.mark.parametrize(
    ("preset", "sequence_encoder", "pooling"),
    [*((preset, "srn", "mean") for preset in PRESETS), ("swift", "bisrn", "max"), ("swift", "bilstm", "first")],
)
def test_padded_batches_give_the_same_results(preset, sequence_encoder, pooling):
    model = spread_probabilities(small_model(preset, sequence_encoder, encoder={"pooling": pooling}))
    graphs = uncaptured()
    for sentences in (SENTENCES, (NESTED,), (SHARED_SUBJECT, EMPTY)):
        expected = predict(model, sentences)
        assert any(sentence.entities for sentence in expected)
        assert_close(predict(model, sentences, graphs), expected)
        for thresholds in (THRESHOLDS, Thresholds(0, 0, 0)):
            given = predict(model, sentences, given_entities=True, thresholds=thresholds)
            assert_close(predict(model, sentences, graphs, given_entities=True, thresholds=thresholds), given)
        assert any(sentence.triples for sentence in given)
    assert len(graphs) > 3


def test_turns_2_and_3_are_computed_without_a_graph_for_many_entities():
    model = spread_probabilities(small_model("swift"))
    graphs, everything = uncaptured(), Thresholds(0, 0, 0)
    long = Sentence.from_words(["a", "tagger", "helps"] * 3)
    expected = predict(model, [long], thresholds=everything)
    assert len(expected[0].entities) > 64
    assert_close(predict(model, [long], graphs, thresholds=everything), expected)
    assert len(graphs) == 1


def test_a_shape_gets_a_graph_when_it_recurs():
    model, graphs = small_model("swift", joint=False), uncaptured(min_occurrences=3)
    for expected in (0, 0, 1, 1):
        predict(model, (NESTED,), graphs)
        assert len(graphs) == expected


def test_the_number_of_graphs_is_bounded():
    model, graphs = small_model("swift", joint=False), uncaptured(max_graphs=2)
    sentences = [Sentence.from_words(["a"] * n) for n in (3, 20, 40, 60)]
    found = [predict(model, (sentence,), graphs)[0] for sentence in sentences]
    assert len(graphs) == 2
    assert_close(found, [predict(model, (sentence,))[0] for sentence in sentences])


def test_graphs_are_not_used_twice_at_once():
    model, graphs = spread_probabilities(small_model("swift")), uncaptured()
    assert graphs.reserve()
    assert_close(predict(model, (NESTED,), graphs), predict(model, (NESTED,)))
    assert len(graphs) == 0
    graphs.release()
    predict(model, (NESTED,), graphs)
    assert len(graphs) == 2


def test_graphs_are_free_again_after_an_error(monkeypatch):
    model, graphs = small_model("swift"), uncaptured()
    monkeypatch.setattr(model.cascade, "features", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predict(model, (NESTED,), graphs)
    assert graphs.reserve()


def test_a_capture_that_fails_is_reported_once_and_changes_nothing(monkeypatch):
    model, graphs = spread_probabilities(small_model("swift")), uncaptured()
    expected = predict(model, (NESTED,))

    def refuse(*args):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("cascade_srn.inference.cuda_graphs.turns.WordsCall", refuse)
    with pytest.warns(UserWarning, match="not permitted"):
        assert_close(predict(model, (NESTED,), graphs), expected)
    assert_close(predict(model, (NESTED,), graphs), expected)
    assert len(graphs) == 0


def test_graphs_of_weights_that_moved_are_dropped():
    model, graphs = spread_probabilities(small_model("swift")), uncaptured()
    predict(model, (NESTED,), graphs)
    for weight in model.network.parameters():
        weight.data = weight.data.clone()
    predict(model, (Sentence.from_words(["a"] * 20),), graphs, thresholds=Thresholds(1, 1, 1))
    assert len(graphs) == 1


@pytest.mark.parametrize(("preset", "n_graphs"), [("swift", 8 * 3), ("early", 8)])
def test_graphs_of_single_sentences_are_captured_ahead(preset, n_graphs):
    model, graphs = spread_probabilities(small_model(preset)), uncaptured(min_occurrences=3)
    with torch.inference_mode():
        graphs.capture_ahead(model.cascade, model.device, False, model.collator.pieces.limit)
    assert len(graphs) == n_graphs
    assert_close(predict(model, (NESTED,), graphs), predict(model, (NESTED,)))
    assert len(graphs) == n_graphs
    assert graphs.min_occurrences == 3
    assert graphs.reserve()


def test_graphs_do_not_keep_a_model_alive():
    model = small_model("swift")
    prediction_cuda_graphs(model.cascade)
    gone = weakref.ref(model.cascade)
    del model
    gc.collect()
    assert gone() is None


# With a GPU.


def on_gpu(*args, **kwargs):
    model = spread_probabilities(small_model(*args, **kwargs))
    model.to("cuda")
    return model


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
def test_graphs_give_the_results_without_them(preset):
    model, graphs = on_gpu(preset), PredictionCudaGraphs(min_occurrences=1)
    # Kernels of other shapes round differently, so that scores near a threshold may pass only once.
    for sentences in (SENTENCES, (NESTED,), (SHARED_SUBJECT, EMPTY)) * 2:
        thresholds = Thresholds(0.5, 0.0, 0.0)
        expected = predict(model, sentences, thresholds=thresholds)
        assert_close(predict(model, sentences, graphs, thresholds=thresholds), expected, 5e-3)
    assert len(graphs) > 3


@pytest.mark.gpu
def test_graphs_read_weights_that_are_trained_on():
    model, graphs = on_gpu("swift"), PredictionCudaGraphs(min_occurrences=1)
    before = predict(model, (NESTED,), graphs)
    with torch.no_grad():
        for weight in model.cascade.entity_head.parameters():
            weight += 0.3
    after = predict(model, (NESTED,), graphs)
    assert after != before
    assert_close(after, predict(model, (NESTED,)), 5e-3)


@pytest.mark.gpu
def test_a_model_that_moved_is_captured_again():
    model, graphs = on_gpu("swift"), PredictionCudaGraphs(min_occurrences=1)
    expected = predict(model, (NESTED,), graphs)
    model.to("cpu")
    model.to("cuda")
    assert_close(predict(model, (NESTED,), graphs), expected, 5e-3)


@pytest.mark.gpu
def test_warm_up_captures_the_graphs_of_single_sentences():
    extractor = Extractor.from_pretrained(device="cuda").warm_up()
    graphs = prediction_cuda_graphs(extractor.model.cascade)
    n_graphs = len(graphs)
    assert n_graphs == 8 * 3
    extractor.extract("We train a CRF for tagging.")
    assert len(graphs) == n_graphs


@pytest.mark.gpu
def test_several_threads_predict_at_once():
    extractor = Extractor.from_pretrained(device="cuda")
    texts = ["We train a CRF for tagging.", "BLEU measures translation .", "A parser and a tagger use an LSTM."]
    expected = [extractor.extract(text) for text in texts for _ in range(MIN_OCCURRENCES + 1)][:: MIN_OCCURRENCES + 1]
    found, failures = {}, []

    def work(number):
        try:
            found[number] = [[extractor.extract(text) for text in texts] for _ in range(20)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(found) == 4
    assert all(decisions(each) == decisions(expected) for rounds in found.values() for each in rounds)


def decisions(documents):
    return [
        (
            [(e.start, e.end, e.label) for e in document.entities],
            [(r.head.start, r.head.end, r.label, r.tail.start, r.tail.end) for r in document.relations],
        )
        for document in documents
    ]


def scierc_dev():
    path = next((path for path in SCIERC_DEV if path.is_file()), None)
    if path is None:
        pytest.skip("SciERC is not there")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Example(Sentence.from_words(words)) for line in lines for words in json.loads(line)["sentences"]]


def n_different(found, expected):
    """Return the number of sentences with other entities or relations."""
    pairs = zip(found, expected, strict=True)
    return sum(one.entities != other.entities or one.triples != other.triples for one, other in pairs)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_decisions_on_scierc_are_those_without_graphs(precision):
    dev, model = scierc_dev(), Extractor.from_pretrained(device="cuda").model
    plain = model.predictor(precision=precision)
    expected = [plain.predict([example])[0] for example in dev]
    captured = model.predictor(precision=precision, cuda_graphs=True)
    for _ in range(MIN_OCCURRENCES):
        found = [captured.predict([example])[0] for example in dev]
    assert len(prediction_cuda_graphs(model.cascade)) >= 8
    # In bf16 another padding rounds differently, which decides scores next to a threshold.
    assert n_different(found, expected) <= (1 if precision == "float32" else 0.05 * len(dev))


@pytest.mark.gpu
@pytest.mark.parametrize("batch_words", [2048, 8192])
def test_batches_that_overlap_give_the_results_of_batches_one_by_one(batch_words, monkeypatch):
    dev, model = scierc_dev(), Extractor.from_pretrained(device="cuda").model
    found = [model.predictor(batch_words=batch_words).predict(dev * 4) for _ in range(3)]
    monkeypatch.setattr(predictor_module, "_MIN_OVERLAPPED", 1 << 40)
    expected = model.predictor(batch_words=batch_words).predict(dev * 4)
    assert [n_different(each, expected) for each in found] == [0, 0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("batch_words", [2048, 8192])
def test_large_batches_give_the_decisions_without_graphs(batch_words, precision):
    dev, model = scierc_dev(), Extractor.from_pretrained(device="cuda").model
    expected = model.predictor(batch_words=batch_words, precision=precision).predict(dev * 4)
    captured = model.predictor(batch_words=batch_words, precision=precision, cuda_graphs=True)
    for _ in range(4):
        found = captured.predict(dev * 4)
    assert len(pass_cuda_graphs(model.cascade.encoder)) >= 3
    # In bf16 another padding rounds differently, which decides scores next to a threshold.
    assert n_different(found, expected) <= (0.002 if precision == "float32" else 0.02) * len(found)
