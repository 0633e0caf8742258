"""Prediction with the pipeline, compared with a reference of one span and one pair at a time."""

from dataclasses import replace

import pytest
import torch
from tests.small_models import EMPTY, NO_ENTITY, SCHEMA, SENTENCES, examples, small_model, without_unrelated

from cascade_srn.config import BaselineSettings, Temperatures, Thresholds
from cascade_srn.lab.baselines.pipeline import ordered_pairs
from cascade_srn.lab.baselines.pipeline_prediction import accept_labels
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.types import Span

MAX_WORDS = 2


def _spread(seed=0, **settings):
    """Return a model whose predictions depend on the words."""
    model = small_model(method="pipeline", baseline=BaselineSettings(max_span_words=MAX_WORDS), **settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for head, scale, none in ((model.network.spans, 1.0, 1.0), (model.network.relations, 0.2, 0.5)):
            head.output.weight.copy_(torch.randn(head.output.weight.shape, generator=generator) * scale)
            head.output.bias.zero_()
            head.output.bias[0] = none
    return model


def test_the_likeliest_label_is_accepted_where_it_is_likelier_than_none():
    # Of the classes none, a and b; probabilities are those of a softmax.
    logits = torch.tensor([[0.5, 0.4, 0.1], [0.2, 0.3, 0.5], [0.4, 0.1, 0.5], [0.3, 0.35, 0.35]]).log()
    at, label, score = accept_labels(logits, torch.tensor([0.5, 0.5]), 1.0)
    assert at.tolist() == [1, 2, 3]
    assert label.tolist()[:2] == [1, 1]
    torch.testing.assert_close(score, torch.tensor([0.5 / 0.7, 0.5 / 0.9, 0.35 / 0.65]))
    assert torch.equal(logits.argmax(1).bool().nonzero()[:, 0], at)


def test_a_threshold_of_1_accepts_nothing():
    assert len(accept_labels(torch.tensor([[0.0, 100.0]]), torch.tensor([1.0]), 1.0)[0]) == 0
    assert len(accept_labels(torch.tensor([[0.0, 100.0]]), torch.tensor([0.99]), 1.0)[0]) == 1


def test_labels_have_thresholds_and_temperatures_move_scores_towards_one_half():
    logits = torch.tensor([[0.0, 1.0, -1.0], [0.0, -1.0, 1.0]])
    assert accept_labels(logits, torch.tensor([0.8, 0.7]), 1.0)[0].tolist() == [1]
    hot, cold = (accept_labels(logits, torch.tensor([0.5, 0.5]), t)[2] for t in (4.0, 1.0))
    assert (hot < cold).all()
    assert (hot > 0.5).all()


def _literal(model, sentence, thresholds, temperatures):
    network, collator = model.network, model.collator
    plain = collator.plain(Example(sentence))
    rows = collator.pieces.batch([plain])
    spans = pairs_within(rows.word_lengths, MAX_WORDS)
    entities = []
    for k, logits in enumerate(network.span_logits(rows, spans)):
        label = int(logits[1:].argmax())
        odds = ((logits[1 + label] - logits[0]) / temperatures.entity).exp()
        if odds / (1 + odds) >= thresholds.entity:
            entities.append(Span(int(spans.start[k]), int(spans.last[k]) + 1, SCHEMA.entity_types[label]))
    triples = set()
    for subject, object_ in ordered_pairs(entities):
        (row,), (openings,) = collator.with_pairs([plain], [(0, subject, object_)])
        (logits,) = network.pair_logits(collator.pieces.batch([row]), torch.tensor([openings]))
        label = int(logits[1:].argmax())
        odds = ((logits[1 + label] - logits[0]) / temperatures.object).exp()
        if odds / (1 + odds) >= thresholds.object:
            triples.add((subject, SCHEMA.relation_types[label], object_))
    return set(entities), triples


@pytest.mark.slow
def test_equals_one_span_and_one_pair_at_a_time():
    temperatures = Temperatures(entity=1.3, subject=7.0, object=0.8)
    model = _spread(temperatures=temperatures)
    thresholds = Thresholds(0.45, 0.99, 0.6)
    found = model.predictor(thresholds=thresholds).predict(examples())
    with torch.no_grad():
        for sentence, predicted in zip(SENTENCES, found, strict=True):
            if len(sentence):
                entities, triples = _literal(model, sentence, thresholds, temperatures)
                assert set(predicted.entities) == entities
                assert {(t.head, t.label, t.tail) for t in predicted.triples} == triples
    assert sum(len(s.entities) for s in found) > 8
    assert sum(len(s.triples) for s in found) > 8


@pytest.mark.slow
def test_results_do_not_depend_on_the_batch():
    model = _spread()
    sentences = [*SENTENCES[:4], EMPTY, *SENTENCES[2::-1]]
    results = [model.predictor(batch_words=n).predict(examples(sentences)) for n in (1, 40, 10_000)]
    assert [s.words for s in results[0]] == [s.words for s in sentences]
    assert results[0] == results[1] == results[2]
    assert any(s.triples for s in results[0])


def test_no_span_is_longer_than_the_longest():
    found = _spread().predictor(thresholds=Thresholds(0.0, 0.5, 1.0)).predict(examples())
    assert {e.end - e.start for s in found for e in s.entities} == {1, 2}


def test_given_entities_may_be_longer():
    found = _spread().predictor(thresholds=Thresholds(1.0, 0.5, 0.1)).predict(examples(), given_entities=True)
    assert [s.entities for s in found] == [s.entities for s in SENTENCES]
    assert any(t.head.end - t.head.start == 4 for t in found[0].triples)


def test_labels_may_have_thresholds_of_their_own():
    model = _spread()
    low = Thresholds(0.3, 0.5, 0.2)
    strict = replace(low, relation_types={"compare": 1.0})
    everything, found = (model.predictor(thresholds=t).predict(examples()) for t in (low, strict))
    assert any(t.label == "compare" for s in everything for t in s.triples)
    for all_of_it, less in zip(everything, found, strict=True):
        assert list(less.triples) == [t for t in all_of_it.triples if t.label != "compare"]


def test_a_less_certain_entity_is_predicted_if_it_has_a_relation():
    model = _spread(temperatures=Temperatures(entity=4.0, object=4.0))
    thresholds = Thresholds(0.85, 0.5, 0.82, entity_types={"Task": 0.9}, related=0.7)
    low = replace(thresholds, entity=0.7, entity_types={}, related=None)
    everything, found = (model.predictor(thresholds=t).predict(examples()) for t in (low, thresholds))
    assert found == [without_unrelated(one, thresholds) for one in everything]
    n_less = [sum(e.score < 0.85 for s in sentences for e in s.entities) for sentences in (found, everything)]
    assert 0 < n_less[0] < n_less[1]


def test_given_entities_need_no_relation_whatever_their_score():
    given = [Example(s.annotated([replace(e, score=0.01) for e in s.entities], ())) for s in SENTENCES]
    predictor = _spread().predictor(thresholds=Thresholds(0.85, 0.5, 1.0, related=0.7))
    assert predictor.predict(given, given_entities=True) == [example.sentence for example in given]


def test_pairs_are_not_read_where_none_can_pass(monkeypatch):
    model = _spread()
    monkeypatch.setattr(model.network, "pair_logits", None)
    found = model.predictor(thresholds=Thresholds(0.1, 1.0, 1.0)).predict(examples())
    assert any(s.entities for s in found)


def test_scores():
    for found in _spread().predictor().predict_with_scores(examples()):
        assert [scored.triple for scored in found.triples] == list(found.sentence.triples)
        assert all(s.subject == 1.0 and s.object >= 0.5 for s in found.triples)
        for triple, _, object_ in found.triples:
            assert triple.score == pytest.approx(object_ * triple.head.score * triple.tail.score)


def test_nothing_found_is_nothing_related():
    found = _spread().predictor(thresholds=Thresholds(1.0)).predict(examples((NO_ENTITY, EMPTY)))
    assert not any(s.entities or s.triples for s in found)


def test_entities_alone():
    model = small_model(method="pipeline", joint=False)
    found = model.predictor(thresholds=Thresholds(0.0)).predict(examples())
    assert sum(len(s.entities) for s in found) > 10
    assert not any(s.triples for s in found)


def test_a_model_in_training_is_refused():
    model = small_model(method="pipeline")
    model.network.train()
    with pytest.raises(RuntimeError, match="training mode"):
        model.predictor().predict(examples())


@pytest.mark.parametrize(("precision", "bf16"), [("auto", False), ("bf16", True)])
def test_precision(precision, bf16):
    predictor = small_model(method="pipeline").predictor(precision=precision)
    assert predictor.bf16 == bf16
    assert predictor.device.type == "cpu"


@pytest.mark.slow
def test_batches_shrink_when_memory_is_short(monkeypatch):
    model = _spread()
    expected = model.predictor().predict(examples())
    span_logits = model.network.span_logits

    def starved(rows, *arguments, **options):
        if rows.word_items.numel() > 20:
            raise torch.OutOfMemoryError("out of memory")
        return span_logits(rows, *arguments, **options)

    monkeypatch.setattr(model.network, "span_logits", starved)
    predictor = model.predictor()
    with pytest.warns(UserWarning, match="memory"):
        assert predictor.predict(examples()) == expected
    assert predictor.batch_words < 4096
