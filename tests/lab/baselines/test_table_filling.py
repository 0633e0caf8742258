"""Tables, compared with a reference that computes every cell separately."""

import pytest
import torch
from tests.small_models import SCHEMA, SENTENCES, examples, small_model
from torch.nn.functional import binary_cross_entropy_with_logits, elu, layer_norm, linear

from cascade_srn.config import BaselineSettings, LossWeights, TurnWeights
from cascade_srn.lab.baselines.table_filling import Table, entity_cells, pairs_of_words, relation_cells
from cascade_srn.network.span_extraction import Pairs

METHODS = ("pfn", "table-srn")


def literal_table(table, words, own, shared):
    """All n² cells of one sentence. Shapes: (n_words, …) each; returns (n_words, n_words, n_labels)."""
    n = len(words)
    each = torch.tanh(linear(torch.cat((own, shared), dim=-1), table.pooled.weight, table.pooled.bias))
    pooled = torch.stack([each[:, k].max() for k in range(each.shape[1])])
    weight = torch.cat((table.first.weight, table.second.weight, table.sentence.weight), dim=1)
    logits = torch.zeros(n, n, table.output.out_features, dtype=words.dtype)
    for i in range(n):
        for j in range(n):
            hidden = linear(torch.cat((words[i], words[j], pooled)), weight, table.first.bias)
            hidden = elu(layer_norm(hidden, hidden.shape, table.norm.weight, table.norm.bias, table.norm.eps))
            logits[i, j] = linear(hidden, table.output.weight, table.output.bias)
    return logits


def _randomised(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.6)
    return module


@pytest.mark.parametrize("training", [True, False])
def test_cells_equal_the_reference_with_any_padding(training):
    table = _randomised(Table(5, 3, 4).double()).train(training)
    lengths = torch.tensor([4, 0, 2, 1])
    words, features = torch.randn(4, 6, 5).double(), torch.randn(4, 6, 2, 3).double()
    cells = pairs_of_words(lengths)
    found = table(words, features, lengths, cells)
    for row, n in enumerate(lengths.tolist()):
        here = cells.row == row
        if n:
            expected = literal_table(table, words[row, :n], features[row, :n, 0], features[row, :n, 1])
            torch.testing.assert_close(found[here].view(n, n, 4), expected, rtol=0, atol=1e-12)
    spoilt = words.clone(), features.clone()
    for row, n in enumerate(lengths.tolist()):
        spoilt[0][row, n:], spoilt[1][row, n:] = 1e3, 1e3
    assert torch.equal(table(*spoilt, lengths, cells), found)


def test_dropout_is_between_norm_and_activation():
    table = _randomised(Table(5, 3, 4, dropout=0.5).double()).train()
    with torch.no_grad():
        table.norm.weight.zero_()
        table.norm.bias.fill_(-1.0)
    words, features, lengths = torch.randn(1, 9, 5).double(), torch.randn(1, 9, 2, 3).double(), torch.tensor([9])
    found = table(words, features, lengths, pairs_of_words(lengths))
    # What is dropped is 0 before ELU, and what is kept twice as far below it.
    kept = elu(torch.tensor([-2.0, 0.0], dtype=torch.float64))
    choices = torch.cartesian_prod(kept, kept, kept)
    expected = linear(choices, table.output.weight, table.output.bias)
    distances = (found[:, None] - expected[None]).abs().amax(dim=-1)
    assert distances.min(dim=1).values.max() < 1e-12
    assert len(set(distances.argmin(dim=1).tolist())) == len(choices)


@pytest.mark.parametrize("method", METHODS)
class TestNetwork:
    @pytest.mark.parametrize("training", [True, False])
    def test_the_loss_is_that_of_all_cells_of_both_tables(self, method, training):
        model = small_model(method=method, baseline=BaselineSettings(drop_connect=0.0))
        network = model.network.train(training)
        batch = model.collator.training_batch(examples())
        with torch.no_grad():
            loss = network(batch, TurnWeights(entity=LossWeights(match=0.5), object=LossWeights(match=0.25)))
        features = network.features(batch.rows)
        entity = relation = 0.0
        for row, sentence in enumerate(SENTENCES):
            n = len(sentence)
            if n == 0:
                continue
            own = features[row, :n].detach()
            for task, table, cells in ((0, network.entities, entity_cells), (1, network.relations, relation_cells)):
                words = network.sequence.task(own, task)
                logits = literal_table(table, words, own[:, task], own[:, 2]).detach()
                targets = torch.zeros_like(logits)
                for cell in cells(sentence, SCHEMA):
                    targets[cell] = 1.0
                each = binary_cross_entropy_with_logits(logits, targets, reduction="none")
                if task == 0:
                    entity += float(each[torch.triu(torch.ones(n, n)).bool()].sum())
                else:
                    relation += float(each.sum())
        assert float(loss.entity) == pytest.approx(0.5 * entity / len(SENTENCES), rel=1e-4)
        assert float(loss.object) == pytest.approx(0.25 * relation / len(SENTENCES), rel=1e-4)
        assert float(loss.subject) == 0
        assert float(loss.total) == pytest.approx(float(loss.entity + loss.object))

    def test_the_loss_does_not_depend_on_order_or_padding(self, method):
        model = small_model(method=method)
        weights = model.settings.loss_weights

        def loss(sentences):
            return float(model.network(model.collator.training_batch(examples(sentences)), weights).total.detach())

        alone = [loss((sentence,)) for sentence in SENTENCES]
        assert loss(SENTENCES) == pytest.approx(sum(alone) / len(alone), rel=1e-5)
        assert loss(SENTENCES[::-1]) == pytest.approx(loss(SENTENCES), rel=1e-5)

    def test_gradients_reach_every_weight(self, method):
        model = small_model(method=method)
        model.network.train()
        model.network(model.collator.training_batch(examples()), model.settings.loss_weights).total.backward()
        for name, parameter in model.network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0 or "position" in name or "token_type" in name, name

    def test_entities_alone(self, method):
        model = small_model(method=method, joint=False)
        assert model.network.relations is None
        loss = model.network(model.collator.training_batch(examples()), model.settings.loss_weights)
        assert loss.total == loss.entity > 0
        none = torch.zeros(0, dtype=torch.long)
        with pytest.raises(ValueError, match="relation table"):
            model.network.relation_logits(torch.zeros(1, 1, 3, 6), torch.tensor([1]), Pairs(none, none, none))


def test_pfn_has_the_drop_connect_of_the_settings():
    assert small_model(method="pfn", baseline=BaselineSettings(0.3)).network.sequence.drop_connect == 0.3
