import itertools
import math
from dataclasses import replace

import pytest
import torch
from tests.small_models import (
    EMPTY,
    NESTED,
    NO_ENTITY,
    SAME_SPAN,
    SCHEMA,
    SENTENCES,
    SHARED_SUBJECT,
    dense_match,
    examples,
    insert_markers,
    small_model,
    spread_probabilities,
    without_unrelated,
)

from cascade_srn.config import ENTITY_FUSIONS, PRESETS, SUBJECT_FUSIONS, Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.network.cascade import OBJECT, SUBJECT
from cascade_srn.network.examples import Example
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

EVERYTHING = Thresholds(0, 0, 0)


class Reference:
    """A slow, literal version of the three turns for one sentence: dense tables, loops, one subject at a time.

    ``thresholds`` are chosen such that about ``share`` of the candidates pass.
    """

    def __init__(self, model, example, *, share):
        self.model, self.cascade, self.collator = model, model.cascade, model.collator
        self.fusion = model.settings.fusion
        self.sentence = example.sentence
        self.plain = self.collator.plain(example)
        self.share = share

    @torch.no_grad()
    def predict(self, given=None):
        if given is None:
            words = self.cascade.entity_inputs(self.features(self.plain))[0]
            spans = list(itertools.combinations_with_replacement(range(len(self.sentence)), 2))
            self.entity, found = self.passing(self.cascade.entity_head, {0: words}, [(0, *s) for s in spans], 8)
            names = self.model.schema.entity_types
            entities = [Span(i, j + 1, names[label], match) for (_, i, j, label), match in found.items()]
        else:
            self.entity, entities = 0.5, list(given)
        self.entities = sorted(entities)
        spans = sorted({(e.start, e.end - 1) for e in entities})

        shown = self.plain
        if self.fusion.entities == "markers":
            shown = insert_markers(self.collator.markers, self.plain, self.entities)
        turns = self.cascade.relations
        words = torch.cat((*self.tags(), self.cascade.sequence.task(self.features(shown), SUBJECT)[0]), dim=-1)
        self.subject, subjects = self.passing(turns.subject_head, {0: words}, [(0, *s) for s in spans])

        asked = {(first, last): self.object_words(shown, first, last) for _, first, last, _ in subjects}
        pairs = [(subject, *span) for subject in asked for span in spans]
        self.object, objects = self.passing(turns.object_head, asked, pairs)
        triples = []
        for ((first, last), start, end, label), match in objects.items():
            head = self.best(first, last, None)
            tail = self.best(start, end, head)
            score = match * math.prod(1.0 if e.score is None else e.score for e in (head, tail))
            triples.append(Triple(head, self.model.schema.relation_types[label], tail, score))
        self.triples = sorted(triples)
        self.thresholds = Thresholds(self.entity, self.subject, self.object)
        return self

    def features(self, row):
        return self.cascade.features(self.collator.pieces.batch([row]))

    def tags(self):
        """Return a list with the entity tags of all words, or an empty list."""
        if self.fusion.entities != "tags":
            return []
        table = self.cascade.relations.entity_tags.table
        found = []
        for word in range(len(self.sentence)):
            types = {e.label for e in self.entities if e.start <= word < e.end}
            rows = [table[self.model.schema.entity_types.index(label)] for label in types]
            found.append(sum(rows) if rows else table[-1])
        return [torch.stack(found)]

    def object_words(self, shown, first, last):
        """ĥ_o for one subject."""
        if self.fusion.subject == "markers":
            entities = self.entities if self.fusion.entities == "markers" else []
            shown = insert_markers(self.collator.markers, self.plain, entities, (first, last + 1))
        words = torch.cat((*self.tags(), self.cascade.sequence.task(self.features(shown), OBJECT)[0]), dim=-1)
        fusion = self.cascade.relations.subject_fusion
        if self.fusion.subject == "tag":
            inside = [1 if first <= word <= last else 0 for word in range(len(words))]
            return torch.cat((words, fusion.table[inside]), dim=-1)
        if self.fusion.subject == "span":
            subject = fusion.subject(words[first : last + 1].mean(0))
            width, limit, joined = fusion.output_width, fusion.max_distance, []
            for at, word in enumerate(fusion.word(words)):
                distance = min(at - first, 0) + max(at - last, 0)
                near = fusion.distance[max(-limit, min(limit, distance)) + limit]
                joined.append(word[:width] + subject[:width] + word[width:] * subject[width:] + near)
            return torch.nn.functional.gelu(fusion.norm(torch.stack(joined)))
        return words

    def passing(self, head, words_of, spans, n_wanted=None):
        """Return a threshold, and the scores of the spans and labels that pass it.

        A span is (key, first word, last word). ``words_of`` has the vectors of all words by key.
        """
        tables = {
            key: tuple(logits.sigmoid() for logits in (head.start(words), head.end(words), dense_match(head, words)))
            for key, words in words_of.items()
        }
        scores = {}
        for key, first, last in spans:
            start, end, match = tables[key]
            for label in range(start.shape[1]):
                values = start[first, label], end[last, label], match[first, last, label]
                scores[key, first, last, label] = min(value.item() for value in values)
        wanted = n_wanted or max(1, int(len(scores) * self.share))
        threshold = gap_near(sorted(scores.values(), reverse=True), wanted)
        return threshold, {which: value for which, value in scores.items() if value >= threshold}

    def best(self, first, last, not_this):
        there = [e for e in self.entities if (e.start, e.end) == (first, last + 1)]
        others = [e for e in there if e != not_this] or there
        return sorted(others, key=lambda e: -(1.0 if e.score is None else e.score))[0]


def gap_near(falling, wanted):
    """Return a threshold that about ``wanted`` of the values pass, and that is not close to any of them."""
    gaps = [
        (abs(passing - wanted), (above + below) / 2)
        for passing, (above, below) in enumerate(itertools.pairwise(falling), start=1)
        if above - below > 1e-4
    ]
    return min(gaps)[1]


def assert_same(found, entities, triples):
    assert list(found.entities) == entities
    assert list(found.triples) == triples
    for got, expected in zip((*found.entities, *found.triples), (*entities, *triples), strict=True):
        assert got.score == (None if expected.score is None else pytest.approx(expected.score, abs=1e-5))


# The default tier runs the fusions that have names, the slow one all combinations.
AXES = [
    pytest.param(axes, id="-".join(axes), marks=() if axes in PRESETS.values() else pytest.mark.slow)
    for axes in itertools.product(ENTITY_FUSIONS, SUBJECT_FUSIONS)
]


@pytest.mark.parametrize("axes", AXES)
def test_the_three_turns_equal_a_literal_reference(axes):
    for matcher, sentence in (("mlp", NESTED), ("linear", SHARED_SUBJECT)):
        model = spread_probabilities(small_model(axes, matcher=matcher))
        example = Example(sentence.annotated((), ()))
        reference = Reference(model, example, share=0.5).predict()
        assert 4 <= len(reference.entities) <= 16
        assert len(reference.triples) > 3
        found = model.predictor(thresholds=reference.thresholds).predict([example])[0]
        assert_same(found, reference.entities, reference.triples)
        assert found.words == sentence.words


@pytest.mark.parametrize(("preset", "sequence_encoder"), [("early", "bisrn"), ("swift", "bilstm")])
def test_the_other_sequence_encoders_equal_the_reference(preset, sequence_encoder):
    model = spread_probabilities(small_model(preset, sequence_encoder))
    reference = Reference(model, Example(NESTED), share=0.5).predict()
    assert reference.triples
    found = model.predictor(thresholds=reference.thresholds).predict([Example(NESTED)])[0]
    assert_same(found, reference.entities, reference.triples)


@pytest.mark.parametrize("preset", PRESETS)
def test_given_entities_are_kept_and_relations_added(preset):
    model = spread_probabilities(small_model(preset))
    for sentence in (NESTED, SAME_SPAN, SHARED_SUBJECT):
        backwards = sentence.annotated(sentence.entities[::-1], ())  # in another order
        reference = Reference(model, Example(backwards), share=0.6).predict(given=backwards.entities)
        assert reference.triples
        predictor = model.predictor(thresholds=reference.thresholds)
        found = predictor.predict([Example(backwards)], given_entities=True)[0]
        assert_same(found, list(backwards.entities), reference.triples)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("score", [None, 0.7])
def test_the_order_of_given_entities_does_not_matter(preset, score):
    model = spread_probabilities(small_model(preset))
    predictor = model.predictor(thresholds=Thresholds(0.5, 0.0, 0.0))
    # Two of them have the same span.
    scored = [replace(entity, score=score) for entity in SAME_SPAN.entities]
    one, other = (
        predictor.predict([Example(SAME_SPAN.annotated(entities, ()))], given_entities=True)[0]
        for entities in (scored, scored[::-1])
    )
    assert one.triples == other.triples
    assert [t.score for t in one.triples] == [t.score for t in other.triples]
    assert one.triples


@pytest.mark.parametrize("preset", ["swift", "early"])
def test_given_relations_are_ignored(preset):
    model = spread_probabilities(small_model(preset))
    predictor = model.predictor(thresholds=Thresholds(0.5, 0.01, 0.01))
    bare = [Example(s.annotated(s.entities, ())) for s in SENTENCES]
    found = predictor.predict(examples(), given_entities=True)
    assert found == predictor.predict(bare, given_entities=True)
    assert [s.entities for s in found] == [s.entities for s in SENTENCES]
    assert any(s.triples for s in found)


def test_entities_of_the_input_are_ignored_unless_given():
    model = spread_probabilities(small_model("swift"))
    predictor = model.predictor(thresholds=Thresholds(0.3, 0.1, 0.1))
    bare = [Example(s.annotated((), ())) for s in SENTENCES]
    assert predictor.predict(examples()) == predictor.predict(bare)
    assert all(not s.entities for s in predictor.predict(bare, given_entities=True))


@pytest.mark.parametrize("axes", AXES)
def test_results_do_not_depend_on_the_batch(axes):
    model = spread_probabilities(small_model(axes))
    thresholds = Thresholds(0.4, 0.1, 0.1)
    sentences = [*SENTENCES, EMPTY, SHARED_SUBJECT, NO_ENTITY]
    results = [
        model.predictor(thresholds=thresholds, batch_words=n).predict([Example(s) for s in sentences])
        for n in (1, 25, 10_000)
    ]
    assert [s.words for s in results[0]] == [s.words for s in sentences]
    assert sum(len(s.triples) for s in results[0]) > 10
    assert not results[0][SENTENCES.index(EMPTY)].entities
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            assert_same(found, list(expected.entities), list(expected.triples))


def test_sentences_without_words():
    predictor = small_model("early").predictor(thresholds=EVERYTHING)
    assert predictor.predict([]) == []
    assert predictor.predict([Example(EMPTY)]) == [EMPTY]
    assert predictor.predict([Example(EMPTY)] * 2, given_entities=True) == [EMPTY, EMPTY]
    found = predictor.predict([Example(EMPTY), Example(Sentence.from_words(["tagger"])), Example(EMPTY)])
    assert [len(s.entities) for s in found] == [0, 3, 0]


def well_formed(sentence, schema):
    """Check that annotations are unique and have labels of the schema, and that scores are probabilities."""
    assert len(set(sentence.entities)) == len(sentence.entities)
    assert len(set(sentence.triples)) == len(sentence.triples)
    schema.check(sentence, "the prediction")
    for triple in sentence.triples:
        assert triple.head in sentence.entities
        assert triple.tail in sentence.entities
        assert 0 <= triple.score <= 1
    assert all(0 <= entity.score <= 1 for entity in sentence.entities)
    return True


@pytest.mark.parametrize("axes", AXES)
def test_when_everything_passes_everything_is_predicted_once(axes):
    model = small_model(axes)
    (found,) = model.predictor(thresholds=EVERYTHING).predict([Example(SAME_SPAN)])
    assert well_formed(found, SCHEMA)
    n_spans = 4 * 5 // 2
    assert len(found.entities) == n_spans * len(SCHEMA.entity_types)
    assert len(found.triples) == n_spans**2 * len(SCHEMA.relation_types)
    # The subject is the entity with the best score. So is the object, unless it has the same span.
    for triple in found.triples:
        head = triple.head
        there = [e for e in found.entities if (e.start, e.end) == (head.start, head.end)]
        assert head.score == max(e.score for e in there)
        assert head != triple.tail


def test_a_threshold_of_1_lets_nothing_pass():
    model = small_model("early")
    for thresholds in (Thresholds(1, 0, 0), Thresholds(0, 1, 0), Thresholds(0, 0, 1)):
        (found,) = model.predictor(thresholds=thresholds).predict([Example(Sentence.from_words(["a", "tagger"]))])
        assert found.triples == ()
        assert bool(found.entities) == (thresholds.entity == 0)


def test_a_model_in_training_mode_does_not_predict():
    model = small_model("swift")
    model.cascade.train()
    with pytest.raises(RuntimeError, match=r"eval\(\)"):
        model.predictor().predict(examples())


def test_context_changes_scores_but_not_positions():
    model = spread_probabilities(small_model("swift"))
    predictor = model.predictor(thresholds=EVERYTHING)
    bare, around = predictor.predict(
        [Example(SAME_SPAN), Example(SAME_SPAN, ("tagger",) * 5, ("data",) * 5)], given_entities=False
    )
    assert bare.entities == around.entities
    scores = [[e.score for e in s.entities] for s in (bare, around)]
    assert scores[0] != pytest.approx(scores[1], abs=1e-3)


class TestMemory:
    """If the device runs out of memory, the batch is halved and the results stay the same."""

    def _starved(self, model, monkeypatch, limit):
        """Return a predictor whose model runs out of memory above ``limit`` words, and the sizes of its batches."""
        predictor = model.predictor()
        features = model.cascade.features
        sizes = []

        def starved(rows, **options):
            if rows.word_items.numel() > limit:
                raise torch.OutOfMemoryError("no room")
            sizes.append(rows.word_items.numel())
            return features(rows, **options)

        monkeypatch.setattr(model.cascade, "features", starved)
        return predictor, sizes

    @pytest.mark.parametrize("preset", ["swift", "early"])
    def test_continues_with_smaller_batches_and_warns(self, preset, monkeypatch):
        model = small_model(preset)
        model.cascade.eval()
        examples = [Example(sentence) for sentence in SENTENCES] * 4
        expected = model.predictor().predict(examples)
        predictor, sizes = self._starved(model, monkeypatch, limit=60)
        with pytest.warns(UserWarning, match=r"ran out of memory on a batch of \d+ words") as warned:
            found = predictor.predict(examples)
        assert found == expected
        assert len(warned) == 1
        assert max(sizes) <= 60
        assert predictor.batch_words < 4096

    def test_one_sentence_with_fewer_subjects_at_once(self, monkeypatch):
        """With markers, turn 3 encodes a sentence once per subject, which can exceed the memory."""
        model = small_model("early", thresholds=Thresholds(0.5, 0, 0))
        model.cascade.eval()
        expected = model.predictor().predict([Example(NESTED)], given_entities=True)
        n_subjects = len({(triple.head.start, triple.head.end) for triple in expected[0].triples})
        assert n_subjects > 1
        predictor, sizes = self._starved(model, monkeypatch, limit=len(NESTED))
        with pytest.warns(UserWarning, match="ran out of memory"):
            found = predictor.predict([Example(NESTED)], given_entities=True)
        assert found == expected
        assert sizes[-n_subjects:] == [len(NESTED)] * n_subjects

    def test_one_sentence_that_does_not_fit_is_an_error(self, monkeypatch):
        model = small_model("swift")
        model.cascade.eval()
        predictor, _ = self._starved(model, monkeypatch, limit=1)
        with pytest.raises(torch.OutOfMemoryError), pytest.warns(UserWarning, match="ran out of memory"):
            predictor.predict([Example(sentence) for sentence in SENTENCES])


def test_half_precision_changes_features_little():
    model = small_model("swift")
    model.cascade.eval()
    rows = model.collator.pieces.batch([model.collator.plain(Example(sentence)) for sentence in SENTENCES])
    exact, bf16 = model.cascade.features(rows), model.cascade.features(rows, bf16=True)
    assert bf16.dtype == torch.float32
    assert not torch.equal(exact, bf16)
    torch.testing.assert_close(bf16, exact, rtol=0.1, atol=0.05)


@pytest.mark.parametrize(("precision", "bf16"), [("auto", False), ("float32", False), ("bf16", True)])
def test_precision(precision, bf16):
    assert small_model("swift").predictor(precision=precision).bf16 == bf16


@pytest.mark.parametrize(("device", "expected"), [("cpu", 4096), ("cuda", 16384)])
def test_a_gpu_gets_larger_batches(device, expected, monkeypatch):
    model = small_model("swift")
    monkeypatch.setattr(type(model), "device", torch.device(device))
    assert model.predictor().batch_words == expected
    assert model.predictor(batch_words=7).batch_words == 7


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"precision": "fp16"}, "'fp16'.* auto, float32, bf16"),
        ({"batch_words": 0}, "batch_words is 0"),
        ({"thresholds": Thresholds(entity_types={"Tusk": 0.5})}, "'Tusk'.* entity types .* 'Task'"),
        ({"thresholds": Thresholds(relation_types={"used": 0.5})}, "'used'.* relation types "),
    ],
)
def test_invalid_settings_are_refused(settings, named):
    with pytest.raises(ConfigError, match=named):
        small_model("swift").predictor(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_turn_3_in_parts_equals_turn_3_as_a_whole(preset, monkeypatch):
    model = spread_probabilities(small_model(preset))
    model.cascade.eval()
    predictor = model.predictor(thresholds=Thresholds(0.3, 0.1, 0.1))
    expected = predictor.predict(examples())
    assert any(len(sentence.triples) > 2 for sentence in expected)
    monkeypatch.setattr("cascade_srn.inference.torch_turns._PAIRS_AT_ONCE_ON_CPU", 2)
    found = predictor.predict(examples())
    assert found == expected
    for a, b in zip(found, expected, strict=True):
        assert [t.score for t in a.triples] == pytest.approx([t.score for t in b.triples], abs=1e-5)


def test_thresholds_of_labels():
    model = spread_probabilities(small_model("swift"))
    given = examples(SENTENCES)
    low = Thresholds(0.2, 0.05, 0.05)
    everything = model.predictor(thresholds=low).predict(given)
    entity_type, relation_type = SCHEMA.entity_types[0], SCHEMA.relation_types[-1]
    strict = Thresholds(0.2, 0.05, 0.05, entity_types={entity_type: 0.6}, relation_types={relation_type: 1.0})
    found = model.predictor(thresholds=strict).predict(given)
    assert any(e.label == entity_type and e.score < 0.6 for s in everything for e in s.entities)
    for all_of_it, less in zip(everything, found, strict=True):
        kept = [e for e in all_of_it.entities if e.label != entity_type or e.score >= 0.6]
        assert list(less.entities) == kept
        assert relation_type not in {t.label for t in less.triples}
    assert any(t.label == relation_type for s in everything for t in s.triples)


@pytest.mark.parametrize("preset", ["swift", "early"])
@pytest.mark.parametrize("given", [False, True])
def test_the_threshold_of_relations(preset, given):
    model = spread_probabilities(small_model(preset))
    low = Thresholds(0.2, 0.2, 0.2)
    found = model.predictor(thresholds=low).predict_with_scores(examples(), given_entities=given)
    scores = sorted(t.score for one in found for t in one.sentence.triples)
    min_score = scores[len(scores) // 2]
    less = model.predictor(thresholds=replace(low, relation=min_score)).predict_with_scores(
        examples(), given_entities=given
    )
    assert 0 < sum(len(one.triples) for one in less) < len(scores)
    for one, other in zip(found, less, strict=True):
        assert other.sentence.entities == one.sentence.entities
        assert [t.triple for t in other.triples] == [t.triple for t in one.triples if t.triple.score >= min_score]
        assert list(other.sentence.triples) == [t for t in one.sentence.triples if t.score >= min_score]


class TestRelated:
    """The threshold ``related``: entities that are predicted only if they have a relation."""

    thresholds = Thresholds(0.5, 0.2, 0.3, related=0.2)

    def _low(self, **others):
        """Return thresholds with which all entities that reach ``related`` are predicted."""
        return replace(self.thresholds, entity=0.2, related=None, **others)

    @pytest.mark.parametrize("preset", PRESETS)
    def test_entities_below_the_threshold_need_a_relation(self, preset):
        model = spread_probabilities(small_model(preset))
        low = model.predictor(thresholds=self._low()).predict(examples())
        found = model.predictor(thresholds=self.thresholds).predict(examples())
        for sentence, everything in zip(found, low, strict=True):
            expected = without_unrelated(everything, self.thresholds)
            assert_same(sentence, list(expected.entities), list(expected.triples))
        n_less = sum(e.score < 0.5 for s in found for e in s.entities)
        assert 0 < n_less < sum(e.score < 0.5 for s in low for e in s.entities)

    def test_thresholds_of_labels(self):
        own = {"Metric": 0.1, "Task": 0.8}
        model = spread_probabilities(small_model("swift"))
        thresholds = replace(self.thresholds, entity_types=own, relation_types={"used-for": 1.0})
        lower = self._low(entity_types={"Metric": 0.1}, relation_types={"used-for": 1.0})
        low, found = (model.predictor(thresholds=t).predict(examples()) for t in (lower, thresholds))
        for sentence, everything in zip(found, low, strict=True):
            expected = without_unrelated(everything, thresholds)
            assert_same(sentence, list(expected.entities), list(expected.triples))
        alone = [e for s in found for e in s.entities if e not in {x for t in s.triples for x in (t.head, t.tail)}]
        # A label with a threshold below ``related`` needs no relation. A label with a higher one does.
        assert any(e.label == "Metric" and e.score < 0.2 for e in alone)
        assert all(e.score >= 0.8 for e in alone if e.label == "Task")
        assert any(e.label == "Task" and 0.5 < e.score < 0.8 for s in low for e in s.entities)

    def test_a_dropped_relation_drops_its_entities(self):
        model = spread_probabilities(small_model("swift"))
        thresholds = replace(self.thresholds, relation=1.0)
        found = model.predictor(thresholds=thresholds).predict(examples())
        assert not any(sentence.triples for sentence in found)
        assert all(entity.score >= self.thresholds.entity for s in found for entity in s.entities)
        assert any(e.score < self.thresholds.entity for s in self._found(model) for e in s.entities)

    def _found(self, model):
        return model.predictor(thresholds=self.thresholds).predict(examples())

    @pytest.mark.parametrize("score", [None, 0.01])
    @pytest.mark.parametrize("preset", ["swift", "early"])
    def test_given_entities_are_kept_whatever_their_score(self, preset, score):
        model = spread_probabilities(small_model(preset))
        given = [
            Example(s.annotated([replace(e, score=score) for e in s.entities], ()))
            for s in (NESTED, SAME_SPAN, SHARED_SUBJECT)
        ]
        found = model.predictor(thresholds=replace(self.thresholds, object=1.0)).predict(given, given_entities=True)
        assert [s.entities for s in found] == [e.sentence.entities for e in given]
        assert not any(s.triples for s in found)


def test_annotations_are_sorted_whatever_the_order_of_labels():
    schema = Schema(("Thing", "Metric", "Task"), ("used-for", "compare", "part-of"), frozenset({"compare"}))
    model = spread_probabilities(small_model("swift", schema=schema))
    predictor = model.predictor(thresholds=Thresholds(0.3, 0.1, 0.1), overlaps="all")
    for found in predictor.predict_with_scores(examples()):
        assert list(found.sentence.entities) == sorted(found.sentence.entities)
        assert list(found.triples) == sorted(found.triples)
        assert found.sentence == found.sentence.annotated(found.sentence.entities, found.sentence.triples)
    assert len({label for s in predictor.predict(examples()) for label in (e.label for e in s.entities)}) > 1


def test_batches_hold_sentences_with_as_many_pieces():
    """Sentences with as many words can have very different numbers of pieces, to which a batch is padded."""
    model = small_model("swift")
    short, long = ["a"] * 10, ["a" * 16] * 10
    given = [Example(Sentence.from_words(words)) for words in (short, long) * 20]
    n_pieces = [len(model.collator.plain(example).pieces) for example in given]
    assert n_pieces[1] > 1.5 * n_pieces[0]
    batches = list(model.predictor(batch_words=200).batches(given))
    assert sorted(i for group, _ in batches for i in group) == list(range(len(given)))
    assert max(len(rows) for _, rows in batches) > 1
    padded = sum(len(rows) * max(len(row.pieces) for row in rows) for _, rows in batches)
    assert padded == sum(n_pieces)


def test_sentences_keep_their_order_whatever_their_batches(monkeypatch):
    model = spread_probabilities(small_model("swift"))
    given = examples(SENTENCES * 3)
    expected = [model.predictor(thresholds=EVERYTHING).predict([example])[0] for example in given]
    monkeypatch.setattr("cascade_srn.inference.predictor._SORTED_AT_ONCE", 2)
    found = model.predictor(thresholds=EVERYTHING, batch_words=12).predict(given)
    assert [s.words for s in found] == [s.words for s in expected]
    assert [s.entities for s in found] == [s.entities for s in expected]
