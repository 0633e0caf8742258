"""Prediction with the baselines: hand-made cases, and comparisons with literal references."""

from dataclasses import replace

import pytest
import torch
from tests.small_models import EMPTY, SCHEMA, SENTENCES, examples, small_model, without_unrelated

from cascade_srn.config import BaselineSettings, Temperatures, Thresholds
from cascade_srn.lab.baselines.pipeline import ordered_pairs
from cascade_srn.lab.baselines.prediction import (
    accept_labels,
    decode_entities,
    decode_triples,
    most_confident,
    relation_candidates,
)
from cascade_srn.lab.baselines.table_filling import pairs_of_words
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.types import Span

METHODS = ("pfn", "table-srn", "pipeline")
NAMES = SCHEMA.relation_types
MAX_WORDS = 2


def _spread(method, seed=0, **settings):
    """Return a model whose predictions depend on the words."""
    model = small_model(method=method, baseline=BaselineSettings(max_span_words=MAX_WORDS), **settings)
    generator = torch.Generator().manual_seed(seed)
    first, scales = ("spans", (1.0, 0.2)) if method == "pipeline" else ("entities", (1.5, 1.5))
    with torch.no_grad():
        for name, scale, none in zip((first, "relations"), scales, (1.0, 0.5), strict=True):
            output = getattr(model.network, name).output
            output.weight.copy_(torch.randn(output.weight.shape, generator=generator) * scale)
            output.bias.fill_(0 if method == "pipeline" else -0.5)
            if method == "pipeline":
                output.bias[0] = none
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


def _fill_tables(model, sentence, thresholds, temperatures):
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


def _classify_one_at_a_time(model, sentence, thresholds, temperatures):
    """Read one span and one pair at a time."""
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


@pytest.mark.parametrize("method", METHODS)
class TestPredictor:
    @pytest.mark.slow
    def test_equals_the_published_decoding(self, method):
        temperatures = Temperatures(entity=1.3, subject=7.0, object=0.8)
        model = _spread(method, temperatures=temperatures)
        literal, thresholds = _fill_tables, Thresholds(0.55, 0.99, 0.45)
        if method == "pipeline":
            literal, thresholds = _classify_one_at_a_time, Thresholds(0.45, 0.99, 0.6)
        found = model.predictor(thresholds=thresholds).predict(examples())
        with torch.no_grad():
            for sentence, predicted in zip(SENTENCES, found, strict=True):
                if len(sentence):
                    entities, triples = literal(model, sentence, thresholds, temperatures)
                    assert set(predicted.entities) == entities
                    assert {(t.head, t.label, t.tail) for t in predicted.triples} == triples
        assert sum(len(s.entities) for s in found) > 8
        assert sum(len(s.triples) for s in found) > 8

    @pytest.mark.slow
    def test_results_do_not_depend_on_the_batch(self, method):
        model = _spread(method)
        sentences = [*SENTENCES[:4], EMPTY, *SENTENCES[2::-1]]
        results = [model.predictor(batch_words=n).predict(examples(sentences)) for n in (1, 40, 10_000)]
        assert [s.words for s in results[0]] == [s.words for s in sentences]
        assert results[0] == results[1] == results[2]
        assert any(s.triples for s in results[0])

    def test_given_entities_are_kept_whatever_their_length(self, method):
        found = _spread(method).predictor(thresholds=Thresholds(1.0, 0.5, 0.1)).predict(examples(), given_entities=True)
        assert [s.entities for s in found] == [s.entities for s in SENTENCES]
        assert any(t.head.end - t.head.start == 4 for t in found[0].triples)

    def test_labels_may_have_thresholds_of_their_own(self, method):
        model = _spread(method)
        low = Thresholds(0.3, 0.5, 0.2)
        everything = model.predictor(thresholds=low).predict(examples())
        scores = sorted(e.score for s in everything for e in s.entities if e.label == "Task")
        assert scores[0] < scores[-1]
        assert any(t.label == "compare" for s in everything for t in s.triples)
        # Rounding differs between batches.
        level = scores[-1] - 1e-5
        strict = replace(low, entity_types={"Task": level}, relation_types={"compare": 1.0})
        for all_of_it, less in zip(everything, model.predictor(thresholds=strict).predict(examples()), strict=True):
            assert list(less.entities) == [e for e in all_of_it.entities if e.label != "Task" or e.score >= level]
            assert "compare" not in {t.label for t in less.triples}

    def test_a_less_certain_entity_is_predicted_if_it_has_a_relation(self, method):
        model = _spread(method)
        thresholds = Thresholds(0.95, 0.5, 0.4, entity_types={"Task": 0.97}, related=0.6)
        if method == "pipeline":
            model = _spread(method, temperatures=Temperatures(entity=4.0, object=4.0))
            thresholds = Thresholds(0.85, 0.5, 0.82, entity_types={"Task": 0.9}, related=0.7)
        low = replace(thresholds, entity=thresholds.related, entity_types={}, related=None)
        everything, found = (model.predictor(thresholds=t).predict(examples()) for t in (low, thresholds))
        assert found == [without_unrelated(one, thresholds) for one in everything]
        n_less = [sum(e.score < thresholds.entity for s in each for e in s.entities) for each in (found, everything)]
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

    def test_entities_alone(self, method):
        found = small_model(method=method, joint=False).predictor(thresholds=Thresholds(0.0)).predict(examples())
        assert sum(len(s.entities) for s in found) > 10
        assert not any(s.triples for s in found)

    @pytest.mark.slow
    def test_bf16(self, method):
        model = _spread(method)
        exact, reduced = (model.predictor(precision=p) for p in ("auto", "bf16"))
        assert (exact.bf16, reduced.bf16) == (False, True)
        assert reduced.device.type == "cpu"
        n_found = [sum(len(s.entities) for s in p.predict(examples())) for p in (exact, reduced)]
        assert n_found[1] == pytest.approx(n_found[0], rel=0.2)


class TestPipeline:
    def test_no_span_is_longer_than_the_longest(self):
        found = _spread("pipeline").predictor(thresholds=Thresholds(0.0, 0.5, 1.0)).predict(examples())
        assert {e.end - e.start for s in found for e in s.entities} == {1, 2}

    def test_pairs_are_not_read_where_none_can_pass(self, monkeypatch):
        model = _spread("pipeline")
        monkeypatch.setattr(model.network, "pair_logits", None)
        found = model.predictor(thresholds=Thresholds(0.1, 1.0, 1.0)).predict(examples())
        assert any(s.entities for s in found)
