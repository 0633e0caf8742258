from dataclasses import replace

import pytest
from tests.apps.corpus.jobs import save_model, settings, texts, write_lines

from cascade_srn.apps.corpus import sample
from cascade_srn.apps.corpus.inputs import find_input_files
from cascade_srn.apps.corpus.sample import estimate, find_shard_size, sample_rows
from cascade_srn.apps.corpus.shards import UNIT_BYTES, plan_shards
from cascade_srn.errors import CascadeError
from cascade_srn.runtime.device import Slot


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("sample") / "model")


def test_an_estimate_writes_nothing(tmp_path, model):
    records = [{"text": text} for text in texts(9)] + [{"text": None}]
    write_lines(tmp_path / "in.jsonl", records)
    found = estimate(tmp_path / "in.jsonl", model=model, workers=2, settings=settings())
    assert (found.n_files, found.n_documents, found.n_shards) == (1, 10, 3)
    assert (found.n_sampled, found.n_unreadable, found.n_workers) == (10, 1, 2)
    assert found.n_bytes == (tmp_path / "in.jsonl").stat().st_size
    assert found.words_per_document > 3
    assert found.seconds > found.n_documents * found.seconds_per_document / 2
    assert found.to_dict()["documents_per_second"] == pytest.approx(2 / found.seconds_per_document)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("number", [1, 3, 7, 20, 100])
def test_the_sample_is_spread_over_all_files(tmp_path, number):
    for name, n_rows in (("a", 13), ("b", 1), ("c", 6)):
        write_lines(tmp_path / f"{name}.jsonl", texts(n_rows))
    chosen = settings(shard_documents=5)
    files = find_input_files(tmp_path, chosen.inputs)
    rows = sample_rows(files, plan_shards(files, chosen.inputs), chosen, number)
    start = {"a.jsonl": 0, "b.jsonl": 13, "c.jsonl": 14}
    assert [start[row.input] + row.row for row in rows] == [at * 20 // min(number, 20) for at in range(min(number, 20))]


@pytest.mark.parametrize(
    ("rate", "units"), [(0.0, 1), (UNIT_BYTES / 31, 1), (UNIT_BYTES / 14, 2), (UNIT_BYTES, 16), (1e9, 64)]
)
def test_a_shard_takes_about_thirty_seconds(tmp_path, model, monkeypatch, rate, units):
    path = write_lines(tmp_path / "in.jsonl", ["x" * 5000] * 250)
    chosen = settings(shard_documents=None)
    files = find_input_files(path, chosen.inputs)
    monkeypatch.setattr(sample, "call_once", lambda *args, **options: rate)
    found = find_shard_size(files, model, chosen, 2)
    assert (found.shard_documents, found.shard_bytes) == (None, units * UNIT_BYTES)
    # Given sizes stay, and small inputs are not measured.
    monkeypatch.setattr(sample, "call_once", None)
    assert find_shard_size(files, model, settings(), 2) == settings().inputs
    few = [replace(files[0], blocks=files[0].blocks[:3])]
    assert find_shard_size(few, model, chosen, 2).shard_bytes == UNIT_BYTES


def test_a_measurement_that_fails_leaves_the_smallest_shards(tmp_path, model, monkeypatch):
    def fail(*args, **options):
        raise CascadeError("the worker was ended by SIGKILL")

    path = write_lines(tmp_path / "in.jsonl", ["x" * 5000] * 250)
    monkeypatch.setattr(sample, "call_once", fail)
    chosen = settings(shard_documents=None)
    assert find_shard_size(find_input_files(path, chosen.inputs), model, chosen, 1).shard_bytes == UNIT_BYTES


def test_the_speed_of_a_worker(tmp_path, model):
    path = write_lines(tmp_path / "in.jsonl", [*texts(9), {"text": None}])
    chosen = settings(shard_documents=None)
    files = find_input_files(path, chosen.inputs)
    assert sample._bytes_per_second(files, (0, 0, 64), model, chosen, Slot("cpu", 1)) > 0
