import sys

import pytest

from cascade_srn import Document, Schema, Sentence, Span, Triple
from cascade_srn.errors import CascadeError, ConfigError, SchemaError
from cascade_srn.formats.label_filter import ChosenLabels, select_labels

SCHEMA = Schema(("Method", "Task", "Metric"), ("USED-FOR", "COMPARE"), frozenset({"COMPARE"}))
CRF, HMM, TAGGING = Span(1, 2, "Method", 0.9), Span(3, 4, "Method", 0.4), Span(5, 6, "Task", 0.8)
FIRST = Sentence.from_words(
    ["A", "CRF", "or", "HMM", "for", "tagging"],
    [CRF, HMM, TAGGING],
    [Triple(CRF, "USED-FOR", TAGGING, 0.7), Triple(CRF, "COMPARE", HMM, 0.3)],
)
SECOND = Sentence.from_words(["F1", "counts"], [Span(0, 1, "Task")])
DOCUMENT = Document.from_sentences([FIRST, SECOND], id="d")
WITH_SCHEMA = Document(DOCUMENT.text, DOCUMENT.sentences, "d", SCHEMA)


def texts(document):
    return [e.text for e in document.entities], [r.label for r in document.relations]


class TestFilter:
    @pytest.mark.parametrize(
        ("options", "entities", "relations"),
        [
            ({}, ["CRF", "HMM", "tagging", "F1"], ["USED-FOR", "COMPARE"]),
            ({"min_score": 0.5}, ["CRF", "tagging", "F1"], ["USED-FOR"]),
            ({"min_score": 0.9}, ["CRF", "F1"], []),
            ({"labels": ["Task"]}, ["tagging", "F1"], []),
            ({"labels": "Method"}, ["CRF", "HMM"], ["COMPARE"]),
            ({"labels": {"USED-FOR"}}, ["CRF", "HMM", "tagging", "F1"], ["USED-FOR"]),
            ({"labels": ["Method", "USED-FOR"]}, ["CRF", "HMM"], []),
            ({"labels": ["USED-FOR"], "related": True}, ["CRF", "tagging"], ["USED-FOR"]),
            ({"related": True}, ["CRF", "HMM", "tagging"], ["USED-FOR", "COMPARE"]),
        ],
    )
    @pytest.mark.parametrize("document", [DOCUMENT, WITH_SCHEMA], ids=["no schema", "schema"])
    def test_some_annotations_are_kept(self, document, options, entities, relations):
        found = document.filter(**options)
        assert texts(found) == (entities, relations)
        assert (found.text, found.id, found.schema) == (document.text, "d", document.schema)

    def test_label_that_does_not_occur(self):
        assert texts(WITH_SCHEMA.filter(labels=["Metric"])) == ([], [])
        # Its kind is not known.
        assert texts(DOCUMENT.filter(labels=["Metric"])) == ([], [])

    def test_unknown_label(self):
        with pytest.raises(SchemaError, match="Method"):
            WITH_SCHEMA.filter(labels=["Methods"])

    @pytest.mark.parametrize("options", [{"min_score": 2}, {"labels": []}, {"labels": [3]}, {"labels": 3}])
    def test_bad_options(self, options):
        with pytest.raises(ConfigError):
            WITH_SCHEMA.filter(**options)


def test_label_of_both_kinds_restricts_both():
    schema = Schema(("Part", "Whole"), ("Part", "Other"))
    assert select_labels("Part", schema) == ChosenLabels(frozenset({"Part"}), frozenset({"Part"}))


class TestTables:
    def test_tables(self):
        pytest.importorskip("pandas")
        entities, relations = DOCUMENT.to_pandas()
        assert entities.to_dict("records")[1] == {
            "document_id": "d", "entity": 1, "sentence": 0, "start": 9, "end": 12, "text": "HMM",
            "label": "Method", "score": 0.4,
        }  # fmt: skip
        assert list(entities.sentence) == [0, 0, 0, 1]
        assert entities.score.isna().tolist() == [False, False, False, True]
        first = relations.to_dict("records")[0]
        assert (first["head"], first["head_text"], first["label"], first["tail"]) == (0, "CRF", "USED-FOR", 2)
        for relation in relations.itertuples():
            assert DOCUMENT.text[relation.tail_start : relation.tail_end] == relation.tail_text
            assert entities.text[relation.head] == relation.head_text
        assert DOCUMENT.to_dataframe("relations").equals(relations)

    def test_columns_are_those_of_a_corpus(self):
        pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        from cascade_srn.apps.corpus.tables import table_schema

        for kind in ("entities", "relations"):
            assert set(DOCUMENT.to_dataframe(kind).columns) <= set(table_schema(kind).names)

    def test_empty_documents_have_columns_of_the_same_types(self):
        pytest.importorskip("pandas")
        for empty, full in zip(Document("").to_pandas(), DOCUMENT.to_pandas(), strict=True):
            assert list(empty.columns) == list(full.columns)
            assert empty.score.dtype == full.score.dtype

    def test_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(CascadeError, match="pandas"):
            DOCUMENT.to_pandas()


def test_graphs_of_given_entities_are_written_as_graphml(tmp_path):
    networkx = pytest.importorskip("networkx")
    networkx.write_graphml(DOCUMENT.to_networkx(), tmp_path / "graph.xml")
    read = networkx.read_graphml(tmp_path / "graph.xml")
    assert [data["text"] for _, data in read.nodes(data=True)] == ["CRF", "HMM", "tagging", "F1"]
    assert "score" not in read.nodes["3"]
    assert read.nodes["0"]["score"] == 0.9
