"""Predictions made elsewhere: reading, matching with gold, and scores."""

import json
from dataclasses import replace

import pytest
from tests.evaluation.saved_models import DOCUMENTS, corpus, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Document, Extractor, Sentence, Span, Triple, write_documents
from cascade_srn.errors import AnnotationError, ConfigError, DataError, SchemaError
from cascade_srn.evaluation import score_documents
from cascade_srn.evaluation.evaluate import evaluate
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.predictions import match_documents, read_predictions
from cascade_srn.evaluation.text import format_evaluation
from cascade_srn.formats.registry import write_schema
from cascade_srn.formats.reports import WITHOUT_ENTITY

CRF, TAGGING, PARSING = Span(1, 2, "Method"), Span(3, 4, "Task"), Span(0, 1, "Task")
SENTENCES = [
    Sentence.from_words(["A", "CRF", "for", "tagging", "."], [CRF, TAGGING], [Triple(CRF, "Used-for", TAGGING)]),
    Sentence.from_words(["Parsing", "is", "hard", "."], [PARSING]),
    Sentence.from_words(["It", "works", "."]),
]
GOLD = [Document.from_sentences(SENTENCES[:2], id="a"), Document.from_sentences(SENTENCES[2:], id="b")]
RECORDS = [
    {
        "doc_key": "a",
        "sentences": [list(s.words) for s in SENTENCES[:2]],
        "ner": [[[0, 0, "Gold"]], []],
        "relations": [[], []],
        "predicted_ner": [[[1, 1, "Method"], [3, 3, "Task", 7.5, 0.9]], [[5, 5, "Task"]]],
        "predicted_relations": [[[1, 1, 3, 3, "Used-for", 3.5, 0.8]], []],
    },
    {"doc_key": "b", "sentences": [["It", "works", "."]], "ner": [[]], "predicted_ner": [[]]},
]


def write_lines(path, records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return str(path)


def options(path="predictions", **named):
    return EvaluateOptions(models=(), data=named.pop("data", "gold"), predictions=(str(path),), **named)


def read(tmp_path, records, **named):
    reports = []
    found = read_predictions(write_lines(tmp_path / "p.json", records), options(**named), reports.append)
    return found, reports[0]


def annotations(documents):
    return [[(set(s.entities), set(s.triples)) for s in document.sentences] for document in documents]


class TestReading:
    def test_predicted_fields_of_dygie_and_pure(self, tmp_path):
        found, report = read(tmp_path, RECORDS)
        assert annotations(found) == annotations(GOLD)
        assert found[0].relations[0].score == 0.8
        assert not report.noted

    def test_relations_of_pl_marker(self, tmp_path):
        record = {key: value for key, value in RECORDS[0].items() if key != "predicted_relations"}
        record["predicted_re"] = [[0, [[[1, 1], [3, 3], "Used-for"]]]]
        found, _ = read(tmp_path, [record])
        assert annotations(found) == annotations(GOLD[:1])

    def test_relation_of_a_span_that_is_no_entity(self, tmp_path):
        relations = [[[1, 1, 4, 4, "Used-for"], [1, 1, 3, 3, "Used-for"]], []]
        found, report = read(tmp_path, [RECORDS[0] | {"predicted_relations": relations}])
        assert annotations(found) == annotations(GOLD[:1])
        assert report.noted == {WITHOUT_ENTITY: 1}

    def test_entities_within_words(self, tmp_path):
        record = {"id": "a", "text": "CRF-based.", "entities": [{"id": 0, "start": 0, "end": 3, "label": "Method"}]}
        found, _ = read(tmp_path, [record])
        assert [entity.text for entity in found[0].entities] == ["CRF"]

    @pytest.mark.parametrize(
        "change",
        [
            {"predicted_ner": [[[1, 1]], []]},
            {"predicted_ner": [[]]},
            {"predicted_ner": [[["1", 1, "Task"]], []]},
            {"predicted_ner": [[[1, 90, "Task"]], []]},
            {"predicted_relations": [[]]},
            {"predicted_relations": [[], [], []]},
            {"predicted_relations": [[[1, 1, 3, "Used-for"]], []]},
            {"predicted_re": [[9, [[[1, 1], [3, 3], "Used-for"]]]]},
            {"predicted_re": [[0, [[1, 3, "Used-for"]]]]},
            {"predicted_re": "none"},
            {"sentences": 7},
        ],
    )
    def test_malformed(self, tmp_path, change):
        with pytest.raises(DataError) as error:
            read(tmp_path, [RECORDS[0] | change])
        assert "line 1" in error.value.problem

    def test_without_predicted_entities(self, tmp_path):
        record = {key: value for key, value in RECORDS[0].items() if key != "predicted_ner"}
        with pytest.raises(DataError) as error:
            read(tmp_path, [record])
        assert error.value.option == "gold_entities"

    def test_unknown_format_names_its_option(self, tmp_path):
        (tmp_path / "p.txt").write_text("nothing known", encoding="utf-8")
        with pytest.raises(DataError) as error:
            read_predictions(str(tmp_path / "p.txt"), options())
        assert error.value.option == "predictions_format"


class TestMatching:
    def match(self, predicted, gold=GOLD):
        return match_documents(gold, predicted, "p.json")

    def test_by_id_in_any_order(self):
        assert self.match(GOLD[::-1]) == GOLD

    @pytest.mark.parametrize("ids", [("", "", ""), ("x", "x", "x"), ("a-0", "a-1", "b-0")])
    def test_a_document_for_each_sentence(self, ids):
        single = [Document.from_sentences([s], id=id) for s, id in zip(SENTENCES, ids, strict=True)]
        assert self.match(single) == GOLD
        assert [one.sentences[0].words for one in self.match([Document.from_sentences(SENTENCES)], single)] == [
            sentence.words for sentence in SENTENCES
        ]

    def test_empty_sentences(self):
        empty = Sentence.from_words([])
        gold = [Document.from_sentences([empty, *SENTENCES], id="a")]
        (found,) = self.match([Document.from_sentences([*SENTENCES[:1], empty, *SENTENCES[1:]])], gold)
        assert annotations([found]) == annotations(gold)

    def test_other_words_of_the_same_text(self):
        text = "A CRF-based parser."
        gold = [Document.from_text(text, id="a")]
        method = Span(1, 2, "Method")
        words = Sentence.from_words(["A", "CRF", "-", "based", "parser", "."], [method])
        (found,) = self.match([Document.from_sentences([words])], gold)
        assert found.text == text
        assert [(entity.start, entity.end) for entity in found.entities] == [(2, 5)]

    @pytest.mark.parametrize(
        ("predicted", "named"),
        [
            (GOLD[:1], "'b'"),
            ([*GOLD, Document.from_words([["More"]], id="c")], "'c'"),
            ([Document.from_sentences(SENTENCES[:2])], "'It' is only in the data"),
            ([Document.from_sentences([*SENTENCES, SENTENCES[2]])], "1 more sentence"),
            ([Document.from_words([["A", "MEMM"], *[s.words for s in SENTENCES]])], "'CRF' in the data, 'MEMM'"),
            ([Document.from_words([[w for s in SENTENCES for w in s.words]])], "is only in the predictions"),
            ([], "'A' is only in the data"),
        ],
    )
    def test_other_documents(self, predicted, named):
        with pytest.raises(AnnotationError) as error:
            self.match(predicted)
        assert named in error.value.problem


@pytest.fixture(scope="module")
def predicted():
    return Extractor.from_pretrained(saved_model()).predict(DOCUMENTS)


class TestScores:
    def evaluate(self, *files, **named):
        named = {"models": (), "data": corpus(), "n_resamples": 100} | named
        return evaluate(EvaluateOptions(predictions=tuple(map(str, files)), **named))

    @pytest.mark.parametrize("format", ["jsonl", "spert", "dygie"])
    def test_equal_those_of_the_model(self, tmp_path, predicted, format):
        write_documents(predicted, tmp_path / "p.json", format)
        write_schema(SCHEMA, tmp_path / "schema.json")
        found = self.evaluate(tmp_path / "p.json", schema=str(tmp_path / "schema.json"), symmetric="canonical")
        ((scores,),) = found.scores.values()
        expected = score_documents(DOCUMENTS, predicted, schema=SCHEMA, symmetric="canonical")
        assert scores == expected
        assert scores.re_strict.counts.n_predicted
        assert found.to_dict()["models"][0]["speed"] is None
        assert "speed of" not in format_evaluation(found)

    def test_comparison_with_a_model(self, tmp_path, predicted):
        write_documents(predicted, tmp_path / "p.json", "jsonl")
        found = self.evaluate(tmp_path / "p.json", against=(saved_model(1),))
        assert [model.seconds is None for model in (*found.models, *found.against)] == [True, False]
        assert found.differences
        assert format_evaluation(found).count("/best ") > 0
        same = self.evaluate(models=(saved_model(),), against=(str(tmp_path / "p.json"),))
        assert {one.difference for one in same.differences} == {0}

    def test_gold_entities(self, tmp_path, predicted):
        bare = [replace(d, sentences=tuple(replace(s, triples=()) for s in d.sentences)) for d in DOCUMENTS]
        write_documents(bare, tmp_path / "p.json", "jsonl")
        found = self.evaluate(tmp_path / "p.json", gold_entities=True)
        assert found.excluded_tasks == ("ner",)
        write_documents(predicted, tmp_path / "p.json", "jsonl")
        with pytest.raises(AnnotationError) as error:
            self.evaluate(tmp_path / "p.json", gold_entities=True)
        assert error.value.option == "gold_entities"

    def test_labels(self, tmp_path):
        odd = replace(DOCUMENTS[0].sentences[0], entities=(Span(0, 1, "Odd"),), triples=())
        documents = [replace(DOCUMENTS[0], sentences=(odd, *DOCUMENTS[0].sentences[1:])), *DOCUMENTS[1:]]
        write_documents(documents, tmp_path / "p.json", "jsonl")
        assert "Odd" in self.evaluate(tmp_path / "p.json").models[0].schema.entity_types
        with pytest.raises(SchemaError):
            self.evaluate(tmp_path / "p.json", against=(saved_model(),))
        with pytest.raises(ConfigError) as error:
            self.evaluate(tmp_path / "p.json", symmetric="doubled")
        assert error.value.option == "schema"

    def test_schema_of_a_model(self, tmp_path, predicted):
        write_documents(predicted, tmp_path / "p.json", "jsonl")
        found = self.evaluate(tmp_path / "p.json", symmetric="all", schema=saved_model())
        assert found.models[0].schema == SCHEMA
