import json

import pytest

from cascade_srn.errors import SchemaError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SCHEMA = Schema(("Method", "Task"), ("compare", "used-for"), frozenset({"compare"}))
A, B = Span(0, 1, "Task"), Span(1, 2, "Method")
SENTENCE = Sentence.from_words(["a", "b"], [A, B], [Triple(A, "used-for", B)])


def test_labels_are_learned_in_alphabetical_order():
    other = SENTENCE.annotated([A, B], [Triple(B, "compare", A)])
    documents = [Document.from_sentences([SENTENCE, other]), Document.from_words([["c"]])]
    assert Schema.from_documents(iter(documents), symmetric=["compare"]) == SCHEMA


def test_documents_without_entities_give_no_schema():
    with pytest.raises(SchemaError):
        Schema.from_documents([Document.from_words([["a"]])])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"entity_types": ()}, "entity type"),
        ({"entity_types": ("A", "")}, "entity type ''"),
        ({"entity_types": ("A", " \t")}, r"entity type ' \\t'"),
        ({"entity_types": ("A", 3)}, "entity type 3"),
        ({"relation_types": (None,)}, "relation type None"),
        ({"entity_types": ("A", "B", "A")}, r"entity types \['A'\]"),
        ({"relation_types": ("r", "r")}, r"relation types \['r'\]"),
        ({"relation_types": ("compare",), "symmetric": frozenset({"compere"})}, "'compere'.* 'compare'"),
        ({"symmetric": frozenset({"x"})}, "'x'"),
    ],
)
def test_invalid_label_sets_are_refused(given, named):
    with pytest.raises(SchemaError, match=named):
        Schema(**{"entity_types": ("A",), **given})


def test_one_name_may_be_an_entity_type_and_a_relation_type():
    assert Schema(("A",), ("A",)).relation_types == ("A",)


def test_check_names_the_sentence_and_the_unknown_label():
    SCHEMA.check(SENTENCE, "sentence 1")
    with pytest.raises(SchemaError, match=r"^s 4 of d\b.*'Tasc'.* 'Task'"):
        SCHEMA.check(SENTENCE.annotated([Span(0, 1, "Tasc")], []), "s 4 of d")
    with pytest.raises(SchemaError, match=r"^here\b.*'zzz'.* compare, used-for"):
        SCHEMA.check(SENTENCE.annotated([A, B], [Triple(A, "zzz", B)]), "here")


@pytest.mark.parametrize(
    ("other", "phrases"),
    [
        (SCHEMA, []),
        (
            Schema(("Metric", "Task"), ("compare", "used-for"), frozenset({"compare"})),
            ["entity types ['Method'] are missing", "entity types ['Metric'] are new"],
        ),
        (
            Schema(("Task", "Method"), ("compare", "used-for"), frozenset({"compare"})),
            ["entity types are in another order"],
        ),
        (
            Schema(("Method", "Task"), ("used-for",)),
            ["relation types ['compare'] are missing", "symmetric relations are [], not ['compare']"],
        ),
        (
            Schema(("Method", "Task"), ("used-for", "compare"), frozenset({"compare"})),
            ["relation types are in another order"],
        ),
    ],
)
def test_differences(other, phrases):
    assert SCHEMA.differences(other) == phrases
    assert (other == SCHEMA) == (not phrases)


def test_plain_values_make_the_round_trip_through_json():
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    assert Schema.from_dict({"entity_types": ["B", "A"]}) == Schema(("B", "A"))  # in the order given


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"entity_type": ["A"]}, "'entity_type'.* 'entity_types'"),
        ([], r"\[\]"),
        ({1: ["A"]}, "1.* entity_types, relation_types, symmetric"),
        ({"entity_types": "A"}, "'entity_types'.* 'A'"),
        ({"entity_types": ["A"], "symmetric": {"r": 1}}, r"'symmetric'.* \{'r': 1\}"),
        ({"entity_types": ["A", 1]}, r"'entity_types'.* \['A', 1\]"),
    ],
)
def test_invalid_plain_values_are_refused(record, named):
    with pytest.raises(SchemaError, match=named):
        Schema.from_dict(record)
