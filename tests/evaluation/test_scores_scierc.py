"""Number of relations in the SciERC test set under each policy."""

import json
from pathlib import Path

import pytest

from cascade_srn.evaluation import score
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SCIERC_TEST = Path(__file__).parents[2].parent / "shared" / "data" / "scierc" / "spert" / "test.json"


@pytest.fixture(scope="module")
def sentences():
    if not SCIERC_TEST.exists():
        pytest.skip("SciERC is not among the data of this checkout")
    found = []
    for record in json.loads(SCIERC_TEST.read_text(encoding="utf-8")):
        spans = [Span(e["start"], e["end"], e["type"]) for e in record["entities"]]
        triples = [Triple(spans[r["head"]], r["type"], spans[r["tail"]]) for r in record["relations"]]
        found.append(Sentence.from_words(record["tokens"], dict.fromkeys(spans), triples))
    return found


@pytest.fixture(scope="module")
def schema(sentences):
    entity_types = sorted({span.label for s in sentences for span in s.entities})
    relation_types = sorted({triple.label for s in sentences for triple in s.triples})
    return Schema(tuple(entity_types), tuple(relation_types), frozenset({"Compare", "Conjunction"}))


@pytest.mark.parametrize(("symmetric", "n_relations"), [("directed", 974), ("canonical", 974), ("doubled", 1135)])
def test_number_of_relations(sentences, schema, symmetric, n_relations):
    scores = score(sentences, sentences, schema=schema, symmetric=symmetric)
    for task in (scores.re_boundaries, scores.re_strict):
        assert task.counts.n_gold == task.counts.n_correct == n_relations


def test_number_of_symmetric_relations(sentences, schema):
    per_label = score(sentences, sentences, schema=schema).re_strict.per_label
    assert per_label["Compare"].n_gold + per_label["Conjunction"].n_gold == 161
