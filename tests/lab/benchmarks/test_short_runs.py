"""Every benchmark in its short form: it runs, and what it writes holds what a reader needs. No time is asserted."""

import json
import math

import pytest
from tests.lab.benchmarks.test_progress import InterruptedRun
from tests.small_models import SCHEMA, SENTENCES, small_encoder, small_model

from cascade_srn import write_documents
from cascade_srn.config import PRESETS
from cascade_srn.errors import ConfigError, SchemaError
from cascade_srn.lab.benchmarks import extract, growth, runtimes, srn, train
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun
from cascade_srn.lab.benchmarks.options import ExtractOptions, GrowthOptions, RuntimesOptions, SrnOptions, TrainOptions
from cascade_srn.types import Document

pytestmark = pytest.mark.slow

ENVIRONMENT = {"cpu", "instructions", "cores", "threads", "gpu", "precision", "float32_matmul_precision", "versions"}
ENVIRONMENT |= {"system"}


def _written(result, tmp_path):
    found = json.loads(result.save(tmp_path / "result.json").read_text(encoding="utf-8"))
    assert set(found) == {"name", "device", "settings", "environment", "notes", "summary", "partial", "rows"}
    assert set(found["environment"]) == ENVIRONMENT | {"date", "command"}
    assert found["device"] == "cpu"
    assert found["partial"] is False
    assert result.table().row_count == len(found["rows"]) > 0
    assert str(tmp_path) not in json.dumps(found, ensure_ascii=False)
    return found


def _is_timing(value, n_times):
    return len(value["times_s"]) == n_times and value["median_s"] > 0


def _data(tmp_path):
    path = tmp_path / "data.jsonl"
    write_documents([Document.from_sentences([sentence]) for sentence in SENTENCES], path)
    return str(path)


def test_srn(tmp_path):
    options = SrnOptions(shapes=((2, 5), (3, 4)), input_width=8, hidden_width=4, repeats=2, device="cpu")
    found = _written(srn.measure(options, BenchmarkRun()), tmp_path)
    assert found["settings"]["shapes"] == [[2, 5], [3, 4]]
    cases = {(row["shape"], row["pass"], row["network"]) for row in found["rows"]}
    assert len(cases) == len(found["rows"]) == 2 * 2 * 3
    assert {network for _, _, network in cases} == {"lstm", "srn plain", "srn fused"}
    for row in found["rows"]:
        assert _is_timing(row["call"], 2)
        assert row["call"]["ratio_to_lstm"] > 0
        assert row["device"] is None  # there is no GPU in this run
        assert row["network"] != "lstm" or row["call"]["ratio_to_lstm"] == 1


def _check_extraction(row, repeats):
    assert _is_timing(row, repeats)
    assert row["sentences_per_s"] > 0
    assert row["words_per_s"] > row["sentences_per_s"]
    for other in ("encoder", "bilstm"):
        assert _is_timing(row[other], repeats)
        assert row[other]["ratio"] > 0
    latency = row["latency"]
    assert 0 < latency["p50_s"] <= latency["p95_s"] <= latency["p99_s"]
    assert row["memory"]["peak_bytes"] > 0


def test_extract_every_preset_with_random_heads(tmp_path):
    options = ExtractOptions(
        encoder=small_encoder(), data=_data(tmp_path), repeats=1, warmup=0, latency_sentences=2, device="cpu"
    )
    found = _written(extract.measure(options, BenchmarkRun()), tmp_path)
    assert [row["preset"] for row in found["rows"]] == list(PRESETS)
    assert found["settings"]["heads"] == "random"
    assert found["settings"]["entities"] == "given"
    assert found["settings"]["corpus"]["sentences"] == 6
    for row in found["rows"]:
        _check_extraction(row, repeats=1)
        assert row["found"]["entities"] == 13
        assert row["found"]["subjects"] == 12  # one entity shares another's words
        assert 0 < row["found"]["triples"] <= 7


def test_extract_with_a_saved_model(tmp_path):
    small_model("hybrid").save(tmp_path / "model")
    options = ExtractOptions(
        model=str(tmp_path / "model"), data=_data(tmp_path), repeats=1, latency_sentences=1, device="cpu"
    )
    found = _written(extract.measure(options, BenchmarkRun()), tmp_path)
    assert found["settings"]["heads"] == "saved model"
    assert [row["preset"] for row in found["rows"]] == ["hybrid"]
    with pytest.raises(SchemaError, match="sentence 0 of news/train.jsonl.*Person"):
        extract.measure(ExtractOptions(model=str(tmp_path / "model"), device="cpu"), BenchmarkRun())


def test_train(tmp_path):
    options = TrainOptions(
        encoder=small_encoder(), data=_data(tmp_path), batch_sizes=(2, 4), epochs=2, precision="float32", device="cpu"
    )
    found = _written(train.measure(options, BenchmarkRun()), tmp_path)
    assert [(row["preset"], row["batch_size"]) for row in found["rows"]] == [
        ("swift", 2),
        ("swift", 4),
        ("early", 2),
        ("early", 4),
    ]
    for row in found["rows"]:
        assert _is_timing(row, 2)  # the epoch that warms up is left out
        assert set(row["parts"]) == {"collating", "forward", "backward", "optimiser"}
        assert all(spent > 0 for spent in row["parts"].values())
        assert row["words_per_s"] > row["sentences_per_s"] > 0
        assert row["memory"]["peak_bytes"] > 0


def test_growth(tmp_path):
    options = GrowthOptions(
        encoder=small_encoder(),
        data=_data(tmp_path),
        lengths=(4, 8, 16), subjects=(1, 2), factors=(3, 1), subject_words=9, batch_sentences=2, repeats=1,
        warmup=0, device="cpu",
    )  # fmt: skip
    found = _written(growth.measure(options, BenchmarkRun()), tmp_path)
    series = {}
    for row in found["rows"]:
        assert _is_timing(row, 1)
        series.setdefault(row["series"], []).append(row["size"])
    assert series == {growth.LENGTH: [4, 8, 16], growth.SUBJECTS: [1, 2], growth.CORPUS: [1, 3]}
    streamed = [row for row in found["rows"] if row["series"] == growth.CORPUS]
    assert [row["sentences"] for row in streamed] == [6, 18]
    assert all(row["memory"]["peak_bytes"] > 0 for row in streamed)
    exponents = found["summary"]["exponents"]
    assert list(exponents) == [growth.LENGTH, growth.SUBJECTS, growth.CORPUS]
    assert all(math.isfinite(value) for each in exponents.values() for value in each.values())
    assert len(found["notes"]) == 3


@pytest.mark.parametrize(
    ("benchmark", "options", "n_steps"),
    [
        (extract, ExtractOptions(presets=("swift",), sentences=8, repeats=3, warmup=0, device="cpu"), 1 + 3 + 2),
        (
            growth,
            GrowthOptions(sentences=8, lengths=(4, 8), subjects=(1,), repeats=3, warmup=0, device="cpu"),
            1 + 2 + 2,
        ),
        (train, TrainOptions(presets=("swift",), sentences=8, epochs=4, device="cpu"), 4),
    ],
)
def test_an_interrupted_run_keeps_complete_turns(benchmark, options, n_steps):
    result = benchmark.measure(options, InterruptedRun(n_steps))
    assert result.partial
    assert result.rows
    assert all(len(row["times_s"]) < 3 for row in result.rows)
    assert result.table().row_count == len(result.rows)


def test_runtimes(tmp_path):
    pytest.importorskip("onnxscript")
    from cascade_srn.training.export.run import export_model

    small_model("swift", schema=SCHEMA).save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "light")
    names = [str(tmp_path / name) for name in ("model", "light")]
    options = RuntimesOptions(
        models=tuple(names), data=_data(tmp_path), latency_sentences=2, starts=1, repeats=2, warmup=0
    )
    found = _written(runtimes.measure(options, BenchmarkRun()), tmp_path)
    torch_row, light_row = found["rows"]
    assert (torch_row["model"], light_row["model"]) == ("model", "light")
    for row in found["rows"]:
        assert _is_timing(row, 2)
        assert _is_timing(row["start"], 1)
        assert row["latency"]["sentences"] == 2
    # Without torch, a process needs much less of both.
    assert light_row["memory"]["peak_bytes"] < torch_row["memory"]["peak_bytes"] / 1.5
    with pytest.raises(ConfigError, match="same name"):
        runtimes.measure(RuntimesOptions(models=(names[1], names[1]), data=_data(tmp_path)), BenchmarkRun())
