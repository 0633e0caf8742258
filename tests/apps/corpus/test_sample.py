import pytest
from tests.apps.corpus.jobs import save_model, settings, texts, write_lines

from cascade_srn.apps.corpus.inputs import find_input_files
from cascade_srn.apps.corpus.sample import estimate, sample_rows
from cascade_srn.apps.corpus.shards import plan_shards


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
