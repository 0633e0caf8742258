import pytest
from tests.small_models import SCHEMA

from cascade_srn import Document, Schema, Span
from cascade_srn.apps.integrations.graphs import map_labels, merge_mentions, plain_label
from cascade_srn.errors import ConfigError, SchemaError

NAMES = map_labels(SCHEMA, None)


@pytest.mark.parametrize(
    ("label", "plain"), [("USED-FOR", "USED_FOR"), ("3 D", "_3_D"), ("Aufgabe für", "Aufgabe_für"), ("`x`", "_x_")]
)
def test_plain_labels(label, plain):
    assert plain_label(label) == plain


def test_labels_have_names():
    assert NAMES["part-of"] == "part_of"
    assert map_labels(SCHEMA, {"part-of": "CONTAINS", "used-for": "CONTAINS"})["used-for"] == "CONTAINS"


def test_unknown_label_is_refused():
    with pytest.raises(SchemaError, match="part-of"):
        map_labels(SCHEMA, {"part-off": "X"})


def test_names_that_clash_are_refused():
    schema = Schema(("A B", "A-B"))
    with pytest.raises(ConfigError, match="A_B"):
        map_labels(schema, None)
    assert map_labels(schema, {"A B": "AB"}) == {"A B": "AB", "A-B": "A_B"}
    assert set(map_labels(schema, {"A B": "AB", "A-B": "AB"}).values()) == {"AB"}


@pytest.mark.parametrize("name", ["", " ", 3])
def test_blank_names_are_refused(name):
    with pytest.raises(ConfigError):
        map_labels(SCHEMA, {"Task": name})


def test_mentions_with_one_name_are_one_entity(given):
    given.entities = {"tagger": ("Thing", 0.4), "parsing": ("Task", 0.8)}
    document = given("A tagger helps parsing. The tagger does parsing.")
    entities, relations = merge_mentions(document, NAMES)
    assert [(e.name, e.label) for e in entities] == [("tagger", "Thing"), ("parsing", "Task")]
    assert entities[0].properties() == {"starts": [2, 28], "ends": [8, 34], "score": 0.4}
    (relation,) = relations
    assert (relation.head, relation.label, relation.tail) == (entities[0], "used_for", entities[1])
    assert relation.properties() == {
        "sentence": "A tagger helps parsing.", "head_start": 2, "head_end": 8, "tail_start": 15,
        "tail_end": 22, "n_mentions": 2, "status": "asserted", "score": 0.7,
    }  # fmt: skip


def test_the_best_mention_decides_the_label_of_a_name(given):
    document = given("A tagger here. A tagger there.")
    first, second = document.sentences
    document = Document(document.text, (first.annotated([Span(1, 2, "Metric", 0.95)], []), second))
    (entity,), _ = merge_mentions(document, NAMES, by_name=True)
    assert (entity.label, len(entity.mentions)) == ("Metric", 2)
    assert len(merge_mentions(document, NAMES)[0]) == 2
