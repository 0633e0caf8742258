from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.strategies import N_WORDS, SCHEMA, pairs, policies, sentences, some

from cascade_srn.evaluation import SYMMETRIC_POLICIES, TASKS, score
from cascade_srn.schema import Schema
from cascade_srn.types import Span, Triple


def scored(pairs, symmetric):
    return score([gold for gold, _ in pairs], [other for _, other in pairs], schema=SCHEMA, symmetric=symmetric)


def tasks(scores):
    return [getattr(scores, name) for name in TASKS]


@some
@given(pairs(), policies)
def test_gold_as_prediction_is_perfect(pairs, symmetric):
    for task in tasks(scored([(gold, gold) for gold, _ in pairs], symmetric)):
        expected = 1.0 if task.counts.n_gold else 0.0
        figures = (task.counts.precision, task.counts.recall, task.counts.f1)
        macro = (task.macro_precision, task.macro_recall, task.macro_f1)
        assert {*figures, *macro} == {expected}


@some
@given(pairs(), policies)
def test_swapping_gold_and_prediction_swaps_precision_and_recall(pairs, symmetric):
    there = scored(pairs, symmetric)
    back = scored([(other, gold) for gold, other in pairs], symmetric)
    for one, two in zip(tasks(there), tasks(back), strict=True):
        assert (one.counts.precision, one.counts.recall) == (two.counts.recall, two.counts.precision)
        assert one.counts.f1 == two.counts.f1
        assert (one.macro_precision, one.macro_recall) == (two.macro_recall, two.macro_precision)


@some
@given(pairs(), policies, st.randoms(use_true_random=False))
def test_no_order_matters(pairs, symmetric, random):
    def shuffled(items):
        return random.sample(list(items), len(items))

    other = [tuple(s.annotated(shuffled(s.entities), shuffled(s.triples)) for s in pair) for pair in shuffled(pairs)]
    assert scored(other, symmetric) == scored(pairs, symmetric)


@some
@given(pairs(), policies)
def test_repeating_relations_changes_nothing(pairs, symmetric):
    repeated = [tuple(replace(s, triples=s.triples * 2) for s in pair) for pair in pairs]
    assert scored(repeated, symmetric) == scored(pairs, symmetric)


@some
@given(pairs(one_label_a_span=True), policies)
def test_strict_is_never_more_than_boundaries(pairs, symmetric):
    # Only where no two entities share all their words: those are one argument for boundaries, two for strict.
    scores = scored(pairs, symmetric)
    boundaries, strict = scores.re_boundaries.counts, scores.re_strict.counts
    assert strict.n_correct <= boundaries.n_correct
    assert (strict.n_gold, strict.n_predicted) == (boundaries.n_gold, boundaries.n_predicted)


@some
@given(sentences(), sentences(), policies, st.data())
def test_a_wrong_prediction_never_raises_precision(gold, predicted, symmetric, data):
    everything = [Span(a, b, t) for a in range(N_WORDS) for b in range(a + 1, N_WORDS + 1) for t in "AB"]
    wrong = [span for span in everything if span not in gold.entities and span not in predicted.entities]
    entity = data.draw(st.sampled_from(wrong))
    relation = Triple(entity, data.draw(st.sampled_from(SCHEMA.relation_types)), entity)
    more = predicted.annotated([*predicted.entities, entity], [*predicted.triples, relation])
    before, after = scored([(gold, predicted)], symmetric), scored([(gold, more)], symmetric)
    for task in ("ner", "re_strict"):
        one, two = getattr(before, task).counts, getattr(after, task).counts
        assert two.n_predicted == one.n_predicted + 1
        assert two.precision <= one.precision
        assert two.recall == one.recall


@pytest.mark.parametrize("symmetric", ["canonical", "doubled"])
@some
@given(pairs=pairs(), data=st.data())
def test_flipping_symmetric_relations_changes_nothing(pairs, data, symmetric):
    def flip(sentence):
        triples = [
            Triple(t.tail, t.label, t.head) if t.label == "Same" and data.draw(st.booleans()) else t
            for t in sentence.triples
        ]
        return replace(sentence, triples=tuple(triples))

    assert scored([(flip(a), flip(b)) for a, b in pairs], symmetric) == scored(pairs, symmetric)


@some
@given(pairs())
def test_doubled_counts_twice_what_canonical_counts_once(pairs):
    # A relation of an entity with itself has one direction only.
    pairs = [tuple(s.annotated(s.entities, [t for t in s.triples if t.head != t.tail]) for s in p) for p in pairs]
    once, twice = scored(pairs, "canonical").re_strict, scored(pairs, "doubled").re_strict
    for label in ("Directed", "Other"):
        assert once.per_label.get(label) == twice.per_label.get(label)
    if "Same" in once.per_label:
        assert once.per_label["Same"] + once.per_label["Same"] == twice.per_label["Same"]


@some
@given(pairs(), policies)
def test_micro_is_the_sum_over_labels_and_correct_never_more_than_either_side(pairs, symmetric):
    for task in tasks(scored(pairs, symmetric)):
        sums = [sum(getattr(c, n) for c in task.per_label.values()) for n in ("n_gold", "n_predicted", "n_correct")]
        assert sums == [task.counts.n_gold, task.counts.n_predicted, task.counts.n_correct]
        for counts in (task.counts, *task.per_label.values()):
            assert counts.n_correct <= min(counts.n_gold, counts.n_predicted)


@some
@given(pairs())
def test_without_symmetric_types_the_policies_agree(pairs):
    directed = Schema(SCHEMA.entity_types, SCHEMA.relation_types)
    gold, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    found = [score(gold, predicted, schema=directed, symmetric=policy) for policy in SYMMETRIC_POLICIES]
    assert all(tasks(one) == tasks(found[0]) for one in found)
