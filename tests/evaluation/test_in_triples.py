"""Entities in and out of triples: the four cases of a prediction, by hand."""

from hypothesis import given
from tests.evaluation.strategies import SCHEMA, aligned, any_pairs, some

from cascade_srn.evaluation import Counts, score
from cascade_srn.evaluation.breakdown import group_in_triples
from cascade_srn.types import Sentence, Span, Triple

WORDS = tuple("abcdefgh")
ONE, TWO, ALONE = Span(0, 1, "A"), Span(1, 2, "A"), Span(2, 3, "A")
GOLD = Sentence.from_words(WORDS, [ONE, TWO, ALONE], [Triple(ONE, "Directed", TWO)])


def grouped(predicted_entities, triples=(), gold=GOLD):
    return group_in_triples(aligned([(gold, gold.annotated(predicted_entities, triples))]))


def test_gold_entities_are_grouped_by_gold_relations_even_where_none_is_predicted():
    found = grouped([ONE, ALONE])
    assert found.in_triple == Counts(2, 1, 1)
    assert found.out_of_triple == Counts(1, 1, 1)


def test_a_correct_entity_in_a_wrong_relation_stays_out_of_triples():
    found = grouped([ONE, ALONE], [Triple(ONE, "Other", ALONE)])
    assert found.in_triple == Counts(2, 1, 1)
    assert found.out_of_triple == Counts(1, 1, 1)


def test_wrong_entities_are_grouped_by_predicted_relations():
    wrong, lonely = Span(4, 5, "A"), Span(5, 6, "A")
    found = grouped([ONE, wrong, lonely], [Triple(ONE, "Other", wrong)])
    assert found.in_triple == Counts(2, 2, 1)  # ONE, and the wrong one
    assert found.out_of_triple == Counts(1, 1, 0)  # the lonely one


def test_a_wrong_type_is_another_entity():
    typed = Span(0, 1, "B")
    found = grouped([typed])
    assert found.in_triple == Counts(2, 0, 0)
    assert found.out_of_triple == Counts(1, 1, 0)


def test_by_predicted_relations_groups_all_predictions_by_them():
    wrong = Span(4, 5, "A")
    found = grouped([ONE, TWO, ALONE, wrong], [Triple(ONE, "Other", ALONE)])
    assert found.by_predicted_relations == {"in_triple": Counts(0, 2, 2), "out_of_triple": Counts(0, 2, 1)}
    assert found.to_dict()["by_predicted_relations"]["out_of_triple"] == {
        "precision": 0.5,
        "n_predicted": 2,
        "n_correct": 1,
    }


@some
@given(any_pairs)
def test_the_groups_add_up_to_ner(pairs):
    ner = score([gold for gold, _ in pairs], [other for _, other in pairs], schema=SCHEMA).ner.counts
    found = group_in_triples(aligned(pairs))
    assert found.in_triple + found.out_of_triple == ner
    own = sum(found.by_predicted_relations.values(), Counts())
    assert (own.n_predicted, own.n_correct) == (ner.n_predicted, ner.n_correct)
