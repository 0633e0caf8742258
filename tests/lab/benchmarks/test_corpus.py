"""The corpus benchmark in its short form. No time is asserted."""

import json
import sys

import pytest
from tests.apps.corpus.jobs import save_model, texts, write_lines

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.lab.benchmarks.corpus import STREAM, measure, run_process
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun
from cascade_srn.lab.benchmarks.options import CorpusOptions


@pytest.mark.slow
def test_a_short_run(tmp_path):
    data = write_lines(tmp_path / "in.jsonl", [*texts(7), {"text": None}])
    model = save_model(tmp_path / "model")
    options = CorpusOptions(
        model=str(model),
        data=str(data),
        documents=6,
        splits=("1x1",),
        split_workers=(1,),
        factors=(1, 2),
        repeats=1,
        device="cpu",
    )
    result = measure(options, BenchmarkRun())
    found = json.loads(result.save(tmp_path / "result.json").read_text(encoding="utf-8"))
    assert str(tmp_path) not in json.dumps(found)
    assert found["settings"]["corpus"]["documents"] == 6
    corpus = "corpus run 1x1"
    names = [STREAM, f"{STREAM}, 1 split workers", corpus, f"{corpus}, data × 1", f"{corpus}, data × 2"]
    assert [row["run"] for row in found["rows"]] == names
    assert [row["documents"] for row in found["rows"]] == [6, 6, 6, 6, 12]
    n_sentences = found["rows"][0]["sentences"]
    assert [row["sentences"] for row in found["rows"]] == [*[n_sentences] * 4, 2 * n_sentences]
    assert [row["memory"]["processes"] for row in found["rows"]] == [1, 2, 2, 2, 2]
    assert found["rows"][0]["ratio"] == 1
    assert found["summary"]["ratio_to_stream"] == found["rows"][2]["ratio"]
    assert found["summary"]["memory_growth"] > 0
    assert result.table().row_count == 5


def test_a_process_that_fails():
    with pytest.raises(CascadeError, match="no such thing"):
        run_process([sys.executable, "-c", "print('no such thing'); raise SystemExit(2)"], 1)


def test_a_process_and_what_it_prints():
    found = run_process([sys.executable, "-c", "import time; time.sleep(0.5); print(7)"], 1)
    assert found.printed == "7"
    assert found.n_processes == 1
    assert found.peak_bytes > 1 << 20


def test_data_without_texts(tmp_path):
    data = write_lines(tmp_path / "in.jsonl", [{"text": None}])
    with pytest.raises(DataError):
        measure(CorpusOptions(data=str(data), device="cpu"), BenchmarkRun())
