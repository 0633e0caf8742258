"""Decoding of tables: hand-made cases, and a comparison with completely filled tables."""

from dataclasses import replace

import pytest
import torch
from tests.small_models import EMPTY, SCHEMA, SENTENCES, examples, small_model, without_unrelated

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.lab.baselines.table_filling import pairs_of_words
from cascade_srn.lab.baselines.table_prediction import (
    decode_entities,
    decode_triples,
    most_confident,
    relation_candidates,
)
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.types import Span

METHODS = ("pfn", "table-srn")
NAMES = SCHEMA.relation_types


def _spread(method, seed=0, **settings):
    """Return a model whose predictions depend on the words."""
    model = small_model(method=method, **settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for table in (model.network.entities, model.network.relations):
            table.output.weight.copy_(torch.randn(table.output.weight.shape, generator=generator) * 1.5)
            table.output.bias.fill_(-0.5)
    return model


class TestDecoding:
    def test_entities_nest_cross_and_share_words(self):
        cells = [((0, 0, 3, 2), 0.9), ((0, 1, 2, 1), 0.8), ((0, 1, 2, 0), 0.7), ((1, 2, 2, 0), 0.6)]
        first, second = decode_entities(cells, SCHEMA.entity_types, 2)
        assert first == [Span(0, 4, "Thing"), Span(1, 3, "Metric"), Span(1, 3, "Task")]
        assert [span.score for span in first] == [0.9, 0.7, 0.8]
        assert second == [Span(2, 3, "Metric")]

    def test_a_cell_is_decoded_as_the_most_confident_entities_that_start_there(self):
        short, long, other = Span(0, 1, "Task", 0.6), Span(0, 3, "Thing", 0.9), Span(4, 5, "Thing", 0.7)
        (found,) = decode_triples([((0, 0, 4, 2), 0.8)], NAMES, [[short, long, other]])
        assert [(t.triple.head, t.triple.label, t.triple.tail) for t in found] == [(long, "used-for", other)]
        assert (found[0].subject, found[0].object) == (1.0, 0.8)
        assert found[0].triple.score == pytest.approx(0.8 * 0.9 * 0.7)

    def test_a_diagonal_cell_relates_two_entities_that_start_with_the_word(self):
        short, long = Span(0, 1, "Task", 0.6), Span(0, 3, "Thing", 0.9)
        (found,) = decode_triples([((0, 0, 0, 1), 0.8)], NAMES, [[short, long]])
        assert [(t.triple.head, t.triple.tail) for t in found] == [(long, short)]

    def test_a_diagonal_cell_relates_a_single_entity_to_itself(self):
        only = Span(0, 2, "Task", 0.6)
        (found,) = decode_triples([((0, 0, 0, 1), 0.8)], NAMES, [[only]])
        assert [(t.triple.head, t.triple.tail) for t in found] == [(only, only)]

    def test_several_relations_in_a_cell_and_both_directions(self):
        a, b = Span(0, 1, "Task", 0.6), Span(2, 3, "Thing", 0.9)
        cells = [((0, 0, 2, 0), 0.8), ((0, 0, 2, 2), 0.7), ((0, 2, 0, 0), 0.9)]
        (found,) = decode_triples(cells, NAMES, [[a, b]])
        assert [(t.triple.head, t.triple.label, t.triple.tail) for t in found] == [
            (a, "compare", b),
            (a, "used-for", b),
            (b, "compare", a),
        ]

    def test_candidates_are_pairs_of_first_words_of_entities(self):
        cells = relation_candidates(
            [[Span(1, 3, "Task"), Span(1, 2, "Task"), Span(4, 5, "Task")], [], [Span(0, 1, "Task")]]
        )
        found = list(zip(cells.row.tolist(), cells.start.tolist(), cells.last.tolist(), strict=True))
        assert found == [(0, 1, 1), (0, 1, 4), (0, 4, 1), (0, 4, 4), (2, 0, 0)]

    def test_given_entities_are_certain(self):
        given, found = Span(0, 1, "Task"), Span(0, 2, "Task", 0.99)
        assert most_confident([found, given]) is given


def _literal(model, sentence, thresholds, temperatures):
    """Run the published decoding: fill both tables, then drop relations whose words start no entity."""
    network, collator = model.network, model.collator
    rows = collator.pieces.batch([collator.plain(Example(sentence))])
    features, lengths = network.features(rows), rows.word_lengths
    spans, words = pairs_within(lengths), pairs_of_words(lengths)
    entity = (network.entity_logits(features, lengths, spans) / temperatures.entity).sigmoid()
    entities = [
        Span(int(spans.start[k]), int(spans.last[k]) + 1, SCHEMA.entity_types[label], float(entity[k, label]))
        for k in range(len(spans))
        for label in range(entity.shape[1])
        if entity[k, label] >= thresholds.entity
    ]
    relation = (network.relation_logits(features, lengths, words) / temperatures.object).sigmoid()
    triples = set()
    for k in range(len(words)):
        heads, tails = ([e for e in entities if e.start == int(at[k])] for at in (words.start, words.last))
        for label in range(relation.shape[1]):
            if heads and tails and relation[k, label] >= thresholds.object:
                head = max(heads, key=lambda e: e.score)
                tail = max([e for e in tails if e != head] or tails, key=lambda e: e.score)
                triples.add((head, NAMES[label], tail))
    return set(entities), triples


@pytest.mark.parametrize("method", METHODS)
class TestPredictor:
    def test_equals_the_published_decoding(self, method):
        temperatures = Temperatures(entity=1.3, subject=7.0, object=0.8)
        model = _spread(method, temperatures=temperatures)
        thresholds = Thresholds(0.55, 0.99, 0.45)
        found = model.predictor(thresholds=thresholds).predict(examples())
        with torch.no_grad():
            for sentence, predicted in zip(SENTENCES, found, strict=True):
                if len(sentence):
                    entities, triples = _literal(model, sentence, thresholds, temperatures)
                    assert set(predicted.entities) == entities
                    assert {(t.head, t.label, t.tail) for t in predicted.triples} == triples
        assert sum(len(s.entities) for s in found) > 10
        assert sum(len(s.triples) for s in found) > 10

    def test_results_do_not_depend_on_the_batch(self, method):
        model = _spread(method)
        sentences = [*SENTENCES, EMPTY, *SENTENCES[::-1]]
        results = [model.predictor(batch_words=n).predict(examples(sentences)) for n in (1, 25, 10_000)]
        assert [s.words for s in results[0]] == [s.words for s in sentences]
        assert results[0] == results[1] == results[2]
        assert any(s.triples for s in results[0])

    def test_given_entities_are_kept(self, method):
        found = _spread(method).predictor(thresholds=Thresholds(1.0, 0.5, 0.3)).predict(examples(), given_entities=True)
        assert [s.entities for s in found] == [s.entities for s in SENTENCES]
        assert any(s.triples for s in found)

    def test_gold_is_not_used(self, method):
        predictor = _spread(method).predictor()
        assert predictor.predict(examples()) == predictor.predict([Example(s.annotated((), ())) for s in SENTENCES])

    def test_labels_may_have_thresholds_of_their_own(self, method):
        model = _spread(method)
        low = Thresholds(0.3, 0.5, 0.3)
        strict = replace(low, entity_types={"Task": 0.6}, relation_types={"compare": 1.0})
        everything, found = (model.predictor(thresholds=t).predict(examples()) for t in (low, strict))
        assert any(e.label == "Task" and e.score < 0.6 for s in everything for e in s.entities)
        for all_of_it, less in zip(everything, found, strict=True):
            assert list(less.entities) == [e for e in all_of_it.entities if e.label != "Task" or e.score >= 0.6]
            assert "compare" not in {t.label for t in less.triples}

    def test_a_less_certain_entity_is_predicted_if_it_has_a_relation(self, method):
        model = _spread(method)
        thresholds = Thresholds(0.95, 0.5, 0.4, entity_types={"Task": 0.97}, related=0.6)
        low = replace(thresholds, entity=0.6, entity_types={}, related=None)
        everything, found = (model.predictor(thresholds=t).predict(examples()) for t in (low, thresholds))
        assert found == [without_unrelated(one, thresholds) for one in everything]
        n_less = [sum(e.score < 0.95 for s in sentences for e in s.entities) for sentences in (found, everything)]
        assert 0 < n_less[0] < n_less[1]

    def test_given_entities_need_no_relation_whatever_their_score(self, method):
        given = [Example(s.annotated([replace(e, score=0.01) for e in s.entities], ())) for s in SENTENCES]
        predictor = _spread(method).predictor(thresholds=Thresholds(0.95, 0.5, 1.0, related=0.6))
        assert predictor.predict(given, given_entities=True) == [example.sentence for example in given]

    def test_scores(self, method):
        for found in _spread(method).predictor().predict_with_scores(examples()):
            assert [scored.triple for scored in found.triples] == list(found.sentence.triples)
            assert all(s.subject == 1.0 and s.object >= 0.5 for s in found.triples)
            for triple, _, object_ in found.triples:
                assert triple.score == pytest.approx(object_ * triple.head.score * triple.tail.score)

    def test_a_model_in_training_is_refused(self, method):
        model = small_model(method=method)
        model.network.train()
        with pytest.raises(RuntimeError, match="training mode"):
            model.predictor().predict(examples())

    def test_entities_alone(self, method):
        found = small_model(method=method, joint=False).predictor(thresholds=Thresholds(0.0)).predict(examples())
        assert sum(len(s.entities) for s in found) > 10
        assert not any(s.triples for s in found)

    def test_half_precision_applies_before_the_tables(self, method):
        model = _spread(method)
        exact, bf16 = (model.predictor(precision=p) for p in ("float32", "bf16"))
        assert (exact.bf16, bf16.bf16) == (False, True)
        assert bf16.device.type == "cpu"
        n_found = [sum(len(s.entities) for s in p.predict(examples())) for p in (exact, bf16)]
        assert n_found[1] == pytest.approx(n_found[0], rel=0.2)
