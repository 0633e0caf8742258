import itertools

import pytest
import torch
from tests.small_models import NESTED, NO_RELATION, SAME_SPAN, SCHEMA, examples, small_model

from cascade_srn.config import ENTITY_FUSIONS, MATCHERS, SEQUENCE_ENCODERS, SUBJECT_FUSIONS
from cascade_srn.network.fusion import EntityTags, SubjectSpan, SubjectTag
from cascade_srn.network.sequence import BiLSTM
from cascade_srn.network.span_extraction import LinearMatcher, MlpMatcher
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.schema import Schema

SENTENCES = (NESTED, SAME_SPAN)


@pytest.mark.parametrize("matcher", MATCHERS)
@pytest.mark.parametrize("sequence_encoder", SEQUENCE_ENCODERS)
def test_every_sequence_encoder_and_matcher(sequence_encoder, matcher):
    model = small_model("swift", sequence_encoder, matcher=matcher)
    cascade = model.cascade
    assert isinstance(cascade.sequence, BiLSTM if sequence_encoder == "bilstm" else SelectionRecurrentNetwork)
    for head in (cascade.entity_head, cascade.relations.subject_head, cascade.relations.object_head):
        assert isinstance(head.matcher, LinearMatcher if matcher == "linear" else MlpMatcher)
    with torch.no_grad():
        loss = cascade.loss(model.collator.training_batch(examples(SENTENCES)), model.settings.loss_weights)
    for part in (loss.entity, loss.subject, loss.object):
        assert part.isfinite()
        assert part > 0


@pytest.mark.parametrize(("entities", "subject"), list(itertools.product(ENTITY_FUSIONS, SUBJECT_FUSIONS)))
def test_the_axes_determine_the_modules(entities, subject):
    model = small_model((entities, subject))
    turns = model.cascade.relations
    fusions = {"markers": type(None), "tag": SubjectTag, "span": SubjectSpan}
    assert type(turns.subject_fusion) is fusions[subject]
    assert isinstance(turns.entity_tags, EntityTags) == (entities == "tags")
    with torch.no_grad():
        loss = model.cascade.loss(model.collator.training_batch(examples(SENTENCES)), model.settings.loss_weights)
    assert loss.total.isfinite()


@pytest.mark.parametrize("preset", ["early", "swift"])
def test_a_schema_without_relations_makes_an_entity_model(preset):
    model = small_model(preset, schema=Schema(SCHEMA.entity_types))
    assert model.cascade.relations is None
    batch = model.collator.training_batch(examples((NO_RELATION,)))
    with torch.no_grad():
        loss = model.cascade.loss(batch, model.settings.loss_weights)
    assert loss.entity.isfinite()
    assert loss.total == loss.entity > 0


def test_dropout_reaches_the_network_and_the_heads():
    cascade = small_model("swift", dropout=0.3).cascade
    assert cascade.dropout.p == cascade.entity_head.dropout.p == cascade.relations.object_head.dropout.p == 0.3
    assert small_model("swift").cascade.dropout.p == 0.0
    apart = small_model("swift", dropout=0.1, head_dropout=0.4).cascade
    assert apart.dropout.p == 0.1
    assert apart.entity_head.dropout.p == apart.relations.subject_head.dropout.p == 0.4
