"""Precision statistics: collected on documents or from marked predictions, stored with the model, and used."""

import json

import pytest
from tests.cli.conftest import run
from tests.evaluation.saved_models import DOCUMENTS, corpus, saved_model

from cascade_srn import Extractor
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.calibration.precision import LEVELS, measure_precision, measure_promises
from cascade_srn.inference.precision_option import KINDS
from cascade_srn.model.folder import model_checksum, read_precision
from cascade_srn.model.model import Model

LEVEL = 0.8


@pytest.fixture(scope="module")
def many():
    """Copies of documents in which all entities and relations of the model are right, except those with low scores."""
    found = Extractor.from_pretrained(saved_model(), device="cpu").predict(DOCUMENTS)
    scores = sorted(span.score for document in found for s in document.sentences for span in s.entities)
    return [document.filter(min_score=scores[len(scores) // 2]) for document in found] * 8


@pytest.fixture(scope="module")
def folder(many, tmp_path_factory):
    """A saved model with statistics on documents."""
    model = Model.load(saved_model())
    object.__setattr__(model, "precision_record", measure_precision(model, many))
    path = tmp_path_factory.mktemp("models") / "model"
    model.save(path)
    return path


def test_each_prediction_is_recorded(folder, many):
    extractor = Extractor.from_pretrained(folder, device="cpu")
    record, predicted = read_precision(folder), extractor.predict(many)
    assert record.n_documents == len(many)
    assert [len(getattr(record, kind).score) for kind in KINDS] == [
        sum(len(s.entities) for d in predicted for s in d.sentences),
        sum(len(s.triples) for d in predicted for s in d.sentences),
    ]
    scores = [span.score for d in predicted for s in d.sentences for span in s.entities]
    assert record.entities.score == pytest.approx(scores, abs=1.01e-3)
    assert all(record.entities.score <= scores)
    correct = [s.entities and e in g.entities for d, p in zip(many, predicted, strict=True)
               for g, s in zip(d.sentences, p.sentences, strict=True) for e in s.entities]  # fmt: skip
    assert [value == 2 for value in record.entities.correct] == correct
    assert all(record.entities.document[record.relations.head] == record.relations.document)


def test_predictions_below_the_score_are_left_out(folder):
    plain = Extractor.from_pretrained(folder, device="cpu")
    promised = Extractor.from_pretrained(folder, device="cpu", precision=f"entities={LEVEL}")
    assert (promised.precision, promised.levels) == ("auto", {"entities": LEVEL})
    lowest = promised.min_scores.entities
    all_, kept = (extractor.predict(DOCUMENTS) for extractor in (plain, promised))
    found = [[e for d in documents for s in d.sentences for e in s.entities] for documents in (all_, kept)]
    assert found[1] == [e for e in found[0] if e.score >= lowest[e.label]] != found[0]
    for options in ({"thresholds": 0.2}, {"overlaps": "nested"}, {"given_entities": True}):
        with pytest.raises(ConfigError, match="precision is promised"):
            promised.predict(DOCUMENTS, **options)
    with pytest.raises(ConfigError, match="statistics of these settings"):
        Extractor(plain.model, precision=0.1, overlaps="nested")


def test_levels_are_measured(folder, many):
    extractor = Extractor.from_pretrained(folder, device="cpu")
    record, predicted = extractor.model.precision_record, extractor.predict(many)
    (found,) = measure_promises(record, many, predicted, extractor.schema, {"entities": LEVEL})
    assert found.level == LEVEL <= found.counts.precision
    assert found.counts.n_gold == sum(len(set(s.entities)) for d in many for s in d.sentences)
    assert found.min_score > 0


def test_statistics_are_kept_until_the_weights_change(folder, tmp_path):
    model = Model.load(folder)
    model.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "precision.json.xz").read_bytes() == (folder / "precision.json.xz").read_bytes()
    assert model_checksum(tmp_path / "copy") == model_checksum(folder)
    model.forget_card()
    model.save(tmp_path / "copy")
    assert read_precision(tmp_path / "copy") is None


def test_marked_predictions(many, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [f"--text={d.text}" for d in many]
    assert run("extract", "--model", saved_model(), "--device", "cpu", "-o", "found.jsonl", *texts) == 0
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    entities = [entity for line in lines for entity in line["entities"]]
    for entity in entities[1:]:
        entity["correct"] = True
    (tmp_path / "marked.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    calibrate = ("calibrate", saved_model(), "marked.jsonl", "--reviewed", "--output")
    assert run(*calibrate, "new") == 0
    shown = capsys.readouterr().out.splitlines()
    n = len(entities) - 1
    assert shown[0].startswith(f"{n:,} of {n:,} entities are right; precision up to 0.")
    assert shown[1] == "0 of 0 relations are right; no precision can be promised"
    record = read_precision(tmp_path / "new")
    assert (record.source, record.n_documents, record.entities.correct[0]) == ("review", len(many), -1)
    for change, message in (
        ({"model": "0" * 64}, "another checksum"),
        ({"entities": [entities[0] | {"correct": "yes"}], "relations": []}, "true or false"),
        ({"entities": [entities[0] | {"label": "Place"}], "relations": []}, "does not have this label"),
        ({"entities": [], "relations": []}, "field 'correct'"),
    ):
        (tmp_path / "marked.jsonl").write_text(json.dumps(lines[0] | change) + "\n")
        assert run(*calibrate, "other") == 2
        assert message in capsys.readouterr().err
    assert run(*calibrate, "other", "--by-label") == 2
    assert not (tmp_path / "other").exists()


def test_evaluate_reports_promises(folder, tmp_path, capsys):
    assert run("evaluate", folder, corpus(), "--device", "cpu", "--json", tmp_path / "scores.json") == 0
    (model,) = json.loads((tmp_path / "scores.json").read_text())["models"]
    shown = capsys.readouterr().out
    assert "promised, 95% confidence" in shown
    assert {one["name"] for one in model["promised_precision"]} <= set(KINDS)
    assert all(one["level"] in LEVELS for one in model["promised_precision"])
