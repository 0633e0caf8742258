import json
from collections import Counter

import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, any_pairs, documents, policies, some

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation import analyse, score_documents
from cascade_srn.types import Document, Sentence, Span, Triple

A, B, C = Span(0, 1, "A"), Span(2, 4, "A"), Span(4, 5, "B")
GOLD = Sentence.from_words(["v", "w", "x", "y", "z"], [A, B], [Triple(A, "Directed", B)])
PREDICTED = GOLD.annotated(
    [Span(0, 1, "A", 0.9), Span(2, 4, "A", 0.8), Span(4, 5, "B", 0.6)],
    [Triple(A, "Other", B, 0.7), Triple(A, "Directed", C, 0.5)],
)


def analysed(pairs=((GOLD, PREDICTED),), **options):
    gold, predicted = documents(pairs)
    return analyse(gold, predicted, schema=SCHEMA, **options)


def test_errors_of_a_sentence():
    (found,) = analysed().sentences
    assert found.entity_kinds == ["spurious"]
    assert found.relation_kinds == ["RTE", "ESE", "RNF"]
    record = found.to_dict()
    assert (record["document_id"], record["document"], record["sentence"]) == ("d0", 0, 0)
    assert record["words"] == ["v", "w", "x", "y", "z"]
    assert record["n_errors"] == 4
    assert record["gold"] == {
        "entities": [
            {"start": 0, "end": 1, "label": "A", "score": None, "in_triple": True, "correct": True, "kind": None},
            {"start": 2, "end": 4, "label": "A", "score": None, "in_triple": True, "correct": True, "kind": None},
        ],
        "relations": [
            {
                "head": 0, "tail": 1, "label": "Directed", "score": None, "correct": False, "kind": "RNF",
                "instead": ["Other"], "reversed": False,
            }
        ],
    }  # fmt: skip
    assert record["predicted"]["entities"][2] == {
        "start": 4, "end": 5, "label": "B", "score": 0.6, "in_triple": True, "correct": False, "kind": "spurious",
    }  # fmt: skip
    first, second = record["predicted"]["relations"]
    assert (first["head"], first["tail"], first["score"], first["kind"]) == (0, 1, 0.7, "RTE")
    assert (second["head"], second["tail"], second["score"], second["kind"]) == (0, 2, 0.5, "ESE")


def test_positions_of_sentences():
    two = Document.from_sentences([GOLD, PREDICTED], id="two")
    one = Document.from_sentences([GOLD])
    found = analyse([two, one], [two, one], schema=SCHEMA).sentences
    assert [(s.document_id, s.document, s.sentence) for s in found] == [("two", 0, 0), ("two", 0, 1), ("", 1, 0)]


def test_to_dict_is_plain_json_and_names_its_protocol():
    record = analysed(about={"model": "m"}).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["format_version"] == 1
    assert record["about"] == {"model": "m"}
    assert record["protocol"] == {"symmetric": "directed", "entities": "predicted", "condition": "end to end"}
    assert record["data"] == {"n_documents": 1, "n_sentences": 1, "n_words": 5, "n_entities": 2, "n_relations": 1}
    assert record["scores"]["ner"]["micro"]["n_predicted"] == 3
    assert record["in_triples"]["in_triple"]["n_predicted"] == 3
    assert record["calibration"]["relations"]["n"] == 2
    assert record["confusion"]["relations"]["rows"][0][1] == 1
    assert [b["name"] for b in record["breakdowns"]] == [
        "sentence_length", "brackets", "entity_length", "argument_distance", "nesting",
    ]  # fmt: skip


def test_training_documents_add_a_breakdown():
    gold, _ = documents([(GOLD, GOLD)])
    record = analysed(training_documents=gold).to_dict()
    assert record["breakdowns"][-1]["name"] == "entity_text"
    assert record["breakdowns"][-1]["tasks"]["ner"][0]["n_gold"] == 2


def test_with_gold_entities_there_are_no_figures_about_entities_alone():
    given = GOLD.annotated(GOLD.entities, [Triple(A, "Other", B, 0.7)])
    record = analysed([(GOLD, given)], entities="gold").to_dict()
    assert record["protocol"] == {"symmetric": "directed", "entities": "gold", "condition": "with gold entities"}
    assert set(record["scores"]) == {"symmetric", "re_boundaries", "re_strict"}
    assert record["in_triples"] is None
    assert record["entity_errors"] is None
    assert record["calibration"]["entities"] is None
    assert record["confusion"]["entities"] is None
    assert all("ner" not in breakdown["tasks"] for breakdown in record["breakdowns"])
    assert record["relation_errors"]["n_errors"] == 2


@pytest.mark.parametrize(
    ("option", "value", "near"), [("entities", "golden", "gold"), ("symmetric", "doubld", "doubled")]
)
def test_unknown_choices(option, value, near):
    with pytest.raises(ConfigError, match=f"{option}.*'{value}'.*'{near}'"):
        analysed(**{option: value})


@some
@given(any_pairs, policies)
def test_the_parts_agree_with_the_scores_and_with_the_sentences(pairs, symmetric):
    found = analysed(pairs, symmetric=symmetric)
    gold, predicted = documents(pairs)
    assert found.scores == score_documents(gold, predicted, schema=SCHEMA, symmetric=symmetric)
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    listed = Counter(kind for sentence in found.sentences for kind in sentence.entity_kinds)
    assert listed == Counter({k["kind"]: k["n"] for k in record["entity_errors"]["kinds"] if k["n"]})
    listed = Counter(kind for sentence in found.sentences for kind in sentence.relation_kinds)
    if symmetric == "directed":
        assert listed == Counter({k["kind"]: k["n"] for k in record["relation_errors"]["kinds"] if k["n"]})
    else:  # one relation can count as two items, and two relations as one
        assert set(listed) == {k["kind"] for k in record["relation_errors"]["kinds"] if k["n"]}
