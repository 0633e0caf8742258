"""Confusion tables: by hand, and sums of rows and columns equal to the counts of the scores."""

import json

import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, aligned, any_pairs, policies, some

from cascade_srn.evaluation import Counts, score
from cascade_srn.evaluation.errors import count_entity_confusions, count_relation_confusions
from cascade_srn.types import Sentence, Span, Triple

WORDS = list("abcdefgh")


def entity_cells(gold, predicted):
    pair = (Sentence.from_words(WORDS, gold), Sentence.from_words(WORDS, predicted))
    return dict(count_entity_confusions(aligned([pair]), schema=SCHEMA).cells)


@pytest.mark.parametrize(
    ("gold", "predicted", "cells"),
    [
        ([Span(0, 1, "A")], [Span(0, 1, "A")], {("A", "A"): 1}),
        ([Span(0, 1, "A")], [Span(0, 1, "B")], {("A", "B"): 1}),
        ([Span(0, 1, "A")], [Span(0, 2, "A")], {("A", None): 1, (None, "A"): 1}),
        ([Span(0, 1, "A"), Span(0, 1, "B")], [Span(0, 1, "B")], {("A", None): 1, ("B", "B"): 1}),
        ([Span(0, 1, "A")], [Span(0, 1, "A"), Span(0, 1, "B")], {("A", "A"): 1, (None, "B"): 1}),
    ],
)
def test_entities_by_hand(gold, predicted, cells):
    assert entity_cells(gold, predicted) == cells


ONE, TWO = Span(0, 1, "A"), Span(2, 3, "A")


def relation_cells(gold, predicted, symmetric="directed", entities=(ONE, TWO)):
    pair = tuple(Sentence.from_words(WORDS, entities, [Triple(*t) for t in side]) for side in (gold, predicted))
    return dict(count_relation_confusions(aligned([pair]), schema=SCHEMA, symmetric=symmetric).cells)


@pytest.mark.parametrize(
    ("gold", "predicted", "cells"),
    [
        ([(ONE, "Directed", TWO)], [(ONE, "Directed", TWO)], {("Directed", "Directed"): 1}),
        ([(ONE, "Directed", TWO)], [(ONE, "Other", TWO)], {("Directed", "Other"): 1}),
        ([(ONE, "Directed", TWO)], [(TWO, "Other", ONE)], {("Directed", None): 1, (None, "Other"): 1}),
        (
            [(ONE, "Directed", TWO), (ONE, "Other", TWO)],
            [(ONE, "Other", TWO), (ONE, "Same", TWO)],
            {("Directed", "Same"): 1, ("Other", "Other"): 1},
        ),
    ],
)
def test_relations_by_hand(gold, predicted, cells):
    assert relation_cells(gold, predicted) == cells


@pytest.mark.parametrize(
    ("symmetric", "cells"),
    [
        ("directed", {("Directed", None): 1, (None, "Same"): 1}),
        ("canonical", {("Directed", "Same"): 1}),
        ("doubled", {("Directed", "Same"): 1, (None, "Same"): 1}),
    ],
)
def test_direction_of_symmetric_types_by_policy(symmetric, cells):
    assert relation_cells([(TWO, "Directed", ONE)], [(ONE, "Same", TWO)], symmetric) == cells


def test_the_entity_types_of_the_arguments_do_not_matter():
    typed = Span(2, 3, "B")
    entities = (ONE, TWO, typed)
    assert relation_cells([(ONE, "Directed", TWO)], [(ONE, "Other", typed)], entities=entities) == {
        ("Directed", "Other"): 1
    }


def test_to_dict():
    pair = (Sentence.from_words(WORDS, [Span(0, 1, "A")]), Sentence.from_words(WORDS, [Span(0, 1, "B"), TWO]))
    record = count_entity_confusions(aligned([pair]), schema=SCHEMA).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record == {
        "protocol": "ner",
        "gold": ["A", "B", "none"],
        "predicted": ["A", "B", "none"],
        "rows": [[0, 1, 0], [0, 0, 0], [1, 0, 0]],
    }


@some
@given(any_pairs, policies)
def test_rows_columns_and_diagonal_add_up_to_the_counts(pairs, symmetric):
    whole = score([a for a, _ in pairs], [b for _, b in pairs], schema=SCHEMA, symmetric=symmetric)
    tables = [
        (count_entity_confusions(aligned(pairs), schema=SCHEMA), whole.ner),
        (count_relation_confusions(aligned(pairs), schema=SCHEMA, symmetric=symmetric), whole.re_boundaries),
    ]
    for table, task in tables:
        rows = table.to_dict()["rows"]
        assert rows[-1][-1] == 0
        for at, label in enumerate(table.labels):
            margins = Counts(sum(rows[at]), sum(row[at] for row in rows), rows[at][at])
            assert margins == task.per_label.get(label, Counts())
