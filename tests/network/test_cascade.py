import itertools

import numpy as np
import pytest
import torch
from tests.small_models import (
    EMPTY,
    NESTED,
    NO_ENTITY,
    NO_RELATION,
    SENTENCES,
    SHARED_SUBJECT,
    dense_match,
    examples,
    small_model,
    spread_probabilities,
)

from cascade_srn.config import ENTITY_FUSIONS, PRESETS, LossWeights, TurnWeights
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.cascade import CascadeLoss
from cascade_srn.network.fusion import Queries
from cascade_srn.network.span_extraction import Pairs
from cascade_srn.types import Sentence, Span

# Two entities apart from each other, and words outside both on every side.
TWO_SUBJECTS = Sentence.from_words(
    ["then", "a", "tagger", "helps", "parsing", "of", "search", "engines", "today"],
    [Span(2, 3, "Thing"), Span(6, 8, "Thing")],
)
OUTSIDE = [0, 1, 3, 4, 5, 8]


def object_scores(fusion):
    """Return the start, end and match logits outside both subjects. The first axis is the subject."""
    model = spread_probabilities(small_model(fusion))
    batch = model.collator.training_batch(examples((TWO_SUBJECTS,)))
    assert batch.queries.start.tolist() == [2, 6]
    with torch.no_grad():
        features = model.cascade.features(batch.rows)
        tags = model.cascade.tags(batch.given, (1, features.shape[1]))
        words = model.cascade.object_inputs(features[batch.object_rows], tags, batch.queries)
        head = model.cascade.relations.object_head
        start, end = head.boundaries(words)
        pairs = list(itertools.combinations_with_replacement(OUTSIDE, 2))
        first, last = torch.tensor(pairs).unbind(1)
        match = [head.match(words, Pairs(torch.full_like(first, query), first, last)) for query in range(2)]
    return start[:, OUTSIDE], end[:, OUTSIDE], torch.stack(match)


@pytest.mark.parametrize("entities", ENTITY_FUSIONS)
def test_the_papers_subject_tag_leaves_the_object_turn_blind_to_the_subject(entities):
    """Outside both subjects, the logits do not depend on the subject (docs/adr/0001)."""
    for scores in object_scores((entities, "tag")):
        assert torch.equal(scores[0], scores[1])


@pytest.mark.parametrize("entities", ENTITY_FUSIONS)
@pytest.mark.parametrize("subject", ["span", "markers"])
def test_span_and_markers_tell_the_object_turn_its_subject(entities, subject):
    for scores in object_scores((entities, subject)):
        differences = (scores[0] - scores[1]).abs().amax(-1)
        assert differences.min() > 1e-4


TURNS = ("entity", "subject", "object")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_loss_of_a_batch_is_the_mean_of_its_sentences_losses(preset):
    model = small_model(preset)
    weights = TurnWeights(LossWeights(1, 0.5, 0.25), LossWeights(0.3, 1, 0.6), LossWeights(0.7, 0.2, 1))

    def loss_of(sentences):
        return model.cascade(model.collator.training_batch(examples(sentences)), weights)

    with torch.no_grad():
        whole = loss_of(SENTENCES)
        alone = [loss_of((sentence,)) for sentence in SENTENCES]
    for turn in TURNS:
        mean = torch.stack([getattr(loss, turn) for loss in alone]).mean()
        torch.testing.assert_close(getattr(whole, turn), mean, rtol=1e-5, atol=1e-5)
        assert mean > 0


def slow_parts(head, words, spans):
    """Return the start, end and match loss of one sentence or query.

    ``words`` has the shape (n_words, width). ``spans`` are the gold spans (start, end, label) with half-open ends.
    """
    n_words, n_labels = len(words), head.start.out_features
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    start, end, match = head.start(words), head.end(words), dense_match(head, words)
    parts = [torch.tensor(0.0) for _ in range(3)]
    for label in range(n_labels):
        for i in range(n_words):
            is_start = any(s == i and k == label for s, _, k in spans)
            is_end = any(e == i + 1 and k == label for _, e, k in spans)
            parts[0] = parts[0] + bce(start[i, label], torch.tensor(float(is_start)))
            parts[1] = parts[1] + bce(end[i, label], torch.tensor(float(is_end)))
            for j in range(i, n_words):
                parts[2] = parts[2] + bce(match[i, j, label], torch.tensor(float((i, j + 1, label) in spans)))
    return torch.stack(parts)


@pytest.fixture(scope="module", params=["early", "swift"])
def parts_of_the_loss(request):
    """Return a model, a sentence, and the nine parts of the loss, computed one encoding at a time."""
    model = spread_probabilities(small_model(request.param))
    cascade, collator, schema = model.cascade, model.collator, model.schema
    sentence = NESTED
    plain = collator.plain(examples((sentence,))[0])

    def features_of(row):
        return cascade.features(collator.pieces.batch([row]))

    entities = [(e.start, e.end, schema.entity_types.index(e.label)) for e in sentence.entities]
    subjects = [(t.head.start, t.head.end, 0) for t in sentence.triples]
    n_words = len(sentence)
    with torch.no_grad():
        tags = cascade.tags(collator.entity_labels([sentence.entities]), (1, n_words))
        words = cascade.entity_inputs(features_of(plain))[0]
        parts = {"entity": slow_parts(cascade.entity_head, words, entities)}
        shown = features_of(collator.with_entities([plain], [sentence.entities])[0])
        words = cascade.subject_inputs(shown, tags)[0]
        parts["subject"] = slow_parts(cascade.relations.subject_head, words, subjects)
        parts["object"] = torch.zeros(3)
        for entity in sentence.entities:
            if request.param == "early":
                subject = np.array([(0, entity.start, entity.end - 1)])
                shown = features_of(collator.with_subjects([plain], [sentence.entities], subject)[0])
            query = Queries(torch.tensor([0]), torch.tensor([entity.start]), torch.tensor([entity.end - 1]))
            words = cascade.object_inputs(shown, tags, query)[0]
            objects = [
                (t.tail.start, t.tail.end, schema.relation_types.index(t.label))
                for t in sentence.triples
                if t.head == entity
            ]
            parts["object"] = parts["object"] + slow_parts(cascade.relations.object_head, words, objects)
    return model, sentence, parts


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("part", ["start", "end", "match"])
def test_each_of_the_nine_weights_weighs_its_own_part(parts_of_the_loss, turn, part):
    model, sentence, parts = parts_of_the_loss
    none = LossWeights(0, 0, 0)
    alone = dict.fromkeys(TURNS, none) | {turn: LossWeights(**{"start": 0, "end": 0, "match": 0, part: 0.5})}
    with torch.no_grad():
        loss = model.cascade.loss(model.collator.training_batch(examples((sentence,))), TurnWeights(**alone))
    expected = 0.5 * parts[turn][["start", "end", "match"].index(part)]
    torch.testing.assert_close(getattr(loss, turn), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(loss.total, expected, rtol=1e-4, atol=1e-4)


def test_the_total_is_the_sum_of_the_turns():
    loss = CascadeLoss(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(4.0))
    assert loss.total.item() == 7


@pytest.mark.parametrize("matcher", ["mlp", "linear"])
@pytest.mark.parametrize("preset", PRESETS)
def test_gradients_reach_every_parameter(preset, matcher):
    model = small_model(preset, matcher=matcher, dropout=0.1)
    model.cascade.train()
    torch.manual_seed(0)
    model.cascade.loss(model.collator.training_batch(examples()), TurnWeights()).total.backward()
    # Adding the same vector to all keys does not change attention, so their bias has no gradient.
    silent = [
        name
        for name, parameter in model.cascade.named_parameters()
        if not name.endswith("attention.self.key.bias") and (parameter.grad is None or not parameter.grad.any())
    ]
    assert silent == []
    assert all(parameter.grad.isfinite().all() for parameter in model.cascade.parameters())


@pytest.mark.parametrize("preset", ["early", "swift"])
def test_an_entity_model_has_no_relation_parameters(preset):
    model = small_model(preset, joint=False)
    assert model.cascade.relations is None
    assert not [name for name, _ in model.cascade.named_parameters() if "relation" in name or "subject" in name]
    batch = model.collator.training_batch(examples(), BatchSettings(joint=False))
    model.cascade.train()
    loss = model.cascade.loss(batch, TurnWeights())
    assert (loss.subject.item(), loss.object.item()) == (0, 0)
    assert loss.total.item() == loss.entity.item() > 0
    with pytest.raises(ValueError, match="turns 2 and 3"):
        _ = model.cascade.relation_turns


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("sentences", [(NO_ENTITY,), (EMPTY,), (EMPTY, NO_RELATION), (NO_ENTITY, EMPTY)])
def test_sparse_sentences_have_a_finite_loss(preset, sentences):
    model = small_model(preset)
    model.cascade.train()
    loss = model.cascade.loss(model.collator.training_batch(examples(sentences)), TurnWeights())
    assert loss.total.isfinite()
    loss.total.backward()


@pytest.mark.parametrize("preset", ["early", "hybrid"])
def test_markers_have_no_features(preset):
    model = small_model(preset)
    plain = model.collator.plain(examples((SHARED_SUBJECT,))[0])
    marked = model.collator.with_entities([plain], [SHARED_SUBJECT.entities])[0]
    with torch.no_grad():
        rows = model.collator.pieces.batch([marked])
        features = model.cascade.features(rows)
        items = model.cascade.sequence(model.cascade.encoder(rows), rows.item_lengths)
    assert features.shape[1] == len(SHARED_SUBJECT)
    assert items.shape[1] == len(SHARED_SUBJECT) + 8
    # a [Thing_S] tagger [Thing_E] helps [Task_S] parsing …
    torch.testing.assert_close(features[0, :4], items[0, [0, 2, 4, 6]])


@pytest.mark.parametrize("subjects", [[(0, 0, 1)], [(0, 0, 4), (0, 0, 4), (1, 1, 3), (0, 1, 4), (1, 0, 4), (0, 4, 4)]])
def test_means_of_few_and_of_overlapping_subjects(subjects):
    cascade = small_model("swift").cascade
    features = cascade.sequence(torch.randn(2, 5, cascade.encoder.width), torch.tensor([5, 5]))
    tags = torch.randn(2, 5, cascade.relation_turns.entity_tags.width)
    queries = Queries(*torch.tensor(subjects).unbind(1))
    means = cascade._subject_means(features, tags, queries)
    words = torch.cat((tags, cascade.sequence.task(features, 2)), dim=-1)
    expected = [words[sentence, first : last + 1].mean(0) for sentence, first, last in subjects]
    torch.testing.assert_close(means, torch.stack(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("preset", PRESETS)
@torch.no_grad()
def test_logits_of_spans_equal_the_logits_of_all_words(preset):
    """Training and distillation compute all words and pairs, extraction computes chosen spans only."""
    model = spread_probabilities(small_model(preset))
    cascade, batch = model.cascade, model.collator.training_batch(examples((NESTED, SHARED_SUBJECT)))
    features = cascade.features(batch.rows)
    n, n_words = batch.n_sentences, features.shape[1]

    def of_spans(logits, pairs):
        start, end = logits.start[pairs.row, pairs.start], logits.end[pairs.row, pairs.last]
        return torch.stack((start, end, logits.match))

    start, end, match = cascade.entity_boundaries(features[:n])
    expected = cascade.entity_logits(features[:n], batch.pairs)
    torch.testing.assert_close((start, end, match(batch.pairs)), (expected.start, expected.end, expected.match))

    tags = cascade.tags(batch.given, (n, n_words))
    spans = torch.stack((batch.pairs.row, batch.pairs.start, batch.pairs.last), dim=1)
    subject_features = features[batch.subject_rows]
    found = torch.stack(cascade.subject_span_logits(subject_features, tags, spans))
    expected = of_spans(cascade.subject_logits(subject_features, tags, batch.pairs), batch.pairs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    object_features, pairs = features[batch.object_rows], batch.query_pairs
    place = {tuple(span): number for number, span in enumerate(spans.tolist())}
    columns = torch.stack((batch.queries.sentence[pairs.row], pairs.start, pairs.last), dim=1)
    span = torch.tensor([place[tuple(key)] for key in columns.tolist()])
    logits = cascade.object_span_logits(object_features, tags, batch.queries, spans)
    expected = of_spans(cascade.object_logits(object_features, tags, batch.queries, pairs), pairs)
    torch.testing.assert_close(torch.stack(logits(pairs.row, span)), expected, rtol=1e-4, atol=1e-5)
