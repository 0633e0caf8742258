"""Simulated annotation: order of the trainings, results on disk, and the table."""

import json

import pytest
from tests.small_models import NESTED, SHARED_SUBJECT, small_encoder

from cascade_srn import Document, write_documents
from cascade_srn.apps.annotation import STRATEGIES
from tools import simulate_annotation as tool


def result(strategy, n, seed, f1):
    scores = dict.fromkeys(tool.MEASURES, f1)
    return {"strategy": strategy, "n": n, "seed": seed, "words": 20 * n, **scores}


def test_seeds_come_one_after_the_other_and_share_the_first_training():
    jobs = tool.plan(("random", "combined"), (5, 10, 20), (0, 1))
    assert [(job.seed, job.n, job.strategy) for job in jobs[:5]] == [
        (0, 5, "random"),
        (0, 10, "random"),
        (0, 10, "combined"),
        (0, 20, "random"),
        (0, 20, "combined"),
    ]
    assert [job.seed for job in jobs] == [0] * 5 + [1] * 5
    assert tool.previous(jobs[0], (5, 10, 20)) is None
    assert tool.previous(jobs[2], (5, 10, 20)) == tool.Job(0, 5, "random")
    assert tool.previous(jobs[4], (5, 10, 20)) == tool.Job(0, 10, "combined")


def test_the_table_compares_the_same_seeds():
    results = [result("random", 5, 0, 0.1), result("random", 5, 1, 0.2)]
    results += [result("random", 10, seed, 0.3) for seed in (0, 1)] + [result("combined", 10, 0, 0.4)]
    first, random, combined = tool.format_table(results).splitlines()[2:]
    assert first.startswith("| 5 | all | 2 | 100 | 15.0 ± 7.1 |")
    assert random.startswith("| 10 | random | 1 | 200 | 30.0 |")
    assert combined.startswith("| 10 | combined | 1 | 200 | 40.0 (+10.0) |")


@pytest.mark.slow
def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    results = [result(name, n, 0, 0.1) for name in ("random", "combined") for n in (5, 10)]
    tool.draw(results, tmp_path / "new" / "plot.svg")
    assert "</svg>" in (tmp_path / "new" / "plot.svg").read_text()


@pytest.mark.slow
def test_a_simulation_is_resumed(tmp_path, monkeypatch, capsys):
    pool = [Document.from_sentences([sentence], id=sentence.words[0]) for sentence in (NESTED, SHARED_SUBJECT)]
    # No near-duplicates, which are not selected.
    pool += [Document.from_words([f"{a}b tagger {a}c helps {a}d".split()], id=a) for a in "efghijklmnop"]
    for split in ("train", "dev", "test"):
        write_documents(pool, tmp_path / f"{split}.json", "dygie")
    monkeypatch.setattr(tool, "SEEN_SENTENCES", 20)
    monkeypatch.setattr(tool, "MIN_EPOCHS", 2)
    options = ["--data", tmp_path, "--encoder", small_encoder(), "--output", tmp_path / "out", "--seeds", "0"]
    options += ["--strategies", "random,combined", "--sizes", "8,10", "--candidates", "9"]
    parsed = tool.parse(list(map(str, options)))
    jobs = tool.plan(parsed.strategies, parsed.sizes, parsed.seeds)
    # In this process, because each new one imports torch again.
    monkeypatch.setattr(tool, "SYMMETRIC", [])
    for job in jobs:
        assert tool.next_ready([job], parsed) == job
        tool.run_job(job, parsed)
    assert tool.next_ready([tool.Job(1, 10, "random")], parsed) is None
    first = json.loads(jobs[0].file(parsed.output).read_text())
    assert set(first["next"]) == set(STRATEGIES)
    for job in jobs[1:]:
        record = json.loads(job.file(parsed.output).read_text())
        assert record["selected"] == first["selected"] + first["next"][job.strategy]
        assert len(set(record["selected"])) == 10
    # All trainings are there, so that nothing is started.
    tool.main(list(map(str, options)))
    tool.main(["--output", str(parsed.output), "--table"])
    assert capsys.readouterr().out.count("\n") == 5
