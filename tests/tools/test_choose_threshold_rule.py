"""``tools/choose_threshold_rule.py``: simulated predictions are those of the model, and rules choose what they say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities
from tools.choose_threshold_rule import LEVELS, main
from tools.threshold_rules import Candidates, Choice, Rule, best_counted, best_expected, candidate_rules, score_choice

from cascade_srn import Document, write_documents
from cascade_srn.config import Thresholds
from cascade_srn.evaluation.scores import score

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A model, sentences that it annotated with other thresholds, and the collected candidates of the two."""
    folder = tmp_path_factory.mktemp("collected")
    model = spread_probabilities(small_model("swift"))
    model.save(folder / "model")
    found = model.predictor(thresholds=Thresholds(0.45, 0.2, 0.5)).predict(
        [e for e in examples(SENTENCES) if len(e.sentence)]
    )
    write_documents([Document.from_sentences([s], id=str(i)) for i, s in enumerate(found)], folder / "data.jsonl")
    path = folder / "out.npz"
    assert main(["collect", str(folder / "model"), str(folder / "data.jsonl"), str(path), "--device", "cpu"]) == 0
    return model, found, path


@pytest.mark.parametrize(("level", "related"), [(9, 9), (11, 8)])
def test_a_choice_scores_as_the_model_does_with_these_thresholds(collected, level, related):
    model, gold, path = collected
    found = Candidates.load(path)
    n_types, n_relations = len(model.schema.entity_types), len(model.schema.relation_types)
    entity, low = LEVELS[level], LEVELS[related]
    choice = Choice(np.full(n_types, entity), np.full(n_types, low), 0.3, np.full(n_relations, 0.4))
    thresholds = Thresholds(entity, 0.3, 0.4, related=None if level == related else low)
    words = [e for e in examples(SENTENCES) if len(e.sentence)]
    scores = score(gold, model.predictor(thresholds=thresholds).predict(words), schema=model.schema)
    expected = [100 * part.counts.f1 for part in (scores.ner, scores.re_boundaries, scores.re_strict)]
    assert score_choice(found, choice) == pytest.approx(expected)
    assert expected[0] > 50


def test_documents_are_taken_with_their_candidates(collected):
    found = Candidates.load(collected[2])
    halves = [0, 2], [1, 3, 4, 5]
    parts = [found.take(np.array(numbers)) for numbers in halves]
    for name in ("entity_score", "triple_object"):
        assert sum(len(part.columns[name]) for part in parts) == len(found.columns[name])
    for part, numbers in zip(parts, halves, strict=True):
        assert (part.entity_sentence[part.triple_head] == part.entity_sentence[part.triple_tail]).all()
        assert set(part.entity_document) <= set(numbers)
    assert sum(int(part.gold[0].sum()) for part in parts) == int(found.gold[0].sum())


def test_thresholds_by_counted_and_by_expected_f1():
    scores = np.array([0.9, 0.8, 0.7, 0.3, 0.2, 0.1])
    correct = np.array([True, True, True, False, False, False])
    assert best_counted(scores, correct, 3, 0) == (0.35, 1.0)
    # Expected F1 is 2 * 2.4 / (3 + 4) with the first three, and less with two or four.
    assert 0.3 < best_expected(scores, 4) <= 0.7


@pytest.mark.slow
def test_all_rules_choose_valid_thresholds(collected):
    found = Candidates.load(collected[2])
    for choose in candidate_rules().values():
        choice = choose(found)
        assert (choice.related <= choice.entity).all()
        assert ((choice.entity > 0) & (choice.entity < 1)).all()
        assert 0 <= score_choice(found, choice).min() <= score_choice(found, choice).max() <= 100
    assert Rule().choose(found).relation_score is None


@pytest.mark.slow
def test_compare_prints_a_row_for_each_rule(collected):
    command = [sys.executable, "tools/choose_threshold_rule.py", "compare", str(collected[2]), "--halves", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(candidate_rules()) + 2
