import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import SCHEMA as SMALL_SCHEMA
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn import Extractor
from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.inference.constraints import KINDS, find_inverse, find_violations
from cascade_srn.schema import RelationConstraints, Schema
from cascade_srn.types import Span, Triple

SCHEMA = Schema(
    ("Method", "Task"),
    ("compare", "has-part", "is-a", "part-of", "used-for"),
    frozenset({"compare"}),
    {
        "compare": RelationConstraints(pairs=(("Method", "Method"), ("Method", "Task"))),
        "used-for": RelationConstraints(heads=("Method",), tails=("Task",)),
        "part-of": RelationConstraints(inverse="has-part", acyclic=True),
        "is-a": RelationConstraints(acyclic=True),
    },
)
A, B, C, D = (Span(i, i + 1, "Method") for i in range(4))
T, U = Span(4, 5, "Task"), Span(5, 6, "Task")


def kinds(*triples):
    return find_violations(triples, SCHEMA).dropped


class TestTypes:
    def test_heads_and_tails(self):
        assert kinds(Triple(A, "used-for", T)) == {}
        assert kinds(Triple(A, "used-for", B), Triple(T, "used-for", U)) == {
            Triple(A, "used-for", B): "types",
            Triple(T, "used-for", U): "types",
        }

    def test_a_symmetric_relation_may_have_a_pair_in_either_order(self):
        assert kinds(Triple(T, "compare", A)) == {}
        assert kinds(Triple(T, "compare", U)) == {Triple(T, "compare", U): "types"}


class TestSymmetric:
    def test_the_better_direction_is_kept(self):
        weak, strong = Triple(A, "compare", B, 0.4), Triple(B, "compare", A, 0.6)
        assert kinds(weak, strong) == {weak: "directions"}
        assert kinds(strong) == {}

    def test_of_equal_scores_the_first_by_position_is_kept(self):
        assert kinds(Triple(B, "compare", A), Triple(A, "compare", B)) == {Triple(B, "compare", A): "directions"}

    def test_a_relation_of_an_entity_with_itself_is_one_relation(self):
        assert kinds(Triple(A, "compare", A)) == {}


class TestExclusive:
    SCHEMA = Schema(
        ("Method",),
        ("compare", "has-part", "part-of", "role", "place", "used-for"),
        frozenset({"compare"}),
        {name: RelationConstraints(exclusive=True) for name in ("compare", "used-for")}
        | {"part-of": RelationConstraints(exclusive=True, inverse="has-part")},
    )

    def dropped(self, *triples):
        return find_violations(triples, self.SCHEMA).dropped

    def test_the_better_label_of_a_pair_is_kept(self):
        weak, strong = Triple(A, "role", B, 0.4), Triple(A, "used-for", B, 0.6)
        assert self.dropped(weak, strong) == {weak: "contradictions"}

    def test_the_better_direction_is_kept(self):
        weak, strong = Triple(A, "used-for", B, 0.4), Triple(B, "used-for", A, 0.6)
        assert self.dropped(weak, strong) == {weak: "contradictions"}

    def test_types_that_are_not_exclusive_share_a_pair(self):
        assert self.dropped(Triple(A, "role", B), Triple(A, "place", B), Triple(B, "role", A)) == {}

    def test_another_label_in_the_opposite_direction_is_not_excluded(self):
        assert self.dropped(Triple(A, "used-for", B), Triple(B, "part-of", A)) == {}

    def test_a_symmetric_relation_has_both_directions(self):
        weak, strong = Triple(A, "used-for", B, 0.4), Triple(B, "compare", A, 0.6)
        assert self.dropped(weak, strong) == {weak: "contradictions"}

    def test_an_inverse_is_not_excluded(self):
        assert self.dropped(Triple(A, "part-of", B), Triple(B, "has-part", A)) == {}
        assert self.dropped(Triple(A, "part-of", B, 0.9), Triple(A, "has-part", B, 0.8)) == {
            Triple(A, "has-part", B): "contradictions"
        }

    def test_a_symmetric_relation_in_both_directions_is_counted_as_such(self):
        assert self.dropped(Triple(A, "compare", B), Triple(B, "compare", A)) == {Triple(B, "compare", A): "directions"}


class TestAcyclic:
    def test_the_weakest_relation_of_a_cycle_is_dropped(self):
        circle = [Triple(A, "is-a", B, 0.9), Triple(B, "is-a", C, 0.3), Triple(C, "is-a", A, 0.5)]
        assert kinds(*circle) == {circle[1]: "cycles"}
        assert kinds(*circle[:2]) == {}

    def test_an_entity_cannot_have_an_acyclic_relation_to_itself(self):
        assert kinds(Triple(A, "is-a", A)) == {Triple(A, "is-a", A): "cycles"}

    def test_two_types_make_no_cycle_together(self):
        assert kinds(Triple(A, "is-a", B), Triple(B, "part-of", A)) == {}

    def test_a_cycle_through_the_inverse(self):
        weak, strong = Triple(A, "has-part", B, 0.2), Triple(A, "part-of", B, 0.6)
        found = find_violations([weak, strong], SCHEMA)
        assert found.dropped == {weak: "cycles"}
        assert found.missing == (Triple(B, "has-part", A),)

    @given(st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.floats(0.01, 1), max_size=14))
    def test_every_dropped_relation_is_the_weakest_of_a_cycle(self, edges):
        nodes = [Span(i, i + 1, "Method") for i in range(5)]
        triples = [Triple(nodes[i], "is-a", nodes[j], score) for (i, j), score in edges.items()]
        dropped = find_violations(triples, SCHEMA).dropped
        kept = {t for t in triples if t not in dropped}
        assert not any(reaches(kept, node, node) for node in nodes)
        for triple in dropped:
            stronger = {t for t in kept if t.score >= triple.score}
            assert triple.head == triple.tail or reaches(stronger, triple.tail, triple.head)


def reaches(triples, start, end):
    """Return whether a path of one or more relations leads from one entity to another."""
    found, todo = set(), [start]
    while todo:
        here = todo.pop()
        for triple in triples:
            if triple.head == here and triple.tail not in found:
                found.add(triple.tail)
                todo.append(triple.tail)
    return end in found


class TestInverse:
    def test_a_missing_inverse_has_the_same_score(self):
        (found,) = find_violations([Triple(A, "part-of", B, 0.7)], SCHEMA).missing
        assert (found, found.score) == (Triple(B, "has-part", A), 0.7)
        (back,) = find_violations([Triple(B, "has-part", A, 0.7)], SCHEMA).missing
        assert back == Triple(A, "part-of", B)

    def test_an_inverse_whose_types_are_not_allowed_is_not_added(self):
        constraints = {"r": RelationConstraints(inverse="s"), "s": RelationConstraints(heads=("Task",))}
        schema = Schema(("Method", "Task"), ("r", "s"), constraints=constraints)
        assert find_violations([Triple(A, "r", B)], schema).missing == ()
        assert find_violations([Triple(A, "r", T)], schema).missing == (Triple(T, "s", A),)


def test_counts_name_every_kind():
    triples = [Triple(A, "used-for", B), Triple(A, "is-a", A), Triple(A, "part-of", B)]
    triples += [Triple(A, "compare", B), Triple(B, "compare", A)]
    expected = {"types": 1, "directions": 1, "contradictions": 0, "cycles": 1, "inverses": 1}
    assert find_violations(triples, SCHEMA).count() == expected
    assert list(find_violations([], SCHEMA).count()) == list(KINDS)


RELATED = Schema(
    SMALL_SCHEMA.entity_types,
    SMALL_SCHEMA.relation_types,
    SMALL_SCHEMA.symmetric,
    {
        "compare": RelationConstraints(pairs=(("Task", "Task"), ("Metric", "Thing"))),
        "part-of": RelationConstraints(inverse="used-for", acyclic=True),
    },
)


@pytest.fixture(scope="module")
def model():
    return spread_probabilities(small_model("swift", schema=RELATED, thresholds=Thresholds(0.3, 0.2, 0.25)))


class TestPredictions:
    def test_off_is_the_default(self, model):
        assert Extractor(model).constraints == "off"
        found = [model.predictor(constraints=choice).predict(examples()) for choice in (None, "off")]
        assert found[0] == found[1]
        assert any(find_violations(sentence.triples, RELATED).dropped for sentence in found[0])

    def test_no_violations_are_left(self, model):
        before = model.predictor().predict_with_scores(examples())
        after = model.predictor(constraints="on").predict_with_scores(examples())
        n_added = 0
        for old, new in zip(before, after, strict=True):
            violations = find_violations(old.sentence.triples, RELATED)
            expected = {*old.sentence.triples} - violations.dropped.keys() | {*violations.missing}
            assert list(new.sentence.triples) == sorted(expected) == [scored.triple for scored in new.triples]
            assert new.sentence.entities == old.sentence.entities
            assert not any(find_violations(new.sentence.triples, RELATED).count().values())
            scores = {scored.triple: scored for scored in old.triples}
            for scored in new.triples:
                source = scores.get(scored.triple) or scores[find_inverse(scored.triple, RELATED)]
                assert (scored.subject, scored.object) == (source.subject, source.object)
                assert scored.triple.score == source.triple.score
            n_added += len(violations.missing)
        assert n_added

    def test_given_entities(self, model):
        found = model.predictor(constraints="on", thresholds=Thresholds(0, 0, 0)).predict(
            examples(), given_entities=True
        )
        assert [sentence.entities for sentence in found] == [sentence.entities for sentence in SENTENCES]
        assert not any(find_violations(s.triples, RELATED).dropped for s in found)

    def test_the_stored_choice_and_its_override(self, tmp_path):
        model = small_model("swift", schema=RELATED, constraints="on")
        model.save(tmp_path / "model")
        stored = Extractor.from_pretrained(tmp_path / "model")
        assert stored.constraints == stored.predictor().constraints == "on"
        assert stored.schema.constraints == RELATED.constraints
        assert Extractor.from_pretrained(tmp_path / "model", constraints="off").predictor().constraints == "off"

    def test_unknown_choices(self, model):
        with pytest.raises(ConfigError, match="constraints is 'yes'"):
            Extractor(model, constraints="yes")
        with pytest.raises(ConfigError, match="constraints is 'yes'"):
            model.predictor(constraints="yes")

    def test_nothing_to_apply(self):
        plain = Schema(SMALL_SCHEMA.entity_types, SMALL_SCHEMA.relation_types)
        with pytest.raises(ConfigError) as error:
            Extractor(small_model(schema=plain), constraints="on")
        assert error.value.option == "constraints"
