"""The two models of the pipeline against references that put vectors side by side."""

import pytest
import torch
from tests.small_models import NO_ENTITY, SENTENCES, examples, small_model
from torch.nn.functional import cross_entropy, layer_norm, linear

from cascade_srn.config import BaselineSettings, LossWeights, TurnWeights
from cascade_srn.lab.baselines.pipeline import PairClassifier, SpanClassifier
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.span_extraction import pairs_within


@pytest.mark.parametrize("training", [True, False])
def test_a_span_is_its_first_word_its_last_word_and_its_length(training):
    model = SpanClassifier(5, 3, max_words=2, length_width=4, hidden_width=6, dropout=0.0).double().train(training)
    lengths, words = torch.tensor([3, 1]), torch.randn(2, 4, 5).double()
    spans = pairs_within(lengths, 2)
    found = model(words, spans)
    weight = torch.cat((model.first.weight, model.last.weight, model.length.weight), dim=1)
    for k, (row, first, last) in enumerate(zip(spans.row, spans.start, spans.last, strict=True)):
        joined = torch.cat((words[row, first], words[row, last], model.lengths.weight[last - first]))
        hidden = linear(joined, weight, model.first.bias).relu()
        hidden = linear(hidden, model.hidden.weight, model.hidden.bias).relu()
        expected = linear(hidden, model.output.weight, model.output.bias)
        torch.testing.assert_close(found[k], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_a_pair_is_the_markers_that_open_it(training):
    model = PairClassifier(5, 3, dropout=0.0).double().train(training)
    with torch.no_grad():
        model.norm.weight.copy_(torch.randn(10))
        model.norm.bias.copy_(torch.randn(10))
    items, openings = torch.randn(3, 7, 5).double(), torch.tensor([[0, 4], [2, 1], [6, 6]])
    found = model(items, openings)
    for k, (subject, object_) in enumerate(openings.tolist()):
        both = torch.cat((items[k, subject], items[k, object_]))
        both = layer_norm(both, (10,), model.norm.weight, model.norm.bias, model.norm.eps)
        expected = linear(both, model.output.weight, model.output.bias)
        torch.testing.assert_close(found[k], expected, rtol=0, atol=1e-12)
    assert model(torch.zeros(0, 0, 5).double(), torch.zeros(0, 2, dtype=torch.long)).shape == (0, 4)


class TestNetwork:
    def test_the_encoders_start_equal_and_share_nothing(self):
        encoder = small_model(method="pipeline").network.encoder
        first, second = (dict(e.named_parameters()) for e in (encoder.entities, encoder.relations))
        assert first.keys() == second.keys()
        for name, parameter in first.items():
            assert torch.equal(parameter, second[name])
            assert parameter is not second[name]
            assert parameter.data_ptr() != second[name].data_ptr()

    def test_each_loss_has_gradients_in_its_own_model_only(self):
        model = small_model(method="pipeline")
        network = model.network.train()
        batch = model.collator.training_batch(examples())
        entity_parts = [network.encoder.entities, network.spans]
        relation_parts = [network.encoder.relations, network.relations]
        for part, own, other in (("entity", entity_parts, relation_parts), ("object", relation_parts, entity_parts)):
            network.zero_grad()
            getattr(network(batch, model.settings.loss_weights), part).backward()
            for module in own:
                assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())
            for module in other:
                assert all(p.grad is None for p in module.parameters())

    @pytest.mark.parametrize("training", [True, False])
    def test_the_loss_is_the_cross_entropy_of_spans_and_of_pairs(self, training):
        model = small_model(method="pipeline", baseline=BaselineSettings(max_span_words=3))
        network = model.network.train(training)
        batch = model.collator.training_batch(examples())
        with torch.no_grad():
            loss = network(batch, TurnWeights(entity=LossWeights(match=0.5), object=LossWeights(match=0.25)))
            spans = network.span_logits(batch.rows, batch.spans)
            pairs = network.pair_logits(batch.pair_rows, batch.openings)
        expected = [
            sum(float(cross_entropy(x, y)) for x, y in zip(*both, strict=True))
            for both in ((spans, batch.types), (pairs, batch.relations))
        ]
        n = len(SENTENCES)
        assert float(loss.entity) == pytest.approx(0.5 * expected[0] / n, rel=1e-5)
        assert float(loss.object) == pytest.approx(0.25 * expected[1] / n, rel=1e-5)
        assert float(loss.subject) == 0

    def test_the_loss_does_not_depend_on_order_or_padding(self):
        model = small_model(method="pipeline")

        def loss(sentences):
            batch = model.collator.training_batch(examples(sentences))
            return float(model.network(batch, model.settings.loss_weights).total.detach())

        alone = [loss((sentence,)) for sentence in SENTENCES]
        assert loss(SENTENCES) == pytest.approx(sum(alone) / len(alone), rel=1e-5)
        assert loss(SENTENCES[::-1]) == pytest.approx(loss(SENTENCES), rel=1e-5)

    def test_without_pairs_there_is_a_loss_and_a_gradient(self):
        model = small_model(method="pipeline")
        loss = model.network(model.collator.training_batch(examples((NO_ENTITY,))), model.settings.loss_weights)
        loss.total.backward()
        assert float(loss.object.detach()) == 0

    def test_entities_alone(self):
        model = small_model(method="pipeline", joint=False)
        network = model.network
        assert network.relations is None
        assert network.encoder.relations is None
        # There are no markers, and the vocabulary is that of the encoder.
        assert not model.collator.markers.ids
        assert "[S:Task_S]" not in model.tokenizer.get_vocab()
        loss = network(
            model.collator.training_batch(examples(), BatchSettings(joint=False)), model.settings.loss_weights
        )
        assert loss.total == loss.entity > 0
        with pytest.raises(ValueError, match="relation model"):
            network.pair_logits(None, None)
