"""Models in ONNX Runtime: single texts and batches, long texts, threads, and damaged folders."""

import copy
import json
import multiprocessing
import pickle
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.small_models import link_bundled_model

from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.cascade_search import CascadeSearch
from cascade_srn.model.folder import ENCODER_FILE, LIGHT_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from cascade_srn.runtime import model as runtime_model
from cascade_srn.runtime.model import LightModel, Session
from cascade_srn.storage.bundled import find_model
from cascade_srn.storage.files import file_crc32
from cascade_srn.types import Document

pytest.importorskip("onnxruntime")
TEXTS = [
    "We train a CRF for named entity recognition.",
    "It beats an HMM. We evaluate both on the Penn Treebank, which is a corpus of English newspaper articles.",
    "",
    "Parsing helps translation.",
]
LOW = Thresholds(0.2, 0.2, 0.2)


@pytest.fixture(scope="module")
def extractor():
    return Extractor(LightModel.load(find_model(None)))


def check_same(found, expected):
    assert any(document.relations for document in expected)
    for one, other in zip(found, expected, strict=True):
        assert one.sentences == other.sentences  # without scores
        scores = [[item.score for item in (*each.entities, *each.relations)] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_a_batch_finds_what_single_texts_find(extractor):
    together = list(extractor.stream(TEXTS, thresholds=LOW, batch_words=64))
    check_same(together, [extractor.extract(text, thresholds=LOW) for text in TEXTS])


@pytest.mark.slow
def test_a_sentence_of_several_windows(extractor):
    words = ["We", "train", "a", "CRF", "for", "named", "entity", "recognition"]
    filler = ["and", "the", "method", "is", "compared", "with", "others"] * 90
    long = extractor.extract(Document.from_words([words + filler]), thresholds=LOW)
    rows = extractor.model.rows
    assert len(rows.pieces.arrays([rows.pieces.row(words + filler)]).piece_ids) > 2
    assert ("CRF", "Method") in {(entity.text, entity.label) for entity in long.entities}
    # Smaller encoder passes read the same windows.
    check_same(extractor.predict([long], batch_words=64, thresholds=LOW), [long])


@pytest.mark.slow
def test_several_threads_use_one_model(extractor):
    expected = [extractor.extract(text, thresholds=LOW) for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: extractor.extract(text, thresholds=LOW), TEXTS * 6))
    check_same(found, expected * 6)


@pytest.mark.parametrize("copy", [copy.deepcopy, lambda extractor: pickle.loads(pickle.dumps(extractor))])
def test_a_copy_finds_the_same(extractor, copy):
    copied = copy(extractor)
    assert copied.model is not extractor.model
    check_same([copied.extract(text) for text in TEXTS], [extractor.extract(text) for text in TEXTS])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_another_process_uses_the_model(extractor, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    expected = extractor(TEXTS)  # by several threads
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        check_same(list(pool.map(extractor.extract, TEXTS)), expected)


def test_the_number_of_threads_does_not_change_decisions(extractor, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    other = Extractor(LightModel.load(find_model(None)))
    assert other.model.network.read_passes.__self__.n_threads == 3
    check_same(other(TEXTS * 5), extractor(TEXTS * 5))


def test_threads_search_batches_side_by_side(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    extractor = Extractor(LightModel.load(find_model(None)))
    texts, threads = TEXTS * 40, set()
    search = CascadeSearch.find

    def find(self, *given, **options):
        threads.add(threading.current_thread())
        return search(self, *given, **options)

    monkeypatch.setattr(CascadeSearch, "find", find)
    found = list(extractor.stream(texts, thresholds=LOW))
    assert len(threads) > 1
    assert threading.current_thread() in threads
    threads.clear()
    # Few words are not worth it.
    check_same(found, [extractor.extract(text, thresholds=LOW) for text in TEXTS] * 40)
    assert threads == {threading.current_thread()}


@pytest.fixture
def session(monkeypatch):
    """The small encoder with two threads, each of which reads passes of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    return Session(find_model(None) / ENCODER_FILE, divides_passes=False)


def passes(*widths):
    return [(np.full((2, width), 2057), np.ones((2, width), dtype=np.int64)) for width in widths]


def test_threads_read_passes_side_by_side(session, monkeypatch):
    together = threading.Barrier(2, timeout=30)
    read = session.read

    def meet(ids, mask):
        together.wait()
        return read(ids, mask)

    monkeypatch.setattr(session, "read", meet)
    given = passes(3, 12, 5, 9)
    for found, (ids, mask) in zip(session.read_passes(given), given, strict=True):
        np.testing.assert_array_equal(found, read(ids, mask))


def test_passes_that_nobody_waits_for_are_not_begun(session, monkeypatch):
    begun = []
    go_on = threading.Event()

    def read(ids, mask):
        begun.append(len(begun))
        assert len(begun) == 1 or go_on.wait(30)
        return ids

    monkeypatch.setattr(session, "read", read)
    found = session.read_passes(passes(*[3] * 50))
    next(found)
    found.close()
    go_on.set()
    session._threads.shutdown()
    assert len(begun) <= 3


@pytest.mark.parametrize(("limit", "divides"), [(512, False), (300, True)])
def test_only_large_encoders_divide_a_pass_among_threads(monkeypatch, limit, divides):
    monkeypatch.setattr(runtime_model, "_SMALL_WIDTH", limit)
    session = LightModel.load(find_model(None)).network.read_passes.__self__
    assert session.divides_passes == divides
    assert copy.deepcopy(session).divides_passes == divides


def test_windows_of_any_number_and_width(extractor):
    read = extractor.model.network.read_passes.__self__.read
    ids = np.array([[101, 2057, 3345, 102], [101, 2057, 102, 0]])
    mask = (ids > 0).astype(np.int64)
    together = read(ids, mask)
    assert together.shape[:2] == (2, 4)
    for number, width in ((0, 4), (1, 3)):
        alone = read(ids[number : number + 1, :width], mask[number : number + 1, :width])
        np.testing.assert_allclose(alone[0], together[number, :width], atol=1e-5)


@pytest.fixture
def folder(tmp_path):
    return link_bundled_model(tmp_path / "model")


def write(folder, name, data):
    """Replace a file, and not what it is linked to."""
    (folder / name).unlink()
    (folder / name).write_bytes(data)


def change(folder, edit):
    """Change ``light.json``, with the checksums of the files as they are now."""
    record = json.loads((folder / LIGHT_FILE).read_text())
    record["crc32"] = {name: file_crc32(folder / name) for name in record["crc32"]}
    edit(record)
    write(folder, LIGHT_FILE, json.dumps(record).encode())


def nan_weight(folder):
    weights = load_file(folder / WEIGHTS_FILE)
    weights["entity_head.start.bias"] = np.full_like(weights["entity_head.start.bias"], np.nan)
    (folder / WEIGHTS_FILE).unlink()
    save_file(weights, folder / WEIGHTS_FILE, metadata={"format": "pt"})


def lost_weight(folder):
    weights = load_file(folder / WEIGHTS_FILE)
    del weights["sequence.forward_cell.cell_bias"]
    (folder / WEIGHTS_FILE).unlink()
    save_file(weights, folder / WEIGHTS_FILE, metadata={"format": "pt"})


DAMAGE = {
    "no encoder": (lambda folder: (folder / ENCODER_FILE).unlink(), "encoder.onnx"),
    "half an encoder": (lambda folder: write(folder, ENCODER_FILE, b"\x08"), "encoder.onnx"),
    "another tokenizer": (lambda folder: write(folder, TOKENIZER_FILE, b"{}"), "tokenizer.json"),
    "other weights": (lambda folder: write(folder, WEIGHTS_FILE, b"1234567890"), "model.safetensors"),
    "a light.json that is no JSON": (lambda folder: write(folder, LIGHT_FILE, b"{"), "version None"),
    "another version": (lambda folder: change(folder, lambda record: record.update(version=2)), "version 2"),
    "no special pieces": (lambda folder: change(folder, lambda r: r.pop("special_pieces")), "special_pieces"),
    "a wrong limit": (lambda folder: change(folder, lambda record: record.update(limit="many")), "ValueError"),
    "checksums of nothing": (lambda folder: write(folder, LIGHT_FILE, b'{"version": 1}'), "encoder.onnx"),
}
CONSISTENT = {
    "an encoder that is no ONNX": (lambda folder: write(folder, ENCODER_FILE, b"nothing"), "cannot be loaded"),
    "a tokenizer that is none": (lambda folder: write(folder, TOKENIZER_FILE, b"{}"), "tokenizer"),
    "weights that are not finite": (nan_weight, "entity_head.start.bias"),
    "a missing weight": (lost_weight, "cell_bias"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_refused_with_a_sentence(folder, name):
    damage, problem = DAMAGE[name]
    damage(folder)
    with pytest.raises(ModelError) as failed:
        LightModel.load(folder)
    assert problem in failed.value.problem
    assert failed.value.hint
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("name", CONSISTENT)
def test_files_that_fit_their_checksums_are_checked_as_well(folder, name):
    damage, problem = CONSISTENT[name]
    damage(folder)
    change(folder, lambda record: None)
    with pytest.raises(ModelError) as failed:
        LightModel.load(folder)
    assert problem in failed.value.problem
    assert failed.value.hint


def test_a_folder_without_an_export(folder):
    for name in (LIGHT_FILE, ENCODER_FILE):
        (folder / name).unlink()
    with pytest.raises(ModelError, match="not exported"):
        LightModel.load(folder)


def test_without_onnxruntime(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelError) as failed:
        Session(folder / ENCODER_FILE)
    assert "onnxruntime" in failed.value.problem
    assert "pip install" in failed.value.hint


@pytest.mark.parametrize(
    ("message", "expected"), [("Failed to allocate memory for X", MemoryError), ("bad shape", RuntimeError)]
)
def test_running_out_of_memory(extractor, monkeypatch, message, expected):
    """ONNX Runtime reports it with an error of its own. The predictor halves a batch after a MemoryError."""
    session = Session(find_model(None) / ENCODER_FILE)

    class Full:
        def run(self, *arguments):
            raise RuntimeError(message)

    monkeypatch.setattr(session, "_session", Full())
    with pytest.raises(expected):
        session.read(np.ones((1, 3), dtype=np.int64), np.ones((1, 3), dtype=np.int64))


def test_what_it_cannot_do(extractor):
    model = extractor.model
    assert model.device is None
    assert model.survives_fork
    for refused, option in (
        (lambda: model.to("cuda:1"), "device"),
        (lambda: model.check_precision("bf16"), "precision"),
    ):
        with pytest.raises(ConfigError) as failed:
            refused()
        assert failed.value.option == option
