"""Fusion: entity tags, subject tags (equation 11) and the subject as a span, compared with literal references."""

import pytest
import torch
from tests.small_models import NESTED, SHARED_SUBJECT, examples, small_model

from cascade_srn.network.cascade import OBJECT, SUBJECT
from cascade_srn.network.fusion import EntityTags, Queries, SubjectSpan, SubjectTag

N_TYPES, TAG_WIDTH = 3, 5
NONE = N_TYPES  # the row of the table for "no entity"


@pytest.fixture
def tags():
    torch.manual_seed(0)
    return EntityTags(N_TYPES, TAG_WIDTH)


def compute_tags(tags, spans, shape):
    """Compute the tags of ``spans``, (sentence, start, last, label)."""
    columns = torch.tensor(spans, dtype=torch.long).view(-1, 4).unbind(1)
    return tags(*columns, shape)


def test_flat_entities_are_the_papers_look_up(tags):
    spans = [(0, 0, 1, 2), (0, 3, 3, 0), (1, 1, 3, 1), (1, 4, 4, 1)]
    rows = [[NONE] * 5, [NONE] * 5]
    for sentence, start, last, label in spans:
        for word in range(start, last + 1):
            rows[sentence][word] = label
    expected = torch.stack([torch.stack([tags.table[row] for row in sentence]) for sentence in rows])
    assert torch.equal(compute_tags(tags, spans, (2, 5)), expected)


def test_a_word_in_several_entities_gets_the_sum_of_their_types(tags):
    table = tags.table
    found = compute_tags(tags, [(0, 0, 3, 0), (0, 1, 2, 1), (0, 2, 4, 2), (0, 2, 2, 1)], (1, 6))[0]
    expected = [table[0], table[0] + table[1], table[0] + table[1] + table[2], table[0] + table[2], table[2]]
    # The word in two entities of type 1 has that type once.
    torch.testing.assert_close(found, torch.stack([*expected, table[NONE]]))


def test_without_entities_every_word_is_in_no_entity(tags):
    found = compute_tags(tags, [], (2, 3))
    assert torch.equal(found, tags.table[NONE].expand(2, 3, TAG_WIDTH))


def test_an_entity_at_the_end_of_a_sentence_does_not_reach_the_next_one(tags):
    found = compute_tags(tags, [(0, 2, 2, 1)], (2, 3))
    torch.testing.assert_close(found[0, 2], tags.table[1])
    assert torch.equal(found[1], tags.table[NONE].expand(3, TAG_WIDTH))


def test_the_subject_tag_is_joined_to_the_words():
    torch.manual_seed(0)
    fusion = SubjectTag(4, 3)
    words = torch.randn(2, 5, 4)
    queries = Queries(torch.tensor([1, 0, 1]), torch.tensor([0, 4, 2]), torch.tensor([0, 4, 3]))
    inside = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 1, 0]]
    assert len(queries) == 3
    found = fusion(words, queries)
    assert found.shape == (3, 5, fusion.output_width) == (3, 5, 7)
    for query, sentence in enumerate([1, 0, 1]):
        for word in range(5):
            expected = torch.cat((words[sentence, word], fusion.table[inside[query][word]]))
            assert torch.equal(found[query, word], expected)


@pytest.fixture(scope="module")
def late():
    """Return cascade, batch, features and tags of the paper's late fusion on two sentences."""
    model = small_model("late")
    batch = model.collator.training_batch(examples((NESTED, SHARED_SUBJECT)))
    with torch.no_grad():
        features = model.cascade.features(batch.rows)
        tags = model.cascade.tags(batch.given, (2, features.shape[1]))
    return model.cascade, batch, features, tags


# Sets of the tasks e, s, o in the order of the sequence encoder: e, s, o, es, eo, so, eso.
SUBJECT_SETS, OBJECT_SETS = [1, 3, 5, 6], [2, 4, 5, 6]


def test_equation_11_subject(late):
    cascade, _, features, tags = late
    own = torch.cat([features[:, :, i] for i in SUBJECT_SETS], dim=-1)
    assert torch.equal(own, cascade.sequence.task(features, SUBJECT))
    assert torch.equal(cascade.subject_inputs(features, tags), torch.cat((tags, own), dim=-1))


def test_equation_11_object(late):
    """ĥ_o = [e_e, h_o, h_eo, h_so, h_eso, e_s], for each subject."""
    cascade, batch, features, tags = late
    own = torch.cat([features[:, :, i] for i in OBJECT_SETS], dim=-1)
    assert torch.equal(own, cascade.sequence.task(features, OBJECT))
    table = cascade.relations.subject_fusion.table
    with torch.no_grad():
        found = cascade.object_inputs(features, tags, batch.queries)
    asked = list(
        zip(
            *(column.tolist() for column in (batch.queries.sentence, batch.queries.start, batch.queries.last)),
            strict=True,
        )
    )
    assert asked == [(0, 0, 3), (0, 1, 2), (0, 5, 5), (1, 1, 1), (1, 3, 3), (1, 5, 5), (1, 7, 8)]
    for query, (sentence, start, last) in enumerate(asked):
        for word in range(features.shape[1]):
            subject_tag = table[1 if start <= word <= last else 0]
            expected = torch.cat((tags[sentence, word], own[sentence, word], subject_tag))
            assert torch.equal(found[query, word], expected)


def test_the_tags_are_those_of_the_gold_entities(late):
    cascade, _, _, tags = late
    table = cascade.relations.entity_tags.table
    metric, task, thing, none = table  # in the order of the schema
    expected = [thing, thing + task, thing + task, thing, none, thing]
    torch.testing.assert_close(tags[0, :6], torch.stack(expected))
    assert not torch.isclose(tags, metric).all(-1).any()


INPUT, WIDTH, LIMIT = 5, 4, 2


def queries_of(asked):
    return Queries(*torch.tensor(asked, dtype=torch.long).view(-1, 3).unbind(1))


@pytest.fixture
def fusion():
    torch.manual_seed(0)
    fusion = SubjectSpan(INPUT, WIDTH, max_distance=LIMIT)
    with torch.no_grad():  # a norm without weights would fail the comparison
        fusion.norm.weight.copy_(torch.randn(WIDTH))
        fusion.norm.bias.copy_(torch.randn(WIDTH))
    return fusion


def literal(fusion, words, start, last, word):
    """Compute the output for one word of one sentence and one subject."""
    mean = sum(words[i] for i in range(start, last + 1)) / (last - start + 1)
    for_sum, for_product = (
        fusion.word.weight @ words[word] + fusion.word.bias,
        fusion.subject.weight @ mean + fusion.subject.bias,
    )
    word_sum, word_product = for_sum[:WIDTH], for_sum[WIDTH:]
    subject_sum, subject_product = for_product[:WIDTH], for_product[WIDTH:]
    distance = word - start if word < start else word - last if word > last else 0
    distance = max(-LIMIT, min(LIMIT, distance))
    joined = word_sum + subject_sum + word_product * subject_product + fusion.distance[distance + LIMIT]
    normal = (joined - joined.mean()) / torch.sqrt(joined.var(correction=0) + fusion.norm.eps)
    normal = normal * fusion.norm.weight + fusion.norm.bias
    return normal * 0.5 * (1 + torch.erf(normal / 2**0.5))


def test_equals_a_literal_reference(fusion):
    words = torch.randn(3, 7, INPUT)
    asked = [(2, 0, 0), (0, 2, 4), (0, 6, 6), (1, 0, 6), (2, 3, 4)]
    found = fusion(words, queries_of(asked))
    assert found.shape == (5, 7, fusion.output_width)
    for query, (sentence, start, last) in enumerate(asked):
        for word in range(7):
            expected = literal(fusion, words[sentence], start, last, word)
            torch.testing.assert_close(found[query, word], expected, atol=1e-5, rtol=1e-5)


def test_distances_are_signed_counted_from_the_nearer_edge_and_clipped(fusion):
    with torch.no_grad():
        fusion.distance.copy_(torch.arange(-LIMIT, LIMIT + 1)[:, None].expand(-1, WIDTH))
    word = torch.arange(9)
    for (start, last), expected in {
        (3, 4): [-2, -2, -1, 0, 0, 1, 2, 2, 2],
        (0, 0): [0, 1, 2, 2, 2, 2, 2, 2, 2],
    }.items():
        assert fusion._embed_distance(word - start, word - last)[:, 0].tolist() == expected


def test_padding_does_not_reach_the_words(fusion):
    words = torch.randn(2, 6, INPUT)
    queries = queries_of([(0, 1, 2), (1, 3, 3)])
    padded = torch.cat((words, torch.full((2, 4, INPUT), 100.0)), dim=1)
    torch.testing.assert_close(fusion(padded, queries)[:, :6], fusion(words, queries))
