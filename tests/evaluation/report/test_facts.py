"""That the facts of sentences are those behind the numbers."""

import pytest
from tests.evaluation.report.example import example

from cascade_srn.evaluation.report.facts import FactFinder, pair_of


@pytest.fixture(scope="module")
def facts(analysis):
    finder = FactFinder.of(analysis)
    return [finder.facts(record) for record in analysis["sentences"]]


def having(facts, token, analysis):
    return [record for record, found in zip(analysis["sentences"], facts, strict=True) if token in found]


def test_no_fact_is_given_twice(facts):
    assert all(len(found) == len(set(found)) for found in facts)


def test_facts_are_in_the_same_order_every_time(facts):
    assert all(found == sorted(found) for found in facts)


def test_errors(analysis, facts):
    assert having(facts, "error", analysis) == [r for r in analysis["sentences"] if r["n_errors"]]
    assert having(facts, "clean", analysis) == [r for r in analysis["sentences"] if not r["n_errors"]]


@pytest.mark.parametrize(
    ("what", "errors", "prefix"), [("relations", "relation_errors", "r"), ("entities", "entity_errors", "e")]
)
def test_kinds_of_errors_by_label(analysis, facts, what, errors, prefix):
    kinds = analysis[errors]["kinds"]
    assert all(kind["n"] for kind in kinds), "the example has errors of every kind"
    for place, kind in enumerate(kinds):
        for number, (label, n) in enumerate(kind["per_label"].items()):
            records = having(facts, f"k{prefix}{place}.{prefix}{number}", analysis)
            items = [[i for s in ("gold", "predicted") for i in r[s][what]] for r in records]
            counts = [sum(i["kind"] == kind["kind"] and i["label"] == label for i in found) for found in items]
            assert sum(counts) == n
            assert all(counts)
        assert len(having(facts, f"k{prefix}{place}", analysis)) <= kind["n"]


@pytest.mark.parametrize(("task", "what", "prefix"), [("ner", "entities", "e"), ("re_strict", "relations", "r")])
def test_labels(analysis, facts, task, what, prefix):
    labels = analysis["schema"]["entity_types" if prefix == "e" else "relation_types"]
    for label, counts in analysis["scores"][task]["per_label"].items():
        token = f"{prefix}{labels.index(label)}"
        for side in ("gold", "predicted"):
            records = having(facts, f"{token}.{side}", analysis)
            items = [sum(item["label"] == label for item in record[side][what]) for record in records]
            assert sum(items) == counts[f"n_{side}"]
            assert all(items)
        correct = having(facts, f"{token}.correct", analysis)
        assert (
            sum(i["correct"] and i["label"] == label for r in correct for i in r["gold"][what]) == counts["n_correct"]
        )
        either = having(facts, token, analysis)
        assert all(any(i["label"] == label for s in ("gold", "predicted") for i in r[s][what]) for r in either)


def test_cells_of_confusions(analysis, facts):
    for prefix, key in (("ce", "entities"), ("cr", "relations")):
        for at, row in enumerate(analysis["confusion"][key]["rows"]):
            for to, n in enumerate(row):
                found = len(having(facts, f"{prefix}.{at}.{to}", analysis))
                assert (found > 0) == (n > 0)
                assert found <= n


def test_groups_bins_and_triples(analysis, facts):
    numbers = {}
    for name in ("in_triple", "out_of_triple"):
        numbers[f"t.{name}"] = analysis["in_triples"][name]
    for breakdown in analysis["breakdowns"]:
        for task, groups in breakdown["tasks"].items():
            for place, group in enumerate(groups):
                numbers[f"g.{breakdown['name']}.{task}.{place}"] = group
    seen_in_training = [token for token in numbers if token.startswith("g.entity_text")]
    assert seen_in_training
    for token, counts in numbers.items():
        for key in ("gold", "predicted", "correct"):
            found = len(having(facts, f"{token}.{key}", analysis))
            if token in seen_in_training:
                assert not found
            else:
                assert (found > 0) == (counts[f"n_{key}"] > 0)
                assert found <= counts[f"n_{key}"]
    for prefix, key in (("be", "entities"), ("br", "relations")):
        for place, one in enumerate(analysis["calibration"][key]["bins"]):
            assert (len(having(facts, f"{prefix}.{place}", analysis)) > 0) == (one["n"] > 0)


def test_with_gold_entities_nothing_is_said_of_entities_alone():
    analysis = example(entities="gold").to_dict()
    finder = FactFinder.of(analysis)
    found = {token for record in analysis["sentences"] for token in finder.facts(record)}
    assert not [token for token in found if token.startswith(("ce.", "be.", "t.", "ke")) or ".ner." in token]
    assert any(token.startswith("kr") for token in found)
    assert "e0.gold" in found


def test_a_record_is_the_sentence_it_was_made_of(analysis):
    record = next(r for r in analysis["sentences"] if r["predicted"]["relations"])
    pair = pair_of(record)
    assert list(pair.gold.words) == record["words"]
    first = record["predicted"]["relations"][0]
    assert pair.predicted.triples[0].score == first["score"]
    assert pair.predicted.triples[0].head == pair.predicted.entities[first["head"]]
