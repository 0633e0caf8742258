"""Constraints of relation types in a schema: declared, learned, stored."""

import json

import pytest

from cascade_srn import Document, Sentence, Span, Triple
from cascade_srn.errors import SchemaError
from cascade_srn.formats.registry import read_schema
from cascade_srn.formats.schema_file import write_schema
from cascade_srn.schema import EXAMPLES_PER_COUNT, RelationConstraints, Schema

LABELS = {"entity_types": ["Method", "Task"], "relation_types": ["compare", "has-part", "part-of", "used-for"]}
SCHEMA = Schema(*map(tuple, LABELS.values()), frozenset({"compare"}))


def with_constraints(**constraints):
    return Schema.from_dict({**LABELS, "symmetric": ["compare"], "constraints": constraints})


@pytest.mark.parametrize(
    ("constraints", "named"),
    [
        ({"part-off": {}}, "'part-off'.* 'part-of'"),
        ({"part-of": {"heads": ["Metod"]}}, "'Metod'.* 'Method'"),
        ({"part-of": {"tails": ["x"]}}, "'x'"),
        ({"part-of": {"pairs": [["Method", "Tusk"]]}}, "'Tusk'.* 'Task'"),
        ({"part-of": {"pairs": [["Method"]]}}, "pairs"),
        ({"part-of": {"pairs": "Method"}}, "pairs"),
        ({"part-of": {"acyclic": "yes"}}, "acyclic"),
        ({"part-of": {"cyclic": True}}, "'cyclic'.* 'acyclic'"),
        ({"part-of": ["Method"]}, "part-of"),
        ({"part-of": {"inverse": "has-parts"}}, "'has-parts'.* 'has-part'"),
        ({"part-of": {"inverse": "part-of"}}, "own inverse"),
        ({"part-of": {"inverse": "compare"}}, "'compare' is symmetric"),
        ({"compare": {"acyclic": True}}, "symmetric"),
        ({"part-of": {"inverse": "has-part"}, "has-part": {"inverse": "used-for"}}, "'used-for'|'part-of'"),
        ({"part-of": {"inverse": "has-part"}, "used-for": {"inverse": "has-part"}}, "'used-for'|'part-of'"),
    ],
)
def test_invalid_constraints_are_refused(constraints, named):
    with pytest.raises(SchemaError, match=named):
        with_constraints(**constraints)


def test_an_inverse_is_mutual_and_shares_acyclicity():
    one = with_constraints(**{"part-of": {"inverse": "has-part", "acyclic": True}})
    both = with_constraints(**{"part-of": {"inverse": "has-part"}, "has-part": {"inverse": "part-of", "acyclic": True}})
    for schema in (one, both):
        assert schema.inverses == {"part-of": "has-part", "has-part": "part-of"}
        assert schema.acyclic == {"part-of", "has-part"}


def test_pairs_heads_and_tails_restrict_together():
    schema = with_constraints(**{"part-of": {"heads": ["Method"], "pairs": [["Method", "Task"], ["Task", "Task"]]}})
    allowed = [(h, t) for h in ("Method", "Task") for t in ("Method", "Task") if schema.allows(h, "part-of", t)]
    assert allowed == [("Method", "Task")]


def test_files_keep_constraints(tmp_path):
    constraints = {
        "compare": {"pairs": [["Method", "Method"]]},
        "part-of": {"heads": ["Method"], "inverse": "has-part", "acyclic": True},
        "used-for": {"exclusive": False},
    }
    schema = with_constraints(**constraints)
    assert schema.to_dict()["constraints"] == constraints
    write_schema(schema, tmp_path / "schema.json")
    assert read_schema(tmp_path / "schema.json").constraints == schema.constraints
    write_schema(schema, tmp_path / "types.json", form="types")
    assert read_schema(tmp_path / "types.json").constraints == {}
    (tmp_path / "bad.json").write_text(json.dumps({**LABELS, "constraints": {"x": {}}}), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"bad\.json: .*'x'"):
        read_schema(tmp_path / "bad.json")


def test_without_constraints_the_file_is_that_of_older_releases():
    assert SCHEMA.to_dict().keys() == {"entity_types", "relation_types", "symmetric"}


def test_schemas_are_compared_by_labels():
    constrained = with_constraints(**{"part-of": {"acyclic": True}})
    assert constrained == SCHEMA
    assert SCHEMA.differences(constrained) == []


def document(relation, head, tail, count):
    """Return a document with a number of relations between two types."""
    one, other = Span(0, 1, head), Span(1, 2, tail)
    sentence = Sentence.from_words(["a", "b"], [one, other], [Triple(one, relation, other)] * 2)
    return Document.from_sentences([sentence] * count)


class TestLearning:
    def test_frequent_pairs_are_allowed(self):
        documents = [
            document("part-of", "Method", "Method", 27),
            document("part-of", "Method", "Task", 3),
            document("part-of", "Task", "Task", 2),
        ]
        learned = SCHEMA.learn_constraints(documents, 3)
        # A relation that a sentence repeats counts once, as in the scores.
        pairs = ("Method", "Method"), ("Method", "Task")
        assert learned.constraints == {"part-of": RelationConstraints(pairs=pairs, exclusive=True)}
        assert not learned.allows("Task", "part-of", "Task")
        assert SCHEMA.learn_constraints(documents, 2).allows("Task", "part-of", "Task")

    def test_directions_of_a_symmetric_relation_count_together(self):
        documents = [document("compare", "Method", "Task", 2), document("compare", "Task", "Method", 1)]
        documents.append(document("compare", "Task", "Task", 30))
        learned = SCHEMA.learn_constraints(documents, 3)
        assert learned.constraints["compare"].pairs == (("Method", "Task"), ("Task", "Task"))
        assert learned.allows("Task", "compare", "Method")
        assert not learned.allows("Method", "compare", "Method")

    def test_rare_relation_types_stay_unrestricted(self):
        enough = EXAMPLES_PER_COUNT * 3
        assert SCHEMA.learn_constraints([document("part-of", "Method", "Task", enough - 1)], 3).constraints == {}
        learned = SCHEMA.learn_constraints([document("part-of", "Method", "Task", enough)], 3)
        assert learned.constraints.keys() == {"part-of"}

    def test_declared_types_take_precedence(self):
        declared = with_constraints(
            **{"part-of": {"tails": ["Task"], "exclusive": False}, "used-for": {"acyclic": True}}
        )
        documents = [document(relation, "Method", "Method", 50) for relation in ("part-of", "used-for")]
        learned = declared.learn_constraints(documents)
        assert learned.constraints["part-of"] == declared.constraints["part-of"]
        expected = RelationConstraints(pairs=(("Method", "Method"),), acyclic=True, exclusive=True)
        assert learned.constraints["used-for"] == expected

    @pytest.mark.parametrize(
        "second", [Triple(Span(0, 1, "Task"), "used-for", Span(1, 2, "Task")), None], ids=["other label", "reverse"]
    )
    def test_types_that_share_pairs_in_the_data_are_not_exclusive(self, second):
        one, other = Span(0, 1, "Task"), Span(1, 2, "Task")
        triples = [Triple(one, "part-of", other), second or Triple(other, "part-of", one)]
        shared = Document.from_sentences([Sentence.from_words(["a", "b"], [one, other], triples)])
        rare = [document("part-of", "Method", "Task", 500), document("used-for", "Method", "Task", 500), shared]
        assert SCHEMA.learn_constraints(rare).exclusive == {"part-of", "used-for"}
        often = [*rare, *[shared] * 10]
        assert "part-of" not in SCHEMA.learn_constraints(often).exclusive

    def test_both_directions_of_a_symmetric_relation_are_one_relation(self):
        one, other = Span(0, 1, "Task"), Span(1, 2, "Task")
        triples = [Triple(one, "compare", other), Triple(other, "compare", one)]
        both = Document.from_sentences([Sentence.from_words(["a", "b"], [one, other], triples)] * 30)
        assert SCHEMA.learn_constraints([both]).exclusive == {"compare"}

    def test_again_replaces_pairs(self):
        first = SCHEMA.learn_constraints([document("part-of", "Method", "Method", 50)])
        other = [document("part-of", "Task", "Task", 50)]
        assert first.learn_constraints(other).constraints == first.constraints
        assert first.learn_constraints(other, again=True).constraints["part-of"].pairs == (("Task", "Task"),)
