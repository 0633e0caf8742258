import pytest
import torch
from tests.small_models import NESTED, SAME_SPAN, SCHEMA, SENTENCES, examples, small_model

from cascade_srn.lab.baselines.table_filling import entity_cells, pairs_of_words, relation_cells
from cascade_srn.types import Sentence, Span, Triple

METRIC, TASK, THING = range(3)
COMPARE, PART_OF, USED_FOR = range(3)


def test_an_entity_inside_another():
    assert entity_cells(NESTED, SCHEMA) == {(0, 3, THING), (1, 2, TASK), (5, 5, THING)}
    assert relation_cells(NESTED, SCHEMA) == {(0, 1, USED_FOR), (5, 0, PART_OF)}


def test_two_types_on_the_same_words():
    assert entity_cells(SAME_SPAN, SCHEMA) == {(0, 0, METRIC), (0, 0, TASK), (3, 3, THING)}
    # The relation between the two is a word's with itself.
    assert relation_cells(SAME_SPAN, SCHEMA) == {(0, 3, USED_FOR), (0, 0, PART_OF)}


def test_entities_with_the_same_first_word_share_cells():
    short, long, other = Span(0, 1, "Task"), Span(0, 3, "Thing"), Span(4, 5, "Thing")
    triples = [Triple(short, "used-for", other), Triple(long, "used-for", other), Triple(long, "part-of", short)]
    sentence = Sentence.from_words(["a", "b", "c", "d", "e"], [short, long, other], triples)
    assert entity_cells(sentence, SCHEMA) == {(0, 0, TASK), (0, 2, THING), (4, 4, THING)}
    assert relation_cells(sentence, SCHEMA) == {(0, 4, USED_FOR), (0, 0, PART_OF)}


def test_a_relation_to_itself_and_one_in_both_directions():
    a, b = Span(0, 2, "Task"), Span(2, 3, "Thing")
    triples = [Triple(a, "compare", a), Triple(a, "compare", b), Triple(b, "compare", a)]
    sentence = Sentence.from_words(["a", "b", "c"], [a, b], triples)
    assert relation_cells(sentence, SCHEMA) == {(0, 0, COMPARE), (0, 2, COMPARE), (2, 0, COMPARE)}


@pytest.mark.parametrize("lengths", [[], [0], [1], [3, 0, 2]])
def test_all_pairs_of_words(lengths):
    pairs = pairs_of_words(torch.tensor(lengths, dtype=torch.long))
    expected = [(row, i, j) for row, n in enumerate(lengths) for i in range(n) for j in range(n)]
    assert list(zip(pairs.row.tolist(), pairs.start.tolist(), pairs.last.tolist(), strict=True)) == expected


@pytest.mark.parametrize("method", ["pfn", "table-srn"])
def test_positions_in_a_batch_are_those_of_the_cells(method):
    batch = small_model(method=method).collator.training_batch(examples())
    assert batch.n_sentences == len(SENTENCES)
    for cells, filled, names, of_sentence in (
        (batch.spans, batch.entities, SCHEMA.entity_types, entity_cells),
        (batch.first_words, batch.relations, SCHEMA.relation_types, relation_cells),
    ):
        found = set()
        for position in filled.tolist():
            cell, label = divmod(position, len(names))
            found.add((int(cells.row[cell]), int(cells.start[cell]), int(cells.last[cell]), label))
        assert found == {(row, *cell) for row, s in enumerate(SENTENCES) for cell in of_sentence(s, SCHEMA)}
        assert len(found) == len(filled)


def test_moving_a_batch_moves_all_of_it():
    batch = small_model(method="pfn").collator.training_batch(examples()).to("meta")
    tensors = [batch.rows.piece_ids, batch.spans.row, batch.entities, batch.first_words.last, batch.relations]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert batch.n_sentences == len(SENTENCES)
