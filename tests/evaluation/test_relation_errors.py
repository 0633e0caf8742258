"""The six kinds of relation errors: by hand, and exactly one kind for each error."""

import json
from collections import Counter

import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, aligned, any_pairs, policies, some

from cascade_srn.evaluation import score
from cascade_srn.evaluation.errors import RELATION_KINDS, RelationError, count_relation_errors, find_relation_errors
from cascade_srn.evaluation.items import relation_items
from cascade_srn.types import Sentence, Span, Triple

CRF, HMM, NER, LONE = Span(0, 2, "A"), Span(3, 4, "A"), Span(5, 8, "B"), Span(9, 10, "A")
WORDS = tuple(f"w{i}" for i in range(12))
GOLD = Sentence.from_words(WORDS, [CRF, HMM, NER, LONE], [Triple(CRF, "Directed", NER), Triple(CRF, "Same", HMM)])
ALL = GOLD.entities


def kinds(entities, triples, *, gold=GOLD, symmetric="directed"):
    """The kinds of wrong predictions, then those of missed gold relations, by relation."""
    found = find_relation_errors(gold, gold.annotated(entities, triples), schema=SCHEMA, symmetric=symmetric)
    return [{(i.head, i.label, i.tail): e for i, e in found[side].items()} for side in ("predicted", "gold")]


def only(side):
    (error,) = side.values()
    return error


@pytest.mark.parametrize(
    ("head", "label", "tail", "error"),
    [
        (CRF, "Other", NER, RelationError("RTE", ("Directed",))),
        (HMM, "Directed", NER, RelationError("RME")),
        (LONE, "Directed", NER, RelationError("RME")),
        (NER, "Directed", CRF, RelationError("RME", (), reversed=True)),
        (NER, "Other", CRF, RelationError("RME")),
        (CRF, "Directed", Span(5, 7, "B"), RelationError("ESE")),
        (CRF, "Directed", Span(10, 11, "B"), RelationError("ESE")),
        (Span(1, 2, "A"), "Directed", NER, RelationError("ESE")),
        (CRF, "Directed", Span(5, 8, "A"), RelationError("ETE")),
        (Span(0, 2, "B"), "Directed", NER, RelationError("ETE")),
        # Words go before types, and entities before relations.
        (Span(0, 2, "B"), "Directed", Span(5, 7, "B"), RelationError("ESE")),
        (Span(0, 2, "B"), "Other", NER, RelationError("ETE")),
        (Span(0, 1, "A"), "Other", NER, RelationError("ESE")),
    ],
)
def test_wrong_predictions(head, label, tail, error):
    wrong, missed = kinds(list(dict.fromkeys([*ALL, head, tail])), [*GOLD.triples, Triple(head, label, tail)])
    assert only(wrong) == error
    assert missed == {}


def test_of_two_gold_types_on_the_same_words_both_are_gold_entities():
    both = GOLD.annotated([*ALL, Span(5, 8, "A")], GOLD.triples)
    found = kinds(both.entities, [*GOLD.triples, Triple(CRF, "Directed", Span(5, 8, "A"))], gold=both)
    assert only(found[0]).kind == "RME"


class TestMissedRelations:
    def missed(self, entities, triples=()):
        return kinds(entities, [*triples, GOLD.triples[1]] if HMM in entities and CRF in entities else triples)[1]

    def test_both_entities_were_found(self):
        assert self.missed(ALL) == {(CRF, "Directed", NER): RelationError("RNF")}

    @pytest.mark.parametrize("found", [[CRF, HMM], [CRF, HMM, Span(5, 7, "B")], [CRF, HMM, Span(5, 8, "A")]])
    def test_the_object_was_not_found_with_words_and_type(self, found):
        assert self.missed(found) == {(CRF, "Directed", NER): RelationError("ENF")}

    def test_the_subject_was_not_found(self):
        assert {error.kind for error in self.missed([HMM, NER]).values()} == {"ENF"}

    def test_nothing_was_found(self):
        assert [error.kind for error in self.missed([]).values()] == ["ENF", "ENF"]

    def test_the_counterpart_of_a_relation_type_error(self):
        wrong, missed = kinds(ALL, [GOLD.triples[1], Triple(CRF, "Other", NER)])
        assert only(wrong) == RelationError("RTE", ("Directed",))
        assert only(missed) == RelationError("RNF", ("Other",))

    def test_the_counterpart_of_an_exchange(self):
        wrong, missed = kinds(ALL, [GOLD.triples[1], Triple(NER, "Directed", CRF)])
        assert (only(wrong).kind, only(missed).kind) == ("RME", "RNF")
        assert only(wrong).reversed
        assert only(missed).reversed


class TestPolicies:
    FLIPPED = (GOLD.triples[0], Triple(HMM, "Same", CRF))

    def test_a_symmetric_relation_the_other_way_round(self):
        wrong, missed = kinds(ALL, self.FLIPPED)
        assert only(wrong) == RelationError("RME", (), reversed=True)
        assert only(missed) == RelationError("RNF", (), reversed=True)

    @pytest.mark.parametrize("symmetric", ["canonical", "doubled"])
    def test_is_no_error_where_it_has_no_direction(self, symmetric):
        assert kinds(ALL, self.FLIPPED, symmetric=symmetric) == [{}, {}]

    @pytest.mark.parametrize(("symmetric", "kind"), [("directed", "RME"), ("canonical", "RTE"), ("doubled", "RTE")])
    def test_only_the_type_is_wrong_where_gold_has_no_direction(self, symmetric, kind):
        wrong, _ = kinds(ALL, [GOLD.triples[0], Triple(HMM, "Directed", CRF)], symmetric=symmetric)
        assert wrong[HMM, "Directed", CRF].kind == kind

    @pytest.mark.parametrize(("symmetric", "kind"), [("directed", "RME"), ("canonical", "RTE"), ("doubled", "RTE")])
    def test_only_the_type_is_wrong_where_the_prediction_has_no_direction(self, symmetric, kind):
        wrong, _ = kinds(ALL, [*GOLD.triples, Triple(NER, "Same", CRF)], symmetric=symmetric)
        assert {error.kind for error in wrong.values()} == {kind}
        assert len(wrong) == (2 if symmetric == "doubled" else 1)

    @pytest.mark.parametrize("symmetric", ["directed", "canonical", "doubled"])
    def test_a_directed_relation_keeps_its_direction(self, symmetric):
        wrong, _ = kinds(ALL, [*GOLD.triples, Triple(NER, "Other", CRF)], symmetric=symmetric)
        assert only(wrong).kind == "RME"


def test_counts():
    predicted = GOLD.annotated(ALL, [Triple(CRF, "Other", NER), Triple(HMM, "Other", NER)])
    record = count_relation_errors(aligned([(GOLD, predicted)]), schema=SCHEMA).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["protocol"] == "re_strict, directed"
    assert (record["n_errors"], record["n_wrong"], record["n_missed"]) == (4, 2, 2)
    found = {kind["kind"]: kind for kind in record["kinds"]}
    assert {name: kind["n"] for name, kind in found.items()} == {
        "RTE": 1, "RME": 1, "ETE": 0, "ESE": 0, "RNF": 2, "ENF": 0,
    }  # fmt: skip
    assert found["RNF"]["per_label"] == {"Directed": 1, "Other": 0, "Same": 1}
    assert found["RNF"]["share"] == 0.5


def _literal_kind(item, gold, predicted, schema, symmetric):
    """Return all kinds whose definition applies, as the documentation has them."""
    gold_items = relation_items(gold, schema, symmetric)
    if item in gold_items:
        found = [argument in predicted.entities for argument in (item.head, item.tail)]
        return ["ENF"] * (not all(found)) + ["RNF"] * all(found)
    words = [any((e.start, e.end) == (a.start, a.end) for e in gold.entities) for a in (item.head, item.tail)]
    typed = [any(e == a for e in gold.entities) for a in (item.head, item.tail)]
    related = False
    for other in gold_items:
        if (other.head, other.tail) == (item.head, item.tail):
            related = True
        elif symmetric != "directed" and (other.tail, other.head) == (item.head, item.tail):
            related |= other.label in schema.symmetric or item.label in schema.symmetric
    return [
        *["ESE"] * (not all(words)),
        *["ETE"] * (all(words) and not all(typed)),
        *["RTE"] * (all(words) and all(typed) and related),
        *["RME"] * (all(words) and all(typed) and not related),
    ]


@some
@given(any_pairs, policies)
def test_each_error_has_exactly_one_kind(pairs, symmetric):
    options = {"schema": SCHEMA, "symmetric": symmetric}
    counts = Counter()
    for gold, predicted in pairs:
        found = find_relation_errors(gold, predicted, **options)
        known, guessed = (relation_items(s, **options) for s in (gold, predicted))
        assert set(found["predicted"]) == guessed - known
        assert set(found["gold"]) == known - guessed
        for side in found.values():
            for item, error in side.items():
                assert [error.kind] == _literal_kind(item, gold, predicted, SCHEMA, symmetric)
                counts[error.kind] += 1
    whole = score([a for a, _ in pairs], [b for _, b in pairs], **options).re_strict.counts
    errors = count_relation_errors(aligned(pairs), **options)
    assert {kind.kind: errors.n(kind.kind) for kind in RELATION_KINDS} == {
        k.kind: counts[k.kind] for k in RELATION_KINDS
    }
    assert errors.count_side("predicted") == whole.n_predicted - whole.n_correct
    assert errors.count_side("gold") == whole.n_gold - whole.n_correct
