import random

import pytest
import torch
from tests.small_models import NESTED, SAME_SPAN, SCHEMA, SENTENCES, SHARED_SUBJECT, examples, small_model

from cascade_srn.config import BaselineSettings
from cascade_srn.lab.baselines.pipeline import ordered_pairs
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.examples import Example
from cascade_srn.types import Span


@pytest.fixture(scope="module")
def model():
    return small_model(method="pipeline", baseline=BaselineSettings(max_span_words=3))


def _items(model, row):
    """Return the items of a row as text."""
    names = {i: name for name, i in model.collator.markers.ids.items()}
    found, at = [], 0
    for size in row.sizes.tolist():
        pieces = row.pieces[at : at + size].tolist()
        found.append(names.get(pieces[0]) or "".join(model.tokenizer.convert_ids_to_tokens(pieces)).replace("##", ""))
        at += size
    return found


def _pair_row(model, sentence, subject, object_):
    plain = model.collator.plain(Example(sentence))
    (row,), (openings,) = model.collator.with_pairs([plain], [(0, subject, object_)])
    items = _items(model, row)
    return " ".join(items), [items[at] for at in openings], row


@pytest.mark.parametrize(
    ("subject", "object_", "expected"),
    [
        ((1, 2, "Thing"), (3, 4, "Task"), "a [S:Thing_S] tagger [S:Thing_E] helps [O:Task_S] parsing [O:Task_E] ,"),
        ((3, 4, "Task"), (1, 2, "Thing"), "a [O:Thing_S] tagger [O:Thing_E] helps [S:Task_S] parsing [S:Task_E] ,"),
        # Adjacent, nested, nested with the same start, and on the same words.
        ((1, 2, "Thing"), (2, 3, "Task"), "a [S:Thing_S] tagger [S:Thing_E] [O:Task_S] helps [O:Task_E] parsing ,"),
        ((0, 4, "Thing"), (1, 2, "Task"), "[S:Thing_S] a [O:Task_S] tagger [O:Task_E] helps parsing [S:Thing_E] ,"),
        ((1, 2, "Thing"), (1, 4, "Task"), "a [O:Task_S] [S:Thing_S] tagger [S:Thing_E] helps parsing [O:Task_E] ,"),
        ((1, 4, "Thing"), (1, 2, "Task"), "a [S:Thing_S] [O:Task_S] tagger [O:Task_E] helps parsing [S:Thing_E] ,"),
        ((1, 2, "Thing"), (1, 2, "Task"), "a [S:Thing_S] [O:Task_S] tagger [O:Task_E] [S:Thing_E] helps parsing ,"),
    ],
)
def test_markers_show_roles_and_types(model, subject, object_, expected):
    subject, object_ = Span(*subject), Span(*object_)
    text, opening, row = _pair_row(model, SHARED_SUBJECT, subject, object_)
    assert text.startswith(expected)
    assert opening == [f"[S:{subject.label}_S]", f"[O:{object_.label}_S]"]
    assert len(row) == len(SHARED_SUBJECT) + 4


def test_targets(model):
    batch = model.collator.training_batch(examples())
    spans = zip(batch.spans.row.tolist(), batch.spans.start.tolist(), batch.spans.last.tolist(), strict=True)
    found = {span: kind for span, kind in zip(spans, batch.types.tolist(), strict=True) if kind}
    expected = {}
    for row, sentence in enumerate(SENTENCES):
        for e in sorted(sentence.entities, reverse=True):
            if e.end - e.start <= 3:
                expected[row, e.start, e.end - 1] = 1 + SCHEMA.entity_types.index(e.label)
    assert found == expected
    # The first entity of NESTED is too long, and the span of SAME_SPAN has one of its two classes.
    assert (0, 0, 3) not in found
    assert found[1, 0, 0] == 1 + SCHEMA.entity_types.index("Metric")
    pairs = [(s, *pair) for s in SENTENCES for pair in ordered_pairs(s.entities)]
    assert len(pairs) == len(batch.relations) == len(batch.openings)
    for (sentence, subject, object_), kind in zip(pairs, batch.relations.tolist(), strict=True):
        labels = {
            1 + SCHEMA.relation_types.index(t.label)
            for t in sentence.triples
            if (t.head.start, t.head.end, t.tail.start, t.tail.end)
            == (subject.start, subject.end, object_.start, object_.end)
        }
        assert kind == min(labels, default=0)


def test_corrupted_entities_keep_the_relations_of_their_words(model):
    rng = random.Random(1)
    clean = model.collator.training_batch(examples((SHARED_SUBJECT,)))
    batches = [
        model.collator.training_batch(examples((SHARED_SUBJECT,)), BatchSettings(corruption=0.5), rng=rng)
        for _ in range(20)
    ]
    assert (clean.relations > 0).sum() == 2
    counts = {int((batch.relations > 0).sum()) for batch in batches}
    assert len(counts) > 1
    # The targets of the entity model do not change.
    assert all(torch.equal(batch.types, clean.types) for batch in batches)


def test_without_relations_no_pair_is_read(model):
    batch = model.collator.training_batch(examples((NESTED, SAME_SPAN)), BatchSettings(joint=False))
    assert batch.pair_rows is None
    assert len(batch.openings) == len(batch.relations) == 0
    assert batch.to("meta").pair_rows is None


def test_moving_a_batch_moves_all_of_it(model):
    batch = model.collator.training_batch(examples()).to("meta")
    tensors = [batch.rows.piece_ids, batch.spans.last, batch.types, batch.pair_rows.source, batch.openings]
    assert {tensor.device.type for tensor in [*tensors, batch.relations]} == {"meta"}


def test_words_are_masked_for_both_encoders(model):
    whole, batch = (model.collator.training_batch(examples(), BatchSettings(masking=share)) for share in (0.0, 1.0))
    assert (batch.rows.piece_ids != whole.rows.piece_ids).sum() == len(whole.rows.source)
    hidden = batch.pair_rows.piece_ids != whole.pair_rows.piece_ids
    # The markers of both arguments are not masked.
    assert hidden.sum() == len(whole.pair_rows.source) - 4 * len(batch.relations)
    assert torch.equal(batch.relations, whole.relations)
