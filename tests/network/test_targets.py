import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.network.soft_sentences import gold, soft_examples
from tests.small_models import (
    NESTED,
    NO_ENTITY,
    NO_RELATION,
    SAME_SPAN,
    SHARED_SUBJECT,
    small_model,
    spread_probabilities,
)
from torch.nn.functional import binary_cross_entropy_with_logits

from cascade_srn.config import PRESETS, LossWeights, TurnWeights
from cascade_srn.network.batch import BatchSettings, gold_subjects
from cascade_srn.network.examples import Example
from cascade_srn.network.targets import SoftLabels, SoftTable

WEIGHTS = TurnWeights(LossWeights(0.9, 0.8, 0.7), LossWeights(0.6, 0.5, 0.4), LossWeights(0.3, 0.2, 1.0))
SOFT = [NESTED, NO_ENTITY, SHARED_SUBJECT]


def slow_loss(model, example, dense, candidates="entities"):
    """The loss of one sentence, times its weight, with a table of targets for everything; by turn."""
    sentence, cascade, schema = example.sentence, model.cascade, model.schema
    batch = model.collator.training_batch([gold(sentence)], BatchSettings(candidates=candidates))
    n_words = len(sentence)
    pairs = [(i, j) for i in range(n_words) for j in range(i, n_words)]
    spans = sorted({(e.start, e.end) for e in sentence.entities})
    asked = spans if candidates == "entities" else gold_subjects(sentence)
    features = cascade.features(batch.rows)
    tags = cascade.tags(batch.given, (1, n_words))
    turns = cascade.relations
    logits = {
        "entity": cascade.entity_head(cascade.entity_inputs(features[:1]), batch.pairs),
        "subject": turns.subject_head(cascade.subject_inputs(features[batch.subject_rows], tags), batch.pairs),
        "object": turns.object_head(
            cascade.object_inputs(features[batch.object_rows], tags, batch.queries), batch.query_pairs
        ),
    }
    names = {"entity": schema.entity_types, "subject": ("subject",), "object": schema.relation_types}

    def target(turn, kind, query, place, label):
        if dense is not None:
            return dense.get(turn, kind, query, place, label)
        found = {
            "entity": [(e.start, e.end - 1, e.label) for e in sentence.entities],
            "subject": [(start, end - 1, "subject") for start, end in gold_subjects(sentence)],
            "object": [
                (t.tail.start, t.tail.end - 1, t.label)
                for t in sentence.triples
                if turn == "object" and (t.head.start, t.head.end) == asked[query]
            ],
        }[turn]
        of_kind = {"start": [(s, k) for s, _, k in found], "end": [(e, k) for _, e, k in found]}
        of_kind["match"] = [((s, e), k) for s, e, k in found]
        return float((place, names[turn][label]) in of_kind[kind])

    losses = {}
    for turn, found in logits.items():
        total = torch.zeros(())
        for kind in ("start", "end", "match"):
            places = pairs if kind == "match" else list(range(n_words))
            table = getattr(found, kind).reshape(-1, len(places), len(names[turn]))
            for row in range(table.shape[0]):
                # Tables have a row for each span of the entities, whichever of them are asked about.
                query = spans.index(asked[row]) if turn == "object" and dense is not None else row
                targets = torch.tensor(
                    [[target(turn, kind, query, place, label) for label in range(len(names[turn]))] for place in places]
                )
                each = binary_cross_entropy_with_logits(table[row], targets, reduction="sum")
                total = total + getattr(getattr(WEIGHTS, turn), kind) * each
        losses[turn] = example.weight * total
    return losses


def assert_same_loss(model, examples, dense, **options):
    batch = model.collator.training_batch(examples, BatchSettings(**options))
    found = model.cascade.loss(batch, WEIGHTS)
    expected = [slow_loss(model, *pair, **options) for pair in zip(examples, dense, strict=True)]
    for turn in ("entity", "subject", "object"):
        mean = sum(each[turn] for each in expected) / len(examples)
        torch.testing.assert_close(getattr(found, turn), mean, rtol=1e-4, atol=1e-4)
    return found


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_soft_and_gold_sentences_of_different_weights_in_one_batch(preset):
    model = spread_probabilities(small_model(preset))
    soft, dense = soft_examples(SOFT, model.schema, weight=0.25)
    examples = [soft[0], gold(SAME_SPAN), soft[1], gold(NO_RELATION, weight=2.0), soft[2]]
    with torch.no_grad():
        assert_same_loss(model, examples, [dense[0], None, dense[1], None, dense[2]])


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_soft_sentences_alone(weight):
    model = spread_probabilities(small_model())
    examples, dense = soft_examples(SOFT, model.schema, weight=weight)
    with torch.no_grad():
        assert_same_loss(model, examples, dense)
    assert (model.collator.training_batch(examples).weight is None) == (weight == 1)


def test_gold_sentences_that_count_more():
    model = spread_probabilities(small_model())
    with torch.no_grad():
        assert_same_loss(model, [gold(NESTED, weight=3.0), gold(SAME_SPAN)], [None, None])


def test_objects_of_subjects_alone():
    """With candidates="subjects" the subjects of what was decided on are asked about, and no other span."""
    model = spread_probabilities(small_model())
    examples, dense = soft_examples(SOFT, model.schema)
    batch = model.collator.training_batch(examples, BatchSettings(candidates="subjects"))
    assert len(batch.queries) == sum(len(gold_subjects(sentence)) for sentence in SOFT) == 3
    with torch.no_grad():
        assert_same_loss(model, examples, dense, candidates="subjects")


def test_soft_labels_of_certainty_are_gold_ones():
    """Probabilities of 1 where gold spans are give the gold loss."""
    model = spread_probabilities(small_model())
    batch = model.collator.training_batch([gold(SHARED_SUBJECT)])
    targets = {"entity": batch.entities, "subject": batch.subjects}
    n_words, n_queries = len(SHARED_SUBJECT), len(batch.queries)
    tables = {}
    for turn, found in targets.items():
        for kind in ("start", "end", "match"):
            positions = getattr(found, kind).numpy()
            tables[f"{turn}.{kind}"] = SoftTable(
                positions, np.ones(len(positions), np.float16), np.array([0, len(positions)])
            )
    sizes = {"start": n_words * 3, "end": n_words * 3, "match": n_words * (n_words + 1) // 2 * 3}
    for kind, size in sizes.items():
        positions = np.sort(getattr(batch.objects, kind).numpy())
        first = np.searchsorted(positions, np.arange(n_queries + 1) * size)
        tables[f"object.{kind}"] = SoftTable(positions % size, np.ones(len(positions), np.float16), first)
    soft = Example(SHARED_SUBJECT, soft=SoftLabels(tables, 0, 0, n_queries))
    with torch.no_grad():
        one, other = (model.cascade.loss(b, WEIGHTS) for b in (batch, model.collator.training_batch([soft])))
    torch.testing.assert_close(one.total, other.total)
    assert one.total > 0


def test_sampled_pairs_include_all_pairs_with_probabilities():
    model = spread_probabilities(small_model())
    examples, _ = soft_examples(SOFT, model.schema)
    mixed = [examples[0], gold(SAME_SPAN), examples[2]]
    batch = model.collator.training_batch(mixed, BatchSettings(negatives=0.0), rng=random.Random(0))
    every = model.collator.training_batch(mixed)
    assert len(batch.pairs) < len(every.pairs)
    # The pairs of the match targets and what they count, by row and words.
    for turn, pairs, n_labels in (("entities", "pairs", 3), ("subjects", "pairs", 1), ("objects", "query_pairs", 3)):
        found = []
        for each in (every, batch):
            targets, used = getattr(each, turn), getattr(each, pairs)
            at, label = targets.match // n_labels, targets.match % n_labels
            columns = (used.row[at], used.start[at], used.last[at], label, targets.weights.match)
            found.append(sorted(zip(*(column.tolist() for column in columns), strict=True)))
        assert found[0] == found[1]
        assert len(found[0]) > 5


def test_entities_with_probabilities_are_not_corrupted():
    model = small_model()
    examples, _ = soft_examples([NESTED], model.schema)
    batch = model.collator.training_batch(examples, BatchSettings(corruption=1.0), rng=random.Random(1))
    plain = model.collator.training_batch([gold(NESTED)])
    assert batch.given.start.tolist() == plain.given.start.tolist()
    assert batch.given.label.tolist() == plain.given.label.tolist()


def test_turn_1_alone():
    model = small_model(joint=False)
    examples, _ = soft_examples(SOFT, model.schema)
    batch = model.collator.training_batch(examples, BatchSettings(joint=False))
    assert len(batch.queries) == len(batch.objects.match) == 0
    assert model.cascade.loss(batch, WEIGHTS).entity > 0


def test_tables_of_different_sources_are_refused():
    model = small_model()
    one, other = (soft_examples([NESTED], model.schema)[0] for _ in range(2))
    with pytest.raises(ValueError, match="tables"):
        model.collator.training_batch([*one, *other])


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), min_size=1, max_size=6), st.data())
def test_rows_are_those_of_a_loop(rows, data):
    first = np.cumsum([0, *(len(row) for row in rows)])
    flat = np.array([value for row in rows for value in row], dtype=np.int32)
    table = SoftTable(flat, (flat / 64).astype(np.float16), first)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    found = table.rows(np.array(chosen, dtype=np.int64))
    assert found.position.tolist() == [value for row in chosen for value in rows[row]]
    assert found.counts.tolist() == [len(rows[row]) for row in chosen]
    assert found.probability.tolist() == pytest.approx([value / 64 for row in chosen for value in rows[row]], rel=1e-3)
