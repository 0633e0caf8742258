"""Several teachers label as a slow, literal reading of the three turns does."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.small_models import (
    NESTED,
    NO_ENTITY,
    NO_RELATION,
    SAME_SPAN,
    SHARED_SUBJECT,
    SYMMETRIC,
    dense_match,
    small_model,
)
from tests.training.distil.teachers import teacher

from cascade_srn.config import PRESETS
from cascade_srn.errors import ModelError, SchemaError
from cascade_srn.network.examples import Example
from cascade_srn.network.targets import KINDS
from cascade_srn.schema import Schema
from cascade_srn.training.distil.ensemble import Ensemble
from cascade_srn.training.distil.labelling import label_batches, predict
from cascade_srn.types import Span

pytestmark = pytest.mark.slow

SENTENCES = (NESTED, SAME_SPAN, NO_ENTITY, NO_RELATION, SHARED_SUBJECT, SYMMETRIC)
FLOOR = 0.05
EXAMPLES = [Example(sentence.annotated((), ())) for sentence in SENTENCES]


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


class Literal:
    """One sentence, one teacher and one place after the other."""

    def __init__(self, models, example, floor):
        self.models, self.example, self.floor = models, example, floor
        self.words, self.kept, self.certainty = len(example.sentence), {}, [1.0, 1.0, 1.0]
        self.label()

    def threshold(self, turn, label):
        found = []
        for model in self.models:
            thresholds, schema = model.settings.thresholds, model.schema
            own = {"entity": thresholds.entity_types, "subject": {}, "object": thresholds.relation_types}[turn]
            names = {"entity": schema.entity_types, "subject": ["-"], "object": schema.relation_types}[turn]
            found.append(own.get(names[label], getattr(thresholds, turn)))
        return sum(found) / len(found)

    def plain(self, model):
        n = model.settings.encoder.context_words
        left, right = self.example.left, self.example.right
        return model.collator.plain(Example(self.example.sentence, left[len(left) - n :] if n else (), right[:n]))

    def features(self, model, row):
        return model.cascade.features(model.collator.pieces.batch([row]))

    def turn(self, turn, query, tables):
        """Averages of one row: kept where they reach the floor; the scores of spans with temperatures."""
        n_labels = tables[0][0].shape[-1]

        def mean(kind, place, label, tempered):
            values = []
            for model, table in zip(self.models, tables, strict=True):
                temperature = getattr(model.settings.temperatures, turn) if tempered else 1
                values.append(sigmoid(table[KINDS.index(kind)][place][label].item() / temperature))
            return sum(values) / len(values)

        spans = list(itertools.combinations_with_replacement(range(self.words), 2))
        for kind in KINDS:
            places = spans if kind == "match" else range(self.words)
            for at, place in enumerate(places):
                for label in range(n_labels):
                    value = mean(kind, place, label, False)
                    if value >= self.floor:
                        self.kept[f"{turn}.{kind}", query, at * n_labels + label] = value
        return {
            (first, last, label): min(
                mean("start", first, label, True),
                mean("end", last, label, True),
                mean("match", (first, last), label, True),
            )
            for first, last in spans
            for label in range(n_labels)
        }

    def decide(self, turn, score, label):
        threshold = self.threshold(turn, label)
        odds = score / (1 - score) / (threshold / (1 - threshold))
        at = ("entity", "subject", "object").index(turn)
        self.certainty[at] = min(self.certainty[at], abs(2 * odds / (1 + odds) - 1))
        return score >= threshold

    def logits(self, head, words):
        return head.start(words), head.end(words), dense_match(head, words)

    @torch.no_grad()
    def label(self):
        schema = self.models[0].schema
        tables = [
            self.logits(m.cascade.entity_head, m.cascade.entity_inputs(self.features(m, self.plain(m)))[0])
            for m in self.models
        ]
        scores = self.turn("entity", 0, tables)
        self.entities = {
            (first, last + 1, schema.entity_types[label]): score
            for (first, last, label), score in scores.items()
            if self.decide("entity", score, label)
        }
        spans = sorted({(start, end) for start, end, _ in self.entities})
        self.n_queries = len(spans)
        sentence = self.example.sentence.annotated([Span(*key) for key in sorted(self.entities)], ())
        told = [
            (m, m.collator.training_batch([replace(self.example, sentence=sentence, **self.context(m))]))
            for m in self.models
        ]
        # The collator and the network of training, one sentence at a time.
        features = [m.cascade.features(batch.rows) for m, batch in told]
        tags = [m.cascade.tags(batch.given, (1, self.words)) for m, batch in told]
        tables = [
            self.logits(m.cascade.relations.subject_head, m.cascade.subject_inputs(f[batch.subject_rows], tag)[0])
            for (m, batch), f, tag in zip(told, features, tags, strict=True)
        ]
        scores = self.turn("subject", 0, tables)
        subjects = {span for span in spans if self.decide("subject", scores[span[0], span[1] - 1, 0], 0)}
        self.relations = {}
        words = [
            m.cascade.object_inputs(f[batch.object_rows], tag, batch.queries)
            for (m, batch), f, tag in zip(told, features, tags, strict=True)
        ]
        for query, subject in enumerate(spans):
            tables = [
                self.logits(m.cascade.relations.object_head, w[query]) for m, w in zip(self.models, words, strict=True)
            ]
            scores = self.turn("object", query, tables)
            for (start, end), (label, name) in itertools.product(spans, enumerate(schema.relation_types)):
                score = scores[start, end - 1, label]
                if subject in subjects and self.decide("object", score, label):
                    self.relations[subject, name, (start, end)] = score

    def context(self, model):
        n = model.settings.encoder.context_words
        left, right = self.example.left, self.example.right
        return {"left": left[len(left) - n :] if n else (), "right": right[:n]}


def assert_same(models, examples, batch_words=64):
    ensemble = Ensemble(models, floor=FLOOR, batch_words=batch_words)
    seen = 0
    n_entities = n_relations = 0
    for members, found in label_batches(ensemble, examples):
        first_query = np.cumsum(found.n_queries) - found.n_queries
        for row, at in enumerate(members):
            expected = Literal(models, examples[at], FLOOR)
            sentence = found.sentences[row]
            assert sentence.words == examples[at].sentence.words
            assert found.n_queries[row] == expected.n_queries
            entities = {(e.start, e.end, e.label): e.score for e in sentence.entities}
            assert entities == pytest.approx(expected.entities, abs=1e-5)
            # Of a relation's score the rest is that of its entities, which are as expected.
            relations = {
                ((t.head.start, t.head.end), t.label, (t.tail.start, t.tail.end)): t.score / t.head.score / t.tail.score
                for t in sentence.triples
            }
            assert relations == pytest.approx(expected.relations, abs=1e-5)
            assert found.certainty[row].tolist() == pytest.approx(expected.certainty, abs=2e-3)
            kept = {}
            for name, entries in found.tables.items():
                first = first_query[row] if name.startswith("object") else row
                count = expected.n_queries if name.startswith("object") else 1
                for entry, position, probability in zip(
                    entries.row, entries.position, entries.probability, strict=True
                ):
                    if first <= entry < first + count:
                        kept[name, entry - first, position] = float(probability)
            assert kept == pytest.approx(expected.kept, abs=1e-3)
            seen += 1
            n_entities, n_relations = n_entities + len(entities), n_relations + len(relations)
    assert seen == len(examples)
    # Something is decided on, and not everything.
    assert n_entities > 3
    assert n_relations > 0
    return n_entities, n_relations


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_one_teacher(preset):
    assert_same([teacher(0, preset)], EXAMPLES)


@pytest.mark.slow
def test_teachers_of_different_fusions_thresholds_and_temperatures():
    assert_same([teacher(0, "swift"), teacher(1, "early"), teacher(2, "hybrid")], EXAMPLES)


@pytest.mark.slow
def test_teachers_that_see_different_contexts():
    examples = [
        replace(example, left=("we", "train", "a", "parser"), right=("data", "helps", "search"))
        for example in EXAMPLES[:3]
    ]
    contexts = [{"context_words": 3}, {}, {"context_words": 2}]
    models = [teacher(i, f, encoder=contexts[i]) for i, f in enumerate(("swift", "swift", "early"))]
    assert Ensemble(models).context_words == 3
    assert_same(models, examples)


@pytest.mark.parametrize("preset", ["swift", "early"])
def test_one_teacher_decides_what_it_predicts(preset):
    model = teacher(1, preset)
    examples = [*EXAMPLES, Example(NESTED.annotated((), ()).from_words([]))]
    found = predict(Ensemble([model]), examples)
    for ours, theirs in zip(found, model.predictor().predict(examples), strict=True):
        assert ours == theirs
        assert [e.score for e in ours.entities] == pytest.approx([e.score for e in theirs.entities])
        assert [t.score for t in ours.triples] == pytest.approx([t.score for t in theirs.triples])


def test_a_threshold_for_entities_with_a_relation_is_not_used():
    """What a student learns of turns 2 and 3 is to hold for the entities that the sentence has."""
    plain = teacher(0)
    thresholds = replace(plain.settings.thresholds, related=0.1)
    model = replace(plain, settings=replace(plain.settings, thresholds=thresholds))
    found = predict(Ensemble([model]), EXAMPLES)
    assert found == predict(Ensemble([plain]), EXAMPLES)
    assert found != model.predictor().predict(EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["swift", "early"])
def test_turn_3_in_small_groups(preset, monkeypatch):
    whole = predict(Ensemble([teacher(0, preset)]), EXAMPLES)
    monkeypatch.setattr("cascade_srn.training.distil.turns._PAIRS_PER_GROUP", 30)
    assert predict(Ensemble([teacher(0, preset)], batch_words=20), EXAMPLES) == whole
    assert_same([teacher(0, preset)], EXAMPLES, batch_words=20)


def test_teachers_that_read_alike_share_their_rows():
    models = [teacher(0), teacher(1), teacher(2, "early"), teacher(3, "late")]
    prepared = Ensemble(models).prepare(EXAMPLES)
    # Markers are further tokens; tags and spans are not.
    assert len(prepared.rows) == 2


def test_teachers_of_turn_1_alone():
    ensemble = Ensemble([teacher(0, joint=False), teacher(1, joint=False)])
    ((_, found),) = label_batches(ensemble, EXAMPLES)
    assert {name.partition(".")[0] for name in found.tables} == {"entity"}
    assert found.n_queries.tolist() == [0] * len(EXAMPLES)
    assert any(sentence.entities for sentence in found.sentences)


def test_teachers_with_other_labels_are_refused():
    other = Schema(("Metric", "Thing", "Word"), ("compare", "part-of", "used-for"), frozenset({"compare"}))
    with pytest.raises(SchemaError, match=r"'Task'.*'Word'"):
        Ensemble([small_model(), small_model(schema=other)])


def test_teachers_of_two_kinds_are_refused():
    with pytest.raises(ModelError, match="some teachers"):
        Ensemble([small_model(), small_model(joint=False)])


def test_a_batch_that_memory_does_not_hold_is_taken_in_halves(monkeypatch):
    ensemble = Ensemble([teacher(0)])
    whole = predict(ensemble, EXAMPLES)
    label = ensemble.label

    def narrow(prepared):
        if len(prepared.examples) > 2:
            raise torch.OutOfMemoryError("too much")
        return label(prepared)

    monkeypatch.setattr(ensemble, "label", narrow)
    with pytest.warns(UserWarning, match="6 sentences") as told:
        assert predict(ensemble, EXAMPLES) == whole
    assert len(told) == 1
