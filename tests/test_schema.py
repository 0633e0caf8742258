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
    with pytest.raises(SchemaError, match=r"a schema needs at least one entity type; none was given or found"):
        Schema.from_documents([Document.from_words([["a"]])])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"entity_types": ()}, r"a schema needs at least one entity type"),
        ({"entity_types": ("A", "")}, r"the entity type '' is not a name; give a string that is not blank"),
        ({"entity_types": ("A", " \t")}, r"the entity type ' \\t' is not a name"),
        ({"entity_types": ("A", 3)}, r"the entity type 3 is not a name"),
        ({"relation_types": (None,)}, r"the relation type None is not a name"),
        ({"entity_types": ("A", "B", "A")}, r"the entity types \['A'\] are given twice; name each type once"),
        ({"relation_types": ("r", "r")}, r"the relation types \['r'\] are given twice"),
        (
            {"relation_types": ("compare",), "symmetric": frozenset({"compere"})},
            r"'compere' is declared symmetric but is no relation type\. Did you mean 'compare'\?",
        ),
        ({"symmetric": frozenset({"x"})}, r"'x' is declared symmetric but is no relation type\. Known: none\."),
    ],
)
def test_what_is_no_label_set_is_refused(given, message):
    with pytest.raises(SchemaError, match=message):
        Schema(**{"entity_types": ("A",), **given})


def test_one_name_may_be_an_entity_type_and_a_relation_type():
    assert Schema(("A",), ("A",)).relation_types == ("A",)


def test_check_accepts_what_the_schema_holds():
    SCHEMA.check(SENTENCE, "sentence 1")


def test_check_names_the_place_the_label_and_the_nearest_known_one():
    entity = Span(0, 1, "Tasc")
    with pytest.raises(SchemaError, match=r"^s 4 of d has an entity of type 'Tasc', .* Did you mean 'Task'\?$"):
        SCHEMA.check(SENTENCE.annotated([entity], []), "s 4 of d")
    odd = SENTENCE.annotated([A, B], [Triple(A, "zzz", B)])
    with pytest.raises(SchemaError, match=r"^here has a relation of type 'zzz', .* Known: compare, used-for\.$"):
        SCHEMA.check(odd, "here")


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
            ["entity types stand in another order"],
        ),
        (
            Schema(("Method", "Task"), ("used-for",)),
            ["relation types ['compare'] are missing", "symmetric relations are [], not ['compare']"],
        ),
        (
            Schema(("Method", "Task"), ("used-for", "compare"), frozenset({"compare"})),
            ["relation types stand in another order"],
        ),
    ],
)
def test_differences_are_said_in_phrases(other, phrases):
    assert SCHEMA.differences(other) == phrases
    assert (other == SCHEMA) == (not phrases)


def test_plain_values_make_the_round_trip_through_json():
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    assert Schema.from_dict({"entity_types": ["B", "A"]}) == Schema(("B", "A"))  # in the order given


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"entity_type": ["A"]}, r"the schema has an unknown key 'entity_type'\. Did you mean 'entity_types'\?"),
        ([], r"the schema is \[\]; give a mapping with entity_types and relation_types"),
        ({1: ["A"]}, r"the schema has an unknown key 1\. Known: entity_types, relation_types, symmetric\."),
        ({"entity_types": "A"}, r"the schema's 'entity_types' is 'A'; give a list of names"),
        ({"entity_types": ["A"], "symmetric": {"r": 1}}, r"the schema's 'symmetric' is \{'r': 1\}; give a list"),
        ({"entity_types": ["A", 1]}, r"the schema's 'entity_types' is \['A', 1\]; give a list of names"),
    ],
)
def test_plain_values_that_are_no_schema_are_refused(record, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(record)
