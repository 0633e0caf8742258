"""The search for the most expensive text: patterns, limits, ranking, interruption. No time is asserted."""

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.small_models import small_model

from cascade_srn.cli import main
from cascade_srn.errors import ConfigError
from cascade_srn.lab.benchmarks import worst_text
from cascade_srn.lab.benchmarks.options import WorstTextOptions
from cascade_srn.lab.benchmarks.worst_text import MEMORY_FLOOR, measure
from cascade_srn.lab.benchmarks.worst_text_patterns import (
    Pattern,
    PatternPart,
    mutate,
    ordinary,
    seed_patterns,
)
from cascade_srn.lab.benchmarks.worst_text_worker import Cost, Usage, Worker, WorkerError


class FakeWorker:
    """Computes the cost of a text from its characters instead of measuring it."""

    def __init__(self, folder, **limits):
        self.texts = []
        FakeWorker.last = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self):
        pass

    def measure(self, text):
        self.texts.append(text)
        return self.cost(text)

    @staticmethod
    def cost(text):
        counts = {"words": 1, "sentences": 1, "entities": 0, "relations": 0}
        if "SVM" in text:
            return Cost("time limit", 50.0, 100 << 20)
        dear = 20 * text.count("-")
        return Cost("done", (len(text) + dear) / 1000, MEMORY_FLOOR * len(text) // 500, 0.001, counts)


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(worst_text, "Worker", FakeWorker)


@pytest.fixture
def without_mutations(monkeypatch):
    monkeypatch.setattr(worst_text.WorstTextSearch, "_mutate", lambda self, rng: None)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    small_model().save(folder)
    return folder


@pytest.fixture(scope="module")
def worker(model_folder):
    with Worker(model_folder, threads=1, limit_seconds=600, limit_bytes=64 << 30) as running:
        yield running


def test_a_pattern_is_a_text_of_exactly_its_length():
    pattern = Pattern("example", (PatternPart("ab", 2), PatternPart(". ")))
    assert pattern.text(8) == "abab. ab"
    assert pattern.text(1) == "a"
    for seed in [*seed_patterns(), ordinary()]:
        for size in (1, 500, 2_003):
            assert len(seed.text(size)) == size
        seed.text(2_003).encode()


def test_ordinary_text_varies():
    text = ordinary().text(5_000)
    paragraphs = text.split("\n\n")
    assert len(set(paragraphs)) == len(paragraphs) > 3


def test_unknown_patterns_are_refused():
    assert [pattern.name for pattern in seed_patterns(("digits", "base64"))] == ["digits", "base64"]
    with pytest.raises(ConfigError, match="'hyphen'.*'hyphens'"):
        seed_patterns(("hyphen",))


def test_mutations_depend_on_the_seed_only_and_stay_bounded():
    def descendants(seed):
        rng, patterns = random.Random(seed), seed_patterns()
        for _ in range(1_000):
            patterns.append(mutate(rng.choice(patterns), rng.choice(patterns), rng))
        return patterns

    first, again, other = descendants(1), descendants(1), descendants(2)
    assert first == again
    assert first != other
    for pattern in first:
        assert len(pattern.text(300)) == 300
        assert len(pattern.parts) <= 6
        assert sum(len(part.unit) for part in pattern.parts) <= 6 * 8_000


def test_the_worst_text_comes_first_with_its_ratio_to_ordinary_text_of_its_length(fake, without_mutations):
    result = measure(WorstTextOptions(patterns=("one word", "hyphens", "digits"), characters=2_000))
    first = result.rows[0]
    assert first["pattern"] == "hyphens"
    size = first["characters"]
    expected = FakeWorker.cost("a-" * (size // 2)).cpu_seconds / FakeWorker.cost(ordinary().text(size)).cpu_seconds
    assert first["cpu_ratio"] == pytest.approx(expected)
    assert first["memory_ratio"] == pytest.approx(1)
    assert result.summary["worst_ratio"] == first["cpu_ratio"]
    assert set(result.summary["ordinary"]) == {"500", "2000"}
    assert len(result.summary["measurements"]) == 6


def test_texts_that_are_given_up_are_lower_bounds_and_not_measured_at_longer_lengths(fake, without_mutations):
    result = measure(WorstTextOptions(patterns=("keyword list", "one word"), characters=2_000))
    assert [row["outcome"] for row in result.rows] == ["time limit", "done"]
    assert "> 50.00" in [column.show(result.rows[0]) for column in result.columns]
    assert sorted(len(text) for text in FakeWorker.last.texts if "SVM" in text) == [500]


def test_mutations_find_worse_texts_and_do_not_crowd_others_out(fake):
    result = measure(WorstTextOptions(patterns=("hyphens", "one word"), characters=500, seconds=1))
    scores = [max(row["cpu_ratio"], row["memory_ratio"]) for row in result.rows]
    assert all(one >= two for one, two in pairwise(scores))
    assert result.rows[0]["pattern"].startswith("mutation of hyphens")
    families = Counter(row["pattern"].removeprefix("mutation of ").partition(" and ")[0] for row in result.rows)
    assert families == {"hyphens": 3, "one word": 3}


def test_the_worst_texts_are_confirmed_beside_ordinary_text(fake, without_mutations, monkeypatch):
    times = Counter()

    def cheaper_the_second_time(text):
        times[text] += 1
        return Cost("done", 8.0 if "-" in text and times[text] == 1 else 2.0 if "aaa" in text else 1.0, 1)

    monkeypatch.setattr(FakeWorker, "cost", staticmethod(cheaper_the_second_time))
    result = measure(WorstTextOptions(patterns=("hyphens", "one word"), characters=40))
    found = [(row["pattern"], row["cpu_ratio"], row["confirmed"]) for row in result.rows]
    assert found == [("one word", 2.0, True), ("hyphens", 1.0, True)]
    assert FakeWorker.last.texts[-4:] == [ordinary().text(40), "a-" * 20, ordinary().text(40), "a" * 40]


def test_no_text_is_measured_twice(fake, monkeypatch):
    monkeypatch.setattr(worst_text.WorstTextSearch, "_confirm", lambda self: None)
    measure(WorstTextOptions(patterns=("one word", "hyphens"), characters=100, seconds=0.2))
    # The first text is the ordinary one.
    assert len(set(FakeWorker.last.texts)) == len(FakeWorker.last.texts) > 3


def test_the_rows_hold_what_builds_the_text_again(fake):
    result = measure(WorstTextOptions(patterns=("hyphens",), characters=100, seconds=0.1))
    row = json.loads(json.dumps(result.to_dict()))["rows"][0]
    rebuilt = Pattern(row["pattern"], tuple(PatternPart(**part) for part in row["parts"])).text(row["characters"])
    assert rebuilt in FakeWorker.last.texts
    assert rebuilt.startswith(row["start"])


def test_ordinary_text_that_is_given_up_ends_the_search(fake, monkeypatch):
    monkeypatch.setattr(FakeWorker, "cost", staticmethod(lambda text: Cost("memory limit", 1.0, 1)))
    with pytest.raises(WorkerError, match="50 characters.*memory limit"):
        measure(WorstTextOptions(characters=50, seconds=1))


def test_an_interrupted_search_keeps_its_results(fake, monkeypatch, tmp_path, capsys):
    whole, n_left = FakeWorker.measure, iter(range(3))

    def measure_a_few(self, text):
        if next(n_left, None) is None:
            raise KeyboardInterrupt
        return whole(self, text)

    monkeypatch.setattr(FakeWorker, "measure", measure_a_few)
    path = tmp_path / "worst.json"
    assert _run("--characters", "100", "--output", str(path)) == 130
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["summary"]["interrupted"] is True
    assert found["partial"] is True
    assert len(found["rows"]) == 2
    assert "partial" in capsys.readouterr().out


def test_a_ratio_that_is_too_high_exits_with_1(fake, tmp_path, capsys):
    arguments = ("--characters", "100", "--patterns", "hyphens", "--seconds", "0.1", "--output", str(tmp_path / "a"))
    assert _run(*arguments, "--max-ratio", "2") == 1
    assert _run(*arguments, "--max-ratio", "1000") == 0
    told = capsys.readouterr()
    assert "hyphens, 100 characters: CPU" in told.err
    assert "worst-text on" in told.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--patterns", "hyphen"], "there is no text pattern 'hyphen'"),
        (["--characters", "0"], "characters is 0"),
        (["--max-ratio", "0.5"], "max_ratio is 0.5"),
        (["--model", "no/such/folder"], "no/such/folder"),
    ],
)
def test_unknown_values_are_one_sentence(arguments, message, capsys):
    assert _run(*arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_real_worker_measures_a_text(worker):
    cost = worker.measure("A tagger helps parsing. It needs data.")
    assert cost.outcome == "done"
    assert cost.cpu_seconds > 0
    assert cost.counts["sentences"] == 2
    assert not cost.is_bound


@pytest.mark.slow
def test_a_text_that_is_refused_is_a_result(worker):
    cost = worker.measure("half a character: \ud800")
    assert cost.outcome == "failed"
    assert "surrogate" in cost.error


@pytest.mark.slow
def test_a_process_that_dies_is_a_result(worker):
    worker.start()
    worker._process.kill()
    worker._process.join()
    assert worker.measure("A tagger helps.").outcome == "process died"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="limits need the figures of /proc")
def test_a_text_past_a_limit_is_given_up_and_the_next_one_has_a_new_process(worker, monkeypatch):
    worker.start()
    before = worker._process.pid
    with monkeypatch.context() as changed:
        changed.setattr(worker, "_limit_bytes", 0)
        cost = worker.measure(ordinary().text(50_000))
    assert cost.outcome == "memory limit"
    assert cost.is_bound
    assert worker.measure("A tagger helps.").outcome == "done"
    assert worker._process.pid != before


def test_limits():
    worker = Worker(Path(), threads=1, limit_seconds=2, limit_bytes=1000)
    before = Usage(10.0, 500)
    assert worker._exceeded(before, Usage(11.9, 1000), 3.0) is None
    assert worker._exceeded(before, Usage(12.1, 1000), 3.0) == "time limit"
    assert worker._exceeded(before, Usage(11.9, 1001), 3.0) == "memory limit"
    assert worker._exceeded(before, Usage(10.0, 500), 10.1) == "time limit"  # it waits for something
    assert worker._exceeded(None, None, 1.9) is None  # the system does not tell
    assert worker._exceeded(None, None, 2.1) == "time limit"


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_reported(tmp_path):
    with (
        Worker(tmp_path / "none", threads=1, limit_seconds=60, limit_bytes=1 << 40) as broken,
        pytest.raises(WorkerError, match="load"),
    ):
        broken.start()


@pytest.mark.slow
def test_a_short_run_with_a_real_model(model_folder, tmp_path):
    path = tmp_path / "worst.json"
    arguments = ["--model", str(model_folder), "--characters", "200", "--seconds", "0.1", "--threads", "1"]
    assert _run(*arguments, "--patterns", "hyphens;CJK", "--output", str(path)) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"hyphens", "CJK"} <= {row["pattern"] for row in found["rows"]}
    assert found["environment"]["threads"] == 1
    assert str(model_folder.parent) not in path.read_text(encoding="utf-8")


def _run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["benchmark", "worst-text", *arguments])
    return stopped.value.code or 0
