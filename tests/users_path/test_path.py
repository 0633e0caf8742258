"""Train, evaluate, report, predict and convert: the results of all steps agree."""

import re

import pytest
from tests.twelve_sentences import DOCUMENTS
from tests.users_path.commands import NEWS, read_json, run

from cascade_srn import read_documents, write_documents
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.text.segment import segment

pytestmark = pytest.mark.slow

TASKS = {"ner": "ner", "re_boundaries": "re_boundaries, directed", "re_strict": "re_strict, directed"}


@pytest.fixture
def analysis(workplace, reported):
    """The analysis of the report."""
    return read_json(workplace / "report" / "analysis.json")


def _percentages(figures):
    return [f"{100 * figures[name]:.1f}" for name in ("precision", "recall", "f1")]


class TestTraining:
    def test_it_learns_to_find_entities_and_relations(self, summary):
        # The full recipe reaches twice as much with three times the epochs.
        for split in ("dev", "test"):
            assert summary[split]["ner"]["micro"]["f1"] > 0.3
            assert summary[split]["re_strict"]["micro"]["n_correct"] >= 5

    def test_it_prints_the_scores_that_it_keeps(self, trained, summary):
        lines = trained.out.splitlines()
        assert "runs/news/best" in lines[-1]
        for name, task in (
            ("NER", "ner"),
            ("RE boundaries, directed", "re_boundaries"),
            ("RE strict, directed", "re_strict"),
        ):
            rows = [line for line in lines if f"│ {name}, micro" in line]
            shown = [re.findall(r"\d+\.\d", row) for row in rows]
            assert shown == [_percentages(summary[split][task]["micro"]) for split in ("dev", "test")]


class TestEvaluation:
    def test_scores_equal_those_of_training(self, workplace, reported, summary):
        (model,) = read_json(workplace / "report" / "scores.json")["models"]
        assert model["name"] == "runs/news/best"
        assert model["scores"] == {"directed": summary["test"]}

    def test_it_prints_the_scores_that_it_writes(self, reported, summary):
        assert reported.out.startswith("runs/news/best on examples/news/test.jsonl, end to end, overlaps nested\n")
        for task, protocol in TASKS.items():
            micro, macro = summary["test"][task]["micro"], summary["test"][task]["macro"]
            counts = [str(micro[name]) for name in ("n_gold", "n_predicted", "n_correct")]
            assert _row(reported.out, f"{protocol}, micro") == [*_percentages(micro), *counts]
            assert _row(reported.out, f"{protocol}, macro") == _percentages(macro)


class TestReport:
    def test_the_page_shows_the_scores_and_every_sentence(self, workplace, reported, summary, gold):
        page = (workplace / "report" / "report.html").read_text(encoding="utf-8")
        text = re.sub(r"<[^>]*>", "", page)
        for task, protocol in TASKS.items():
            micro = summary["test"][task]["micro"]
            precision, recall, f1 = _percentages(micro)
            assert f"{f1} F1 {protocol}, micro, end to end" in text
            assert f"{precision}, recall {recall}: {micro['n_correct']} correct, {micro['n_predicted']}" in text
        for document in gold:
            assert document.id in text

    def test_the_analysis_has_the_same_scores(self, analysis, summary, gold):
        assert analysis["scores"] == summary["test"]
        assert len(analysis["sentences"]) == sum(len(document.sentences) for document in gold)
        assert analysis["about"]["training data"] == "examples/news/train.jsonl"


class TestPrediction:
    def test_predictions_can_be_kept_and_scored(self, extractor, gold, summary, tmp_path):
        write_documents(extractor.predict(gold), tmp_path / "predicted.jsonl")
        kept = list(read_documents(tmp_path / "predicted.jsonl"))
        assert kept == extractor.predict(gold)
        assert score_documents(gold, kept, schema=extractor.schema).to_dict() == summary["test"]

    def test_offsets_and_scores(self, extractor, gold):
        thresholds = extractor.model.settings.thresholds
        assert thresholds.related < thresholds.entity
        found = list(extractor.stream([document.text for document in gold]))
        assert [document.text for document in found] == [document.text for document in gold]
        assert sum(len(document.relations) for document in found) > 5
        for document in found:
            for entity in document.entities:
                assert document.text[entity.start : entity.end] == entity.text
                is_related = any(entity in (relation.head, relation.tail) for relation in document.relations)
                assert (thresholds.related if is_related else thresholds.entity) <= entity.score <= 1
            for relation in document.relations:
                assert {relation.head, relation.tail} <= set(document.entities)
                assert 0 < relation.score < 1

    def test_raw_text_gives_the_same_predictions(self, extractor, gold):
        alike = [
            document for document in gold if _words(document) == [tuple(words) for words in segment(document.text)]
        ]
        assert len(alike) > 0.9 * len(gold)
        for document, predicted in zip(alike, extractor.predict(alike), strict=True):
            found = extractor.extract(document.text)
            assert _plain(found) == _plain(predicted)
            for one, other in zip(found.entities, predicted.entities, strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.fixture(scope="module")
def finished(workplace, reported):
    write_documents(DOCUMENTS, workplace / "other.jsonl")
    (workplace / "mine").mkdir()
    write_documents(DOCUMENTS, workplace / "mine" / "corpus.json", format="spert")
    (workplace / "malformed.jsonl").write_text('{"id": "d", "text": 3}\n', encoding="utf-8")
    return workplace


class TestFailures:
    """Failed commands print one line and change no file."""

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (["train", "recipes/news.yaml"], "runs/news"),
            (["train", "recipes/news.yaml", "training.epochs=30", "--resume"], "training.epochs"),
            (["train", "recipes/news.yaml", "output=mine", "--overwrite"], "mine"),
            (["train", "recipes/news.yaml", "data.train=other.jsonl", "output=runs/next"], "data.train"),
            (["evaluate", "runs/news/best", "other.jsonl", "--report", "report"], "other.jsonl"),
            (["convert", "malformed.jsonl", "mine/corpus.json", "--to", "spert"], "malformed.jsonl"),
            (["convert", f"{NEWS}/test.jsonl", "mine/corpus.json", "--to", "dygie"], "news-277"),
        ],
    )
    def test_nothing_is_lost(self, finished, arguments, named):
        before = _files(finished)
        outcome = run(*arguments, folder=finished)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert named in outcome.err
        assert _files(finished) == before


def _files(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def _row(text, protocol):
    """Return the cells of the row of a protocol."""
    (row,) = re.findall(rf"^{re.escape(protocol)}  +(\S.*)$", text, flags=re.MULTILINE)
    return row.split()


def _words(document):
    return [sentence.offsets for sentence in document.sentences]


def _plain(document):
    """Return entities and relations without scores."""
    return (
        [(e.start, e.end, e.label) for e in document.entities],
        [(r.head.start, r.head.end, r.label, r.tail.start, r.tail.end) for r in document.relations],
    )
