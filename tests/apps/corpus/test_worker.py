import threading

import pytest
from tests.apps.corpus.jobs import rows_of, save_model, settings, texts, write_lines

from cascade_srn.apps.corpus import worker as workers
from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.inputs import find_input_files
from cascade_srn.apps.corpus.manifest import JobFolder, model_checksum
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import plan_shards
from cascade_srn.apps.corpus.worker import ShardWorker
from cascade_srn.errors import CascadeError, DataError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("worker") / "model")


@pytest.fixture
def make(tmp_path, model):
    """Return a function that makes a worker and the only shard of its job."""

    def make_worker(given, **options):
        chosen = settings(shard_documents=100, **options)
        files = find_input_files(write_lines(tmp_path / "in.jsonl", given), chosen.inputs)
        folder = JobFolder(tmp_path)
        folder.make_folders()
        job = JobSpec(str(tmp_path), folder.make_scratch(), str(model), model_checksum(model), files, chosen)
        return ShardWorker(job), plan_shards(files, chosen.inputs)[0]

    return make_worker


def failing(predict, is_bad):
    """Return a method that raises for documents with certain texts."""

    def annotate(documents, predictor):
        if any(is_bad(document.text) for document in documents):
            raise RuntimeError("the kernel failed")
        return predict(documents, predictor)

    return annotate


def test_texts_in_another_language_are_noted_once_per_file(make, model):
    german = "Wir stellen ein neues Verfahren vor, das Entitäten und Relationen aus Texten der Informatik liest. " * 3
    card = model / "README.md"
    before = card.read_text("utf-8")
    card.write_text("---\nlanguage: en\n---\n", "utf-8")
    worker, shard = make([german, *texts(2), german])
    card.write_text(before, "utf-8")
    with pytest.warns(UserWarning, match=r"^in\.jsonl: .* not in English") as noted:
        worker.process(shard)
    assert len(noted) == 1


def test_documents_that_fail_are_errors_and_others_are_not(make, tmp_path, monkeypatch):
    worker, shard = make([*texts(5), "Bad one.", {"id": "x", "text": None}, "Worse one.", *texts(2, seed=1)])
    monkeypatch.setattr(worker, "_annotate", failing(worker._annotate, lambda text: "Bad" in text))
    segmenter = worker.extractor.segmenter

    def segment(text):
        if "Worse" in text:
            raise CascadeError("no words", "Write some")
        return segmenter(text)

    worker.extractor.segmenter = segment
    result = worker.process(shard)
    assert result.rows["documents"] == 7
    errors = {row["document_id"]: row["reason"] for row in rows_of(tmp_path, "errors")}
    assert sorted(errors) == ["d5", "d7", "x"]
    assert errors["d5"] == "RuntimeError: the kernel failed"
    assert errors["d7"] == "no words. Write some."


def test_a_model_that_fails_on_everything_fails_the_shard(make, tmp_path, monkeypatch):
    worker, shard = make(texts(5))
    monkeypatch.setattr(worker, "_annotate", failing(worker._annotate, lambda text: True))
    with pytest.raises(RuntimeError):
        worker.process(shard)
    assert list((tmp_path / "shards").iterdir()) == []
    assert [thread.name for thread in threading.enumerate() if thread.name == "prepare"] == []


def test_a_worker_can_go_on_after_an_input_that_could_not_be_read(make, tmp_path, monkeypatch):
    worker, shard = make(texts(5))
    read = worker._reader.read

    def failing_with(error):
        def fail(shard):
            yield next(read(shard))
            raise error

        return fail

    for error, is_temporary in (
        (OSError(5, "Input/output error"), True),
        (ConnectionResetError("reset by peer"), True),
        (FileNotFoundError(2, "No such file"), False),
        (DataError("the file changed", "Restore it"), False),
    ):
        monkeypatch.setattr(worker._reader, "read", failing_with(error))
        with pytest.raises(JobError) as caught:
            worker.process(shard)
        assert caught.value.is_temporary == is_temporary
    monkeypatch.setattr(worker._reader, "read", read)
    assert worker.process(shard).rows["documents"] == 5


def test_rows_of_a_failed_shard_keep_their_own_problem(make, tmp_path):
    worker, shard = make(["A text.", {"id": "x", "text": 5}])
    result = workers.write_failed_shard(worker.job, shard, "it crashed", 3)
    assert result.rows == {"documents": 0, "entities": 0, "relations": 0, "errors": 2}
    errors = rows_of(tmp_path, "errors")
    assert [(row["document_id"], row["attempts"]) for row in errors] == [("d0", 3), ("x", 3)]
    assert errors[0]["reason"] == "it crashed"
    assert "not a string" in errors[1]["reason"]
