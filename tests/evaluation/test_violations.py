import json
from dataclasses import replace

import pytest
from tests.cli.conftest import run
from tests.evaluation.report.example import NEWS
from tests.evaluation.saved_models import DOCUMENTS, THRESHOLDS, corpus
from tests.small_models import SCHEMA, small_model, spread_probabilities

from cascade_srn import Document, read_documents
from cascade_srn.evaluation.analysis import analyse
from cascade_srn.evaluation.errors import count_violations
from cascade_srn.evaluation.report import render_report
from cascade_srn.formats.schema_file import read_schema
from cascade_srn.schema import RelationConstraints
from cascade_srn.types import Sentence, Span, Triple

CONSTRAINED = replace(SCHEMA, constraints={"used-for": RelationConstraints(heads=("Metric",))})


def test_a_repeated_relation_counts_once():
    one, other = Span(0, 1, "Thing"), Span(1, 2, "Task")
    triples = [Triple(one, "used-for", other)] * 2 + [Triple(one, "part-of", other)]
    document = Document.from_sentences([Sentence.from_words(["a", "b"], [one, other], triples)])
    counts = count_violations([document], CONSTRAINED)
    assert counts.to_dict() == {
        "n_relations": 2, "n_violations": 1, "types": 1, "directions": 0, "contradictions": 0,
        "cycles": 0, "inverses": 0,
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "constrained"
    spread_probabilities(small_model(thresholds=THRESHOLDS, schema=CONSTRAINED)).save(folder)
    return folder


class TestCommand:
    def test_violations_are_counted_and_removed(self, folder, tmp_path, capsys):
        counts = {}
        for choice in ("off", "on"):
            path = tmp_path / f"{choice}.json"
            assert run("evaluate", folder, corpus(), "--json", path, "--constraints", choice, "--device", "cpu") == 0
            lines = capsys.readouterr().out.splitlines()
            (at,) = [number for number, line in enumerate(lines) if line.startswith("violated constraints")]
            row = lines[at + 1].split()
            (record,) = json.loads(path.read_text(encoding="utf-8"))["models"]
            counts[choice] = record["constraints"]
            assert record["constraints"]["applied"] == choice
            sides = [str(record["constraints"][side]["n_violations"]) for side in ("gold", "predicted")]
            assert row[-8:-5] == [choice, *sides]
        assert counts["off"]["gold"] == counts["on"]["gold"] == count_violations(DOCUMENTS, CONSTRAINED).to_dict()
        assert counts["off"]["gold"]["types"] == 2
        assert counts["off"]["predicted"]["types"] > 0 == counts["on"]["predicted"]["n_violations"]

    def test_report(self, folder, tmp_path):
        assert run("evaluate", folder, corpus(), "--report", tmp_path, "--constraints", "on", "--device", "cpu") == 0
        analysis = json.loads((tmp_path / "analysis.json").read_text(encoding="utf-8"))
        assert analysis["constraints"]["applied"] == "on"
        assert analysis["constraints"]["gold"]["types"] == 2
        assert "Violated constraints" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_extract(self, folder, capsys):
        text = "a tagger helps parsing and translation"
        found = {}
        for choice in ("off", "on"):
            arguments = ("--text", text, "--model", folder, "--format", "jsonl", "--constraints", choice)
            assert run("extract", *arguments, "--threshold", "0.05", "--device", "cpu") == 0
            record = json.loads(capsys.readouterr().out)
            entities = record["entities"]
            found[choice] = {entities[r["head"]]["label"] for r in record["relations"] if r["label"] == "used-for"}
        assert found["off"] - {"Metric"}
        assert found["on"] <= {"Metric"}


class TestReport:
    def test_analyses_without_counts(self):
        gold, schema = list(read_documents(NEWS / "test.jsonl")), read_schema(NEWS / "schema.json")
        record = analyse(gold, gold, schema=schema).to_dict()
        assert record["constraints"]["applied"] == "off"
        assert "Violated constraints" not in render_report(record)
