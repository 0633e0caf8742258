"""Entities that share words: which are kept, and where their relations go."""

import random
from dataclasses import replace
from itertools import combinations

import pytest
from tests.small_models import NESTED, SENTENCES, examples, small_model, spread_probabilities

from cascade_srn import Extractor, Thresholds
from cascade_srn.config import OVERLAPS, ModelSettings
from cascade_srn.errors import ConfigError
from cascade_srn.inference.decode import (
    ScoredTriple,
    SearchResult,
    find_survivors,
    have_overlaps,
    relation_score,
    select_entities,
)
from cascade_srn.network.examples import Example
from cascade_srn.types import Sentence, Span, Triple

LOW = Thresholds(0.2, 0.1, 0.1)


def margin(entity):
    return entity.score


def random_entities(seed):
    """Return up to nine entities of a short sentence. Few distinct scores, so that ties are frequent."""
    rng = random.Random(seed)
    found = {}
    for _ in range(rng.randint(0, 9)):
        start = rng.randrange(8)
        span = Span(start, rng.randint(start + 1, min(10, start + 5)), rng.choice("AB"), rng.choice((0, 0.25, 0.5, 1)))
        found.setdefault(span, span)
    return sorted(found.values())


def share_words(first, second):
    return first.start < second.end and second.start < first.end


def cross(first, second):
    return first.start < second.start < first.end < second.end or second.start < first.start < second.end < first.end


def is_flat(entities):
    return not any(share_words(*pair) for pair in combinations(entities, 2))


def is_nested(entities):
    return not any(
        cross(*pair) or (pair[0].start, pair[0].end) == (pair[1].start, pair[1].end)
        for pair in combinations(entities, 2)
    )


def value(entities):
    """Return what a flat selection maximises. Scores are multiples of a quarter, so that sums are exact."""
    n_words = [entity.end - entity.start for entity in entities]
    return sum(margin(e) * n for e, n in zip(entities, n_words, strict=True)), sum(n_words), -len(entities)


def subsets(entities):
    return (chosen for size in range(len(entities) + 1) for chosen in combinations(entities, size))


@pytest.mark.parametrize("seeds", [range(150), range(150, 300)])
def test_flat_is_optimal(seeds):
    n_overlapping = 0
    for seed in seeds:
        entities = random_entities(seed)
        kept = select_entities(entities, "flat", margin)
        assert is_flat(kept)
        assert value(kept) == max(map(value, filter(is_flat, subsets(entities))))
        n_overlapping += len(kept) < len(entities)
    assert n_overlapping > 50


def test_nested_is_greedy_by_weight():
    n_nested = n_dropped = 0
    for seed in range(300):
        entities = random_entities(seed)
        expected = []
        for entity in sorted(entities, key=lambda e: (-e.score * (e.end - e.start), e.start - e.end, e)):
            if is_nested([*expected, entity]):
                expected.append(entity)
        kept = select_entities(entities, "nested", margin)
        assert kept == sorted(expected)
        n_nested += not is_flat(kept)
        n_dropped += len(kept) < len(entities)
    assert min(n_nested, n_dropped) > 50


@pytest.mark.parametrize("overlaps", OVERLAPS)
def test_entities_that_share_no_word_are_kept(overlaps):
    alone = [Span(0, 1, "A", 0.0), Span(1, 4, "B", 0.0), Span(6, 7, "A", 0.9)]
    assert not have_overlaps(alone)
    assert select_entities(alone, overlaps, margin) == alone
    # A margin of 0 is no reason to drop an entity next to a group that overlaps.
    group = [Span(8, 10, "A", 0.5), Span(9, 11, "A", 0.4)]
    assert set(alone) <= set(select_entities([*alone, *group], overlaps, margin))
    assert select_entities([], overlaps, margin) == []


def test_two_mediocre_parts_do_not_replace_a_good_whole():
    whole, parts = Span(0, 4, "A", 0.9), [Span(0, 2, "A", 0.6), Span(2, 4, "A", 0.7)]
    assert select_entities([whole, *parts], "flat", margin) == [whole]
    better = [replace(part, score=0.95) for part in parts]
    assert select_entities([whole, *better], "flat", margin) == better


def test_the_better_of_two_types_is_kept():
    first, second = Span(0, 2, "A", 0.4), Span(0, 2, "B", 0.6)
    for overlaps in ("flat", "nested"):
        assert select_entities([first, second], overlaps, margin) == [second]
        assert select_entities([first, replace(second, score=0.4)], overlaps, margin) == [first]
    assert select_entities([first, second], "all", margin) == [first, second]


def test_survivors():
    kept = [Span(0, 4, "A", 0.9), Span(5, 6, "A", 0.5), Span(6, 9, "A", 0.5)]
    inside, across, apart = Span(1, 2, "B", 0.3), Span(5, 7, "B", 0.3), Span(4, 5, "B", 0.3)
    found = find_survivors([*kept, inside, across, apart], kept)
    assert found == {**{entity: entity for entity in kept}, inside: kept[0], across: kept[1]}
    for seed in range(200):
        entities = random_entities(seed)
        chosen = select_entities(entities, "nested", margin)
        for entity, survivor in find_survivors(entities, chosen).items():
            assert survivor == entity if entity in chosen else share_words(entity, survivor)


def result(n_words, entities, *triples):
    """Make a search result. A triple is (head, label, tail, object score)."""
    scored = sorted(
        ScoredTriple(Triple(head, label, tail, relation_score(head, tail, score)), 0.9, score)
        for head, label, tail, score in triples
    )
    sentence = Sentence.from_words(["word"] * n_words, entities, [one.triple for one in scored])
    return SearchResult(sentence, scored)


class Found:
    """A search that always finds the same."""

    def __init__(self, found):
        self.found = found

    def find(self, examples, rows, *, given_entities):
        return [self.found for _ in examples]


def resolved(found, overlaps="flat", thresholds=LOW):
    """Return what a predictor makes of a search result."""
    predictor = small_model().predictor(thresholds=thresholds, overlaps=overlaps)
    predictor.search = lambda settings: Found(found)
    (kept,) = predictor.predict_with_scores([Example(found.sentence)])
    assert [one.triple for one in kept.triples] == list(kept.sentence.triples)
    return kept


class TestEdges:
    """Quotes at the edges of entities. Words: " CRF " for ( NER"""

    words = ('"', "CRF", '"', "for", "(", "NER")
    quoted, bare, task = Span(0, 3, "Task", 0.6), Span(1, 2, "Task", 0.9), Span(4, 6, "Thing", 0.8)

    def found(self, entities, *triples):
        made = result(6, entities, *triples)
        return made._replace(
            sentence=Sentence.from_words(self.words, made.sentence.entities, made.sentence.triples),
        )

    def test_are_trimmed_with_their_relations(self):
        kept = resolved(self.found((self.quoted, self.task), (self.quoted, "used-for", self.task, 0.5)))
        head, tail = Span(1, 2, "Task"), Span(5, 6, "Thing")
        assert kept.sentence.entities == (head, tail)
        assert [entity.score for entity in kept.sentence.entities] == [0.6, 0.8]
        assert kept.sentence.triples == (Triple(head, "used-for", tail),)

    def test_of_entities_that_become_equal_the_best_is_kept(self):
        given = (self.quoted, "used-for", self.task, 0.9), (self.bare, "used-for", self.task, 0.5)
        kept = resolved(self.found((self.quoted, self.bare, self.task), *given), overlaps="all")
        assert [(entity.start, entity.score) for entity in kept.sentence.entities] == [(1, 0.9), (5, 0.8)]
        (scored,) = kept.triples
        assert scored.object == 0.9

    def test_an_entity_of_quotes_alone_is_dropped_with_its_relations(self):
        quote = Span(2, 3, "Task", 0.9)
        kept = resolved(self.found((quote, self.task), (quote, "used-for", self.task, 0.9)))
        assert (kept.sentence.entities, kept.triples) == ((Span(5, 6, "Thing"),), [])


class TestRelations:
    best, worse, other, last = (
        Span(0, 3, "Task", 0.9),
        Span(1, 4, "Thing", 0.5),
        Span(6, 7, "Thing", 0.8),
        Span(7, 8, "Thing", 0.4),
    )
    entities = (best, worse, other, last)

    def test_are_moved_to_the_entity_that_is_kept(self):
        found = resolved(result(8, self.entities, (self.worse, "used-for", self.other, 0.5)))
        assert found.sentence.entities == (self.best, self.other, self.last)
        ((triple, subject, object_),) = found.triples
        assert triple == Triple(self.best, "used-for", self.other)
        assert (subject, object_) == (0.9, 0.5)
        assert triple.score == pytest.approx(0.5 * 0.9 * 0.8)

    def test_of_both_sides(self):
        crossing = Span(5, 7, "Task", 0.3)
        found = resolved(result(8, (*self.entities, crossing), (crossing, "part-of", self.worse, 0.5)))
        assert found.sentence.triples == (Triple(self.other, "part-of", self.best),)

    def test_with_themselves_are_dropped(self):
        found = resolved(result(8, self.entities, (self.worse, "part-of", self.best, 0.9)))
        assert found.sentence.triples == ()
        assert found.sentence.entities == (self.best, self.other, self.last)

    @pytest.mark.parametrize(("moved", "own"), [(0.9, 0.4), (0.4, 0.9)])
    def test_of_duplicates_the_better_is_kept(self, moved, own):
        given = (self.worse, "used-for", self.other, moved), (self.best, "used-for", self.other, own)
        (scored,) = resolved(result(8, self.entities, *given)).triples
        assert scored.object == 0.9
        assert scored.triple.score == pytest.approx(0.9 * 0.9 * 0.8)

    def test_that_are_moved_must_pass_the_threshold_of_relations(self):
        weak = Span(0, 4, "Metric", 0.45)  # longer than the entity with the better score
        strong = Span(3, 4, "Task", 0.95)
        found = result(8, (weak, strong, self.other), (strong, "used-for", self.other, 0.5))
        thresholds = replace(LOW, relation=0.3)
        kept = resolved(found, thresholds=thresholds)
        assert kept.sentence.entities == (weak, self.other)
        assert kept.triples == []
        assert len(resolved(found, "all", thresholds).triples) == 1

    def test_an_entity_that_loses_its_only_relation(self):
        """It was kept for its relation, which has become one with itself."""
        whole, part = Span(0, 3, "Task", 0.35), Span(0, 1, "Thing", 0.32)
        found = result(8, (whole, part, self.other), (part, "part-of", whole, 0.9))
        thresholds = replace(LOW, entity=0.5, related=0.3)
        assert resolved(found, thresholds=thresholds).sentence.entities == (self.other,)
        assert resolved(found, "nested", thresholds).sentence.entities == (whole, part, self.other)


def test_weights_are_relative_to_the_threshold_of_the_type():
    first, second = Span(0, 2, "Task", 0.6), Span(1, 3, "Thing", 0.7)
    found = result(3, (first, second))
    assert resolved(found).sentence.entities == (second,)
    thresholds = replace(LOW, entity_types={"Thing": 0.65})
    assert resolved(found, thresholds=thresholds).sentence.entities == (first,)


@pytest.mark.parametrize("method", ["cascade", "pfn", "table-srn"])
def test_every_model_family_is_resolved(method):
    model = small_model(method=method)
    if method == "cascade":
        model = spread_probabilities(model)
    thresholds = LOW if method == "cascade" else Thresholds(0.0, 0.0, 0.0)
    found = {o: model.predictor(thresholds=thresholds, overlaps=o).predict(examples()) for o in OVERLAPS}
    assert any(not is_nested(sentence.entities) for sentence in found["all"])
    assert any(not is_flat(sentence.entities) for sentence in found["nested"])
    assert all(is_nested(sentence.entities) for sentence in found["nested"])
    assert all(is_flat(sentence.entities) for sentence in found["flat"])
    for everything, flat in zip(found["all"], found["flat"], strict=True):
        assert set(flat.entities) <= set(everything.entities)
        assert all(triple.head != triple.tail for triple in flat.triples)
    assert sum(len(sentence.triples) for sentence in found["flat"])


def test_given_entities_are_all_kept():
    model = spread_probabilities(small_model())
    predictor = model.predictor(thresholds=LOW, overlaps="flat")
    (found,) = predictor.predict([Example(NESTED)], given_entities=True)
    assert found.entities == NESTED.entities
    everything = model.predictor(thresholds=LOW, overlaps="all").predict([Example(NESTED)], given_entities=True)
    assert [found] == everything


def test_defaults():
    model = spread_probabilities(small_model(overlaps=None))
    assert model.overlaps == "flat"
    stored = replace(model, settings=replace(model.settings, overlaps="nested"))
    assert stored.predictor().overlaps == Extractor(stored).predictor().overlaps == "nested"
    extractor = Extractor(stored, overlaps="all")
    text = " ".join(SENTENCES[4].words)
    assert extractor.predictor().overlaps == "all"
    everything = extractor.extract(text, thresholds=LOW)
    flat = extractor.extract(text, thresholds=LOW, overlaps="flat")
    assert not is_flat(everything.entities)
    assert is_flat(flat.entities)
    assert list(extractor.stream([text], thresholds=LOW, overlaps="flat")) == [flat]
    assert Extractor(model).extract(text, thresholds=LOW) == flat


def test_unknown_values():
    for make in (
        lambda: Extractor(small_model(), overlaps="some"),
        lambda: Extractor.from_pretrained("no such model", overlaps="some"),
        lambda: Extractor(small_model()).extract("a tagger", overlaps="some"),
        lambda: ModelSettings.from_dict({"encoder": {"name": "x"}, "overlaps": "some"}),
    ):
        with pytest.raises(ConfigError) as raised:
            make()
        assert raised.value.option == "overlaps"
