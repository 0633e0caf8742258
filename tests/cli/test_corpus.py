import json
import os
import signal
import subprocess
import time

import pytest
from tests.apps.corpus.jobs import InProcessEngine, fingerprints, rows_of, save_model, texts, write_lines
from tests.cli.conftest import failure, restore_sigint, run, start

from cascade_srn.apps.corpus import local
from cascade_srn.apps.corpus.manifest import JobFolder

PATIENCE = 300


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("corpus") / "model")


@pytest.fixture
def source(tmp_path):
    """Ten documents with a year. One has no text."""
    records = [{"id": f"d{n}", "text": text, "year": 2000 + n} for n, text in enumerate(texts(10))]
    records[4]["text"] = None
    return write_lines(tmp_path / "in.jsonl", records)


class Engines(list):
    """The engines that were made. ``before`` is called before each shard."""

    before = staticmethod(lambda shard: None)


@pytest.fixture
def engines(monkeypatch):
    """Process shards in this process."""
    made = Engines()

    class Engine(InProcessEngine):
        def __init__(self, workers, *, shard_timeout):
            super().__init__(lambda shard: made.before(shard))
            self.workers, self.shard_timeout = workers, shard_timeout
            made.append(self)

    monkeypatch.setattr(local, "LocalEngine", Engine)
    return made


def arguments(source, output, model, *more):
    return ["corpus", "run", source, "--output", output, "--model", model, "--device", "cpu", *more]


def small(source, output, model, *more):
    return arguments(source, output, model, "--shard-documents", "4", *more)


def test_a_job_with_an_error(source, model, tmp_path, engines, capsys):
    output = tmp_path / "out"
    assert run(*small(source, output, model, "--keep", "year:int64", "--workers", "3", "--shard-timeout", "9")) == 3
    shown = capsys.readouterr()
    assert shown.out.startswith("9 documents, ")
    assert "1 document in errors" in shown.out
    assert f"'{output}/relations/*.parquet'" in shown.out
    # Without a terminal, the first and the last report are lines.
    first, last = shown.err.splitlines()
    assert first.startswith("0 of 10 documents (0%)  0 of 3 shards")
    assert last.startswith("10 of 10 documents (100%)  3 of 3 shards")
    assert [row["year"] for row in rows_of(output, "documents")] == [*range(2000, 2004), *range(2005, 2010)]
    assert [row["document_id"] for row in rows_of(output, "errors")] == ["d4"]
    (engine,) = engines
    assert (engine.workers, engine.shard_timeout) == (3, 9)


def test_without_errors_the_exit_code_is_0(source, model, tmp_path, engines, capsys):
    assert run(*small(source, tmp_path / "out", model, "--limit", "4")) == 0
    assert "in errors" not in capsys.readouterr().out
    assert engines[0].workers == "auto"


def test_settings_reach_the_job(source, model, tmp_path, engines):
    options = ["--format", "jsonl", "--overlaps", "all", "--skip", "code, tables", "--batch-words", "99"]
    options += ["--keep", "year", "--threshold", "0.7", "--max-errors", "50%", "--max-attempts", "5"]
    assert run(*small(source, tmp_path / "out", model, *options, "--threads", "2", "--id-field", "id")) == 3
    found = JobFolder(tmp_path / "out").read_manifest().settings
    assert found["inputs"]["keep"] == ["year"]
    assert found["thresholds"]["object"] == 0.7
    assert found["skip"] == ["code", "tables"]
    expected = {"format": "jsonl", "overlaps": "all", "batch_words": 99, "max_error_share": 0.5, "max_attempts": 5}
    assert {name: found[name] for name in expected} == expected
    assert (found["threads"], found["store_text"]) == (2, True)


def test_the_texts_can_be_left_out(source, model, tmp_path, engines):
    run(*small(source, tmp_path / "out", model, "--no-text"))
    assert {row["text"] for row in rows_of(tmp_path / "out", "documents")} == {None}


def test_a_stopped_job_is_resumed(source, model, tmp_path, engines, capsys):
    def stop(shard):
        if engines[0].processed:
            os.kill(os.getpid(), signal.SIGTERM)

    engines.before = stop
    assert run(*small(source, tmp_path / "out", model)) == 128 + signal.SIGTERM
    assert "--resume" in capsys.readouterr().err.splitlines()[-1]
    assert run("corpus", "status", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"
    engines.before = lambda shard: None
    assert run("corpus", "verify", tmp_path / "out") == 1
    assert "not complete" in capsys.readouterr().out
    assert run(*small(source, tmp_path / "out", model, "--resume")) == 3
    assert len(engines[1].processed) == 3 - len(engines[0].processed)
    capsys.readouterr()
    assert run(*small(source, tmp_path / "out", model, "--resume")) == 3
    assert "finished before" in capsys.readouterr().out


def test_tasks_of_an_array(source, model, tmp_path, engines, capsys):
    assert run(*small(source, tmp_path / "out", model, "--array", "1/2")) == 3
    assert "not finished yet" in capsys.readouterr().out
    assert run(*small(source, tmp_path / "out", model, "--array", "0/2")) == 0
    assert "DuckDB" in capsys.readouterr().out
    assert run("corpus", "verify", tmp_path / "out") == 0
    assert run(*small(source, tmp_path / "whole", model)) == 3
    assert fingerprints(tmp_path / "out") == fingerprints(tmp_path / "whole")


def test_a_dry_run_writes_nothing(source, model, tmp_path, capsys):
    options = ["corpus", "run", source, "--model", model, "--device", "cpu", "--dry-run", "--shard-documents", "4"]
    assert run(*options, "--workers", "2") == 0
    shown = capsys.readouterr().out
    for part in ("10 documents in 1 file", "3 shards", "2 on cpu", "documents/s", "Nothing was written."):
        assert part in shown
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_status_and_verify(source, model, tmp_path, engines, capsys):
    output = tmp_path / "out"
    run(*small(source, output, model))
    capsys.readouterr()
    assert run("corpus", "status", output) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("state: finished\nshards: 3 of 3\ndocuments: 10 of 10 (100.0%)\nerrors: 1\n  1 x ")
    assert run("corpus", "verify", output) == 0
    assert capsys.readouterr().out.endswith("complete and correct\n")
    next((output / "entities").iterdir()).write_bytes(b"x")
    assert run("corpus", "verify", output) == 1
    shown = capsys.readouterr()
    assert "problem: entities/" in shown.out
    assert shown.err == ""
    assert run("corpus", "verify", output, "--json") == 1
    assert json.loads(capsys.readouterr().out)["n_problems"] == 1


@pytest.mark.parametrize(
    ("options", "data"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "two"], "--workers"),
        (["--engine", "spark"], "'spark'"),
        (["--address", "auto"], "--address"),
        (["--gpus-per-worker", "1"], "--gpus-per-worker"),
        (["--max-errors", "2"], "--max-errors"), (["--max-errors", "few"], "--max-errors"),
        (["--max-errors", "nan"], "--max-errors"), (["--array", "2/2"], "--array"),
        (["--array", "1"], "--array"), (["--field", "txet"], "'text'"), (["--keep", "yaer"], "'year'"),
        (["--keep", "row"], "--keep"), (["--input-format", "xml"], "'xml'"), (["--format", "csv"], "'csv'"),
        (["--format", "jsonl", "--no-text"], "--format"),
        (["--overlaps", "some"], "'some'"),
        (["--threshold", "X=0.5"], "'X=0.5'"),
        (["--model", "./nowhere"], "'./nowhere'"),
        (["--output", "s3://bucket/out"], "s3://bucket/out"),
    ],
)  # fmt: skip
def test_errors_are_one_line(source, model, tmp_path, monkeypatch, capsys, options, data):
    monkeypatch.chdir(tmp_path)
    assert data in failure(capsys, *small(source, tmp_path / "out", model, *options))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_no_output_and_no_job(source, model, tmp_path, capsys):
    assert "--output" in failure(capsys, "corpus", "run", source, "--model", model)
    for command in ("status", "verify"):
        failure(capsys, "corpus", command, tmp_path)


def wait_for_shards(output, number, process):
    deadline = time.monotonic() + PATIENCE
    while not output.is_dir() or len(list((output / "shards").glob("*.json"))) < number:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_real_job_that_is_stopped_by_a_signal(number, model, tmp_path):
    source = write_lines(tmp_path / "in.jsonl", texts(120, n_sentences=20))
    chosen = arguments(source, tmp_path / "out", model, "--workers", "2", "--shard-documents", "2")
    process = start(*chosen, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=restore_sigint)
    wait_for_shards(tmp_path / "out", 2, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert errors.decode().splitlines()[-1].startswith("Stopped.")
    assert run("corpus", "status", tmp_path / "out") == 0
    resumed = start(*chosen, "--resume", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    printed, _ = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0
    assert printed.decode().startswith("120 documents, ")
    assert run("corpus", "verify", tmp_path / "out") == 0
