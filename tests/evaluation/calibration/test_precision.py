"""Precision statistics: collected on documents or from marked predictions, stored with the model, and used."""

import json
from dataclasses import replace

import pytest
from tests.cli.conftest import run
from tests.evaluation.saved_models import DOCUMENTS, corpus, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Extractor
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.calibration.precision import (
    CURVES,
    LEVELS,
    measure_curves,
    measure_precision,
    measure_promises,
    record_predictions,
)
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.inference.options import KINDS, PrecisionChoice
from cascade_srn.inference.precision import MinScores, RankedPredictions
from cascade_srn.model.folder import model_checksum, read_precision
from cascade_srn.model.model import Model
from cascade_srn.types import Triple

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
    (found,) = measure_promises(record, many, predicted, extractor.schema, PrecisionChoice(levels={"entities": LEVEL}))
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
    assert "promised, strict, 95% confidence" in shown
    *others, highest = [one for one in model["promised_precision"] if one["name"] == "entities"]
    assert all(one["level"] in LEVELS for one in others)
    tested = RankedPredictions.of(read_precision(folder), "entities", read_precision(folder).entities.labels)
    assert highest["level"] == tested.highest_level()


def test_a_level_for_boundaries_is_measured_by_boundaries(folder, tmp_path, capsys):
    level, report = "entities=0.5,boundaries", tmp_path / "report"
    options = ("--device", "cpu", "--precision", level, "--report", report, "--json", tmp_path / "scores.json")
    assert run("evaluate", folder, corpus(), *options) == 0
    assert "promised, boundaries, 95% confidence" in capsys.readouterr().out
    (model,) = json.loads((tmp_path / "scores.json").read_text())["models"]
    (promise,) = model["promised_precision"]
    gold = [{(e.start, e.end) for e in s.entities} for d in DOCUMENTS for s in d.sentences]
    found = Extractor.from_pretrained(folder, device="cpu", precision=level).predict(DOCUMENTS)
    spans = [(e.start, e.end) in one for one, s in zip(gold, (s for d in found for s in d.sentences), strict=True)
             for e in s.entities]  # fmt: skip
    assert (promise["n_predicted"], promise["n_correct"]) == (len(spans), sum(spans))
    assert promise["n_correct"] > model["scores"]["directed"]["ner"]["micro"]["n_correct"]
    page = (report / "report.html").read_text()
    assert "measured on these documents (boundaries)" in page


def test_curves_are_the_scores_from_each_score_on(folder, many):
    extractor = Extractor.from_pretrained(folder, device="cpu")
    found = extractor.predict(DOCUMENTS)
    # Every second relation of the model is right, but the types of the entities are often wrong.
    gold = [
        replace(f, sentences=tuple(s.annotated([replace(e, label="Task") for e in s.entities], [
            Triple(replace(t.head, label="Task"), t.label, replace(t.tail, label="Task")) for t in s.triples[::2]])
            for s in f.sentences))
        for f in found
    ]  # fmt: skip
    curves = measure_curves(read_precision(folder), record_predictions(gold, found, extractor.schema), gold)
    assert [curve.task for curve in curves] == list(CURVES)
    for curve in curves:
        kind = CURVES[curve.task][0]
        assert len({precision for _, precision, _ in curve.measured}) > 2
        for score, precision, recall in curve.measured:
            lowest = MinScores(**{kind: dict.fromkeys((*SCHEMA.entity_types, *SCHEMA.relation_types), score)})
            kept = [lowest.filter(document) for document in found]
            counts = getattr(score_documents(gold, kept, schema=SCHEMA), curve.task).counts
            assert (precision, recall) == pytest.approx((counts.precision, counts.recall))


def test_promised_points_keep_their_level(folder, many):
    extractor = Extractor.from_pretrained(folder, device="cpu")
    found, record = extractor.predict(many), read_precision(folder)
    promised = measure_curves(record, record_predictions(many, found, extractor.schema), many)[0].promised
    assert promised == sorted(promised, reverse=True)
    assert [recall for *_, recall in promised] == sorted({recall for *_, recall in promised})
    for level, score, recall in promised:
        counts = score_documents(many, [one.filter(min_score=score) for one in found], schema=SCHEMA).ner.counts
        assert counts.precision >= level
        assert counts.recall == pytest.approx(recall)
