"""Training batches: rows, targets, corrupted entities, and the transfer to a device."""

import random

import pytest
import torch
from tests.network.soft_sentences import gold, soft_examples
from tests.small_models import (
    EMPTY,
    NESTED,
    NO_ENTITY,
    NO_RELATION,
    SAME_SPAN,
    SENTENCES,
    SHARED_SUBJECT,
    SYMMETRIC,
    examples,
    small_model,
)

from cascade_srn.config import PRESETS
from cascade_srn.errors import ConfigError
from cascade_srn.network.batch import (
    BatchSettings,
    _collect,
    _move_in_one_copy,
    candidate_subjects,
    corrupt,
    gold_subjects,
    make_queries,
)
from cascade_srn.network.examples import Example
from cascade_srn.types import Span, Triple


@pytest.mark.parametrize("preset", ["early", "hybrid", "subject-marker"])
def test_the_order_of_entities_does_not_change_the_rows(preset):
    collator = small_model(preset).collator
    backwards = SAME_SPAN.annotated(SAME_SPAN.entities[::-1], SAME_SPAN.triples)
    one, other = (collator.training_batch([Example(sentence)]).rows for sentence in (SAME_SPAN, backwards))
    assert torch.equal(one.piece_ids, other.piece_ids)


SOME = (NESTED, SAME_SPAN, NO_ENTITY, SHARED_SUBJECT)
METRIC, TASK, THING = 0, 1, 2
COMPARE, PART_OF, USED_FOR = 0, 1, 2


def rows_of(labels):
    """Spans as (row, start, last, label)."""
    return list(zip(*(c.tolist() for c in (labels.row, labels.start, labels.last, labels.label)), strict=True))


def spans_of(targets, pairs, n_labels, n_words):
    """What a turn is to find, as (row, start, last, label), read back from the positions of its pairs."""
    found = [
        (int(column), int(label))
        for column, label in zip(targets.match // n_labels, targets.match % n_labels, strict=True)
    ]
    spans = [(int(pairs.row[at]), int(pairs.start[at]), int(pairs.last[at]), label) for at, label in found]
    words = {(row, start, label) for row, start, _, label in spans}
    assert targets.start.tolist() == sorted((row * n_words + word) * n_labels + label for row, word, label in words)
    words = {(row, last, label) for row, _, last, label in spans}
    assert targets.end.tolist() == sorted((row * n_words + word) * n_labels + label for row, word, label in words)
    return spans


def entities_of(batch):
    return spans_of(batch.entities, batch.pairs, 3, batch.rows.word_items.shape[1])


def subjects_of(batch):
    return spans_of(batch.subjects, batch.pairs, 1, batch.rows.word_items.shape[1])


def objects_of(batch):
    return spans_of(batch.objects, batch.query_pairs, 3, batch.rows.word_items.shape[1])


def asked(queries):
    """Queries as (sentence, start, last)."""
    return list(zip(*(c.tolist() for c in (queries.sentence, queries.start, queries.last)), strict=True))


@pytest.fixture(scope="module", params=sorted(PRESETS))
def collator(request):
    return small_model(request.param).collator


def test_labels_are_the_same_whatever_the_fusion(collator):
    batch = collator.training_batch(examples(SOME))
    assert batch.n_sentences == 4
    assert batch.lengths.tolist() == [6, 4, 5, 10]
    assert entities_of(batch) == [
        (0, 0, 3, THING), (0, 1, 2, TASK), (0, 5, 5, THING), (1, 0, 0, METRIC), (1, 0, 0, TASK),
        (1, 3, 3, THING), (3, 1, 1, THING), (3, 3, 3, TASK), (3, 5, 5, TASK), (3, 7, 8, THING),
    ]  # fmt: skip
    assert sorted(rows_of(batch.given)) == sorted(entities_of(batch))
    # Two labels on the same words, or two relations of one subject, still make one subject.
    assert subjects_of(batch) == [(0, 0, 3, 0), (0, 5, 5, 0), (1, 0, 0, 0), (3, 1, 1, 0)]
    assert asked(batch.queries) == [
        (0, 0, 3), (0, 1, 2), (0, 5, 5), (1, 0, 0), (1, 3, 3), (3, 1, 1), (3, 3, 3), (3, 5, 5), (3, 7, 8),
    ]  # fmt: skip
    # By query: the first is sentence 0's (0, 3), the sixth sentence 3's (1, 1).
    assert objects_of(batch) == [
        (0, 1, 2, USED_FOR), (2, 0, 3, PART_OF), (3, 0, 0, PART_OF), (3, 3, 3, USED_FOR), (5, 3, 3, USED_FOR),
        (5, 7, 8, PART_OF),
    ]  # fmt: skip


def test_only_gold_subjects_are_asked_about_in_the_ablation(collator):
    batch = collator.training_batch(examples(SOME), BatchSettings(candidates="subjects"))
    assert asked(batch.queries) == [(0, 0, 3), (0, 5, 5), (1, 0, 0), (3, 1, 1)]
    assert objects_of(batch) == [
        (0, 1, 2, USED_FOR), (1, 0, 3, PART_OF), (2, 0, 0, PART_OF), (2, 3, 3, USED_FOR), (3, 3, 3, USED_FOR),
        (3, 7, 8, PART_OF),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "candidates", "n_rows", "subject_rows", "object_rows"),
    [
        # One encoding a sentence.
        ("swift", "entities", 4, [0, 1, 2, 3], [0, 1, 2, 3]),
        ("late", "entities", 4, [0, 1, 2, 3], [0, 1, 2, 3]),
        # A second one with the entities marked.
        ("hybrid", "entities", 8, [4, 5, 6, 7], [4, 5, 6, 7]),
        # And one for each candidate subject.
        ("early", "entities", 8 + 9, [4, 5, 6, 7], list(range(8, 17))),
        ("early", "subjects", 8 + 4, [4, 5, 6, 7], list(range(8, 12))),
        ("subject-marker", "entities", 4 + 9, [0, 1, 2, 3], list(range(4, 13))),
        ("subject-marker", "subjects", 4 + 4, [0, 1, 2, 3], list(range(4, 8))),
    ],
)
def test_which_rows_a_batch_has(preset, candidates, n_rows, subject_rows, object_rows):
    batch = small_model(preset).collator.training_batch(examples(SOME), BatchSettings(candidates=candidates))
    assert batch.rows.item_lengths.shape[0] == n_rows
    assert batch.subject_rows.tolist() == subject_rows
    assert batch.object_rows.tolist() == object_rows


def test_the_rows_show_what_each_turn_may_know():
    collator = small_model("early").collator
    rows = collator.training_batch(examples((NESTED, NO_RELATION))).rows
    # Turn 1: words alone. Turn 2: two markers an entity. Turn 3: two more for the subject.
    assert rows.item_lengths.tolist() == [6, 4, 12, 6, 14, 14, 14, 8]
    assert rows.word_lengths.tolist() == [6, 4, 6, 4, 6, 6, 6, 4]
    # [Thing_S] neural [Task_S] speech recognition [Task_E] systems [Thing_E] need [Thing_S] data [Thing_E]
    assert rows.word_items[2].tolist() == [1, 3, 4, 6, 8, 10]
    # Query 1 is "speech recognition": its markers are innermost.
    assert rows.word_items[5].tolist() == [1, 4, 5, 8, 10, 12]
    rows = small_model("subject-marker").collator.training_batch(examples((NESTED,))).rows
    assert rows.item_lengths.tolist() == [6, 8, 8, 8]
    assert rows.word_items[2].tolist() == [0, 2, 3, 5, 6, 7]


def test_an_entity_model_gets_turn_1_alone(collator):
    batch = collator.training_batch(examples(SOME), BatchSettings(joint=False))
    assert batch.rows.item_lengths.tolist() == [6, 4, 5, 10]
    assert len(batch.queries) == 0
    assert objects_of(batch) == []
    assert entities_of(batch) == entities_of(collator.training_batch(examples(SOME)))


def test_sentences_without_entities_have_no_queries(collator):
    batch = collator.training_batch(examples((NO_ENTITY, EMPTY)))
    assert batch.lengths.tolist() == [5, 0]
    assert entities_of(batch) == subjects_of(batch) == objects_of(batch) == rows_of(batch.given) == []
    for targets in (batch.entities, batch.subjects, batch.objects):
        assert targets.match.dtype == targets.start.dtype == torch.long
    assert asked(batch.queries) == []


def test_a_repeated_relation_changes_nothing(collator):
    twice = SYMMETRIC.annotated(SYMMETRIC.entities, SYMMETRIC.triples * 2)
    batch = collator.training_batch(examples((twice,)))
    assert objects_of(batch) == [(0, 2, 2, COMPARE)]
    assert subjects_of(batch) == [(0, 0, 0, 0)]


def test_unknown_candidates_are_refused(collator):
    with pytest.raises(ConfigError, match="'subject'.* 'subjects'"):
        collator.training_batch(examples(SOME), BatchSettings(candidates="subject"))


def test_subjects_are_spans_each_once_in_order():
    assert gold_subjects(SAME_SPAN) == [(0, 1)]
    assert gold_subjects(NESTED) == [(0, 4), (5, 6)]
    assert gold_subjects(NO_RELATION) == []
    assert candidate_subjects(SAME_SPAN, SAME_SPAN.entities, "entities") == [(0, 1), (3, 4)]
    assert candidate_subjects(NO_RELATION, NO_RELATION.entities, "entities") == [(2, 4)]
    assert candidate_subjects(NO_RELATION, NO_RELATION.entities, "subjects") == []
    head, tail = NESTED.entities[2], NESTED.entities[1]
    backwards = NESTED.annotated(NESTED.entities[::-1], [Triple(head, "part-of", tail), *NESTED.triples])
    assert candidate_subjects(backwards, backwards.entities, "entities") == [(0, 4), (1, 3), (5, 6)]


def test_queries_hold_last_words():
    queries = make_queries([[(0, 2)], [], [(1, 2), (0, 3)]])
    assert asked(queries) == [(0, 0, 1), (2, 1, 1), (2, 0, 2)]
    assert len(make_queries([[], []])) == 0


def test_context_goes_to_the_encoder_alone():
    collator = small_model("early").collator
    bare, around = Example(NESTED), Example(NESTED, ("tagger", "parser"), ("data",))
    without, within = (collator.training_batch([example]).rows for example in (bare, around))
    extra = sum(len(collator.pieces.row([word]).pieces) for word in ("tagger", "parser", "data"))
    assert within.piece_mask.sum(1).tolist() == [n + extra for n in without.piece_mask.sum(1).tolist()]
    assert within.item_lengths.tolist() == without.item_lengths.tolist()
    assert torch.equal(within.word_items, without.word_items)


def test_masked_words_are_the_same_in_all_turns():
    collator = small_model("early").collator
    whole = collator.training_batch(examples(SOME))
    batch = collator.training_batch(examples(SOME), BatchSettings(masking=0.5), rng=random.Random(0))
    mask = collator.pieces.mask_words(collator.plain(examples(SOME)[0]), 1.0, random.Random(0)).pieces[0]
    assert entities_of(batch) == entities_of(whole)
    assert subjects_of(batch) == subjects_of(whole)
    assert objects_of(batch) == objects_of(whole)
    changed = batch.rows.piece_ids != whole.rows.piece_ids
    assert set(batch.rows.piece_ids[changed].tolist()) == {mask}
    # Markers stay, and a word is hidden in all rows of its sentence or in none.
    hidden = _hidden_words(batch.rows, mask)
    sentences = [*range(len(SOME)), *range(len(SOME)), *batch.queries.sentence.tolist()]
    assert any(hidden[0])
    assert not all(hidden[0])
    for row, sentence in enumerate(sentences):
        assert hidden[row] == hidden[sentence]


def _hidden_words(rows, mask):
    """For each row, whether each of its words is hidden."""
    first = torch.full((rows.item_lengths.shape[0] * rows.n_items,), -1)
    first[rows.target] = rows.piece_ids.flatten()[rows.source]
    items = first.view(-1, rows.n_items).tolist()
    return [
        [items[row][item] == mask for item in rows.word_items[row, :length].tolist()]
        for row, length in enumerate(rows.word_lengths.tolist())
    ]


def test_corrupted_entities_change_only_the_input_of_later_turns(collator):
    gold = collator.training_batch(examples(SOME))
    batch = collator.training_batch(examples(SOME), BatchSettings(corruption=1.0), rng=random.Random(0))
    assert entities_of(batch) == entities_of(gold)
    assert subjects_of(batch) == subjects_of(gold)
    assert rows_of(batch.given) != rows_of(gold.given)
    # Exactly the given entities are queried.
    given = {(row, start, last) for row, start, last, _ in rows_of(batch.given)}
    assert set(asked(batch.queries)) == given
    # A query that is a gold subject has all of its objects.
    subjects = dict(enumerate(asked(gold.queries)))
    expected = {(subjects[query], start, last, label) for query, start, last, label in objects_of(gold)}
    found = dict(enumerate(asked(batch.queries)))
    assert {(found[q], start, last, label) for q, start, last, label in objects_of(batch)} == {
        triple for triple in expected if triple[0] in given
    }


def test_a_share_of_the_pairs_that_are_no_span_is_learned(collator):
    torch.manual_seed(0)
    whole = collator.training_batch(examples(SOME))
    batch = collator.training_batch(examples(SOME), BatchSettings(negatives=0.25), rng=random.Random(0))
    assert entities_of(batch) == entities_of(whole)
    assert subjects_of(batch) == subjects_of(whole)
    assert objects_of(batch) == objects_of(whole)
    assert 0.15 * len(whole.query_pairs) < len(batch.query_pairs) < 0.4 * len(whole.query_pairs)
    none = collator.training_batch(examples(SOME), BatchSettings(negatives=0.0))
    assert len(none.query_pairs) == len({(row, start, last) for row, start, last, _ in objects_of(none)})


RNG = random.Random(0)
LABELS = ("Metric", "Task", "Thing")
ENTITIES = [Span(0, 2, "Task"), Span(3, 4, "Thing"), Span(3, 6, "Metric"), Span(9, 10, "Task")]


def kinds(found):
    """Return which kinds of mistakes can be recognised from the spans."""
    kept = set(found) & set(ENTITIES)
    words = {(span.start, span.end) for span in ENTITIES}
    return {
        "missed": len(found) < len(ENTITIES),
        "retyped": any(span not in kept and (span.start, span.end) in words for span in found),
        "moved": any(
            abs(span.start - gold.start) + abs(span.end - gold.end) == 1 and span.label == gold.label
            for span in found
            for gold in ENTITIES
        ),
        "invented": len(found) > len(ENTITIES),
    }


def test_all_kinds_of_mistakes_are_made_and_all_spans_stay_within_the_sentence():
    RNG.seed(0)
    seen = dict.fromkeys(kinds(ENTITIES), 0)
    for _ in range(200):
        found = corrupt(ENTITIES, 10, LABELS, 1.0, RNG)
        assert found == sorted(set(found))
        assert all(0 <= span.start < span.end <= 10 and span.label in LABELS for span in found)
        for kind, is_there in kinds(found).items():
            seen[kind] += is_there
    assert all(count > 20 for count in seen.values()), seen


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_share_is_that_of_the_entities_with_a_mistake(share):
    RNG.seed(0)
    n = 2000
    kept = sum(len({*corrupt(ENTITIES[2:3], 10, LABELS, share, RNG)} & {ENTITIES[2]}) for _ in range(n)) / n
    # A quarter of the mistakes adds an entity and leaves this one; retyping may draw the same type again.
    assert kept == pytest.approx(1 - share * (0.75 - 0.25 / 3), abs=0.03)


CPU = torch.device("cpu")


def tensors_of(batch):
    found = []
    _collect(batch, found)
    return found


def test_a_batch_moves_to_a_device_with_all_it_holds():
    batch = small_model("early").collator.training_batch(examples(SENTENCES)).to("meta")
    found = tensors_of(batch)
    # Rows 7, labels of given entities 4, queries 3, two lists of pairs 6, three turns 9, and 3 others.
    assert len(found) == 7 + 4 + 3 + 6 + 9 + 3
    assert {tensor.device.type for tensor in found} == {"meta"}
    assert batch.n_sentences == len(SENTENCES)


def test_floats_move_with_integers():
    model = small_model()
    soft, _ = soft_examples([NESTED, NO_ENTITY, SHARED_SUBJECT], model.schema, weight=0.3)
    found = tensors_of(model.collator.training_batch([*soft, gold(SAME_SPAN)]))
    assert sum(tensor.dtype == torch.float32 for tensor in found) == 10
    for one, other in zip(found, _move_in_one_copy(found, CPU), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_floats_other_than_float32_are_refused(dtype):
    with pytest.raises(TypeError, match=str(dtype)):
        _move_in_one_copy([torch.tensor([0.5], dtype=dtype)], CPU)
