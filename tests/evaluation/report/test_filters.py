"""Filter keys: each number of the report links to the sentences it counts."""

import pytest
from tests.evaluation.report.example import example

from cascade_srn.evaluation.report.filters import FilterKeys


@pytest.fixture(scope="module")
def keys(analysis):
    filter_keys = FilterKeys.from_analysis(analysis)
    return [filter_keys.find(record) for record in analysis["sentences"]]


def having(keys, key, analysis):
    return [record for record, found in zip(analysis["sentences"], keys, strict=True) if key in found]


def test_keys_are_sorted(keys):
    assert all(found == sorted(found) for found in keys)


def test_errors(analysis, keys):
    assert having(keys, "error", analysis) == [r for r in analysis["sentences"] if r["n_errors"]]
    assert having(keys, "clean", analysis) == [r for r in analysis["sentences"] if not r["n_errors"]]


@pytest.mark.parametrize(
    ("what", "errors", "prefix"), [("relations", "relation_errors", "r"), ("entities", "entity_errors", "e")]
)
def test_kinds_of_errors_by_label(analysis, keys, what, errors, prefix):
    kinds = analysis[errors]["kinds"]
    assert all(kind["n"] for kind in kinds), "the example has errors of every kind"
    for place, kind in enumerate(kinds):
        for number, (label, n) in enumerate(kind["per_label"].items()):
            records = having(keys, f"k{prefix}{place}.{prefix}{number}", analysis)
            items = [[i for s in ("gold", "predicted") for i in r[s][what]] for r in records]
            counts = [sum(i["kind"] == kind["kind"] and i["label"] == label for i in found) for found in items]
            assert sum(counts) == n
            assert all(counts)
        assert len(having(keys, f"k{prefix}{place}", analysis)) <= kind["n"]


@pytest.mark.parametrize(("task", "what", "prefix"), [("ner", "entities", "e"), ("re_strict", "relations", "r")])
def test_labels(analysis, keys, task, what, prefix):
    labels = analysis["schema"]["entity_types" if prefix == "e" else "relation_types"]
    for label, counts in analysis["scores"][task]["per_label"].items():
        token = f"{prefix}{labels.index(label)}"
        for side in ("gold", "predicted"):
            records = having(keys, f"{token}.{side}", analysis)
            items = [sum(item["label"] == label for item in record[side][what]) for record in records]
            assert sum(items) == counts[f"n_{side}"]
            assert all(items)
        correct = having(keys, f"{token}.correct", analysis)
        assert (
            sum(i["correct"] and i["label"] == label for r in correct for i in r["gold"][what]) == counts["n_correct"]
        )
        either = having(keys, token, analysis)
        assert all(any(i["label"] == label for s in ("gold", "predicted") for i in r[s][what]) for r in either)


def test_cells_of_confusions(analysis, keys):
    for prefix, key in (("ce", "entities"), ("cr", "relations")):
        for at, row in enumerate(analysis["confusion"][key]["rows"]):
            for to, n in enumerate(row):
                found = len(having(keys, f"{prefix}.{at}.{to}", analysis))
                assert (found > 0) == (n > 0)
                assert found <= n


def test_false_positives(analysis, keys):
    for name, counts in analysis["false_positives"].items():
        assert len(having(keys, f"fp.{name}", analysis)) == counts["n_predicted"]
    assert any(counts["n_predicted"] for counts in analysis["false_positives"].values())


def test_groups_bins_and_triples(analysis, keys):
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
            found = len(having(keys, f"{token}.{key}", analysis))
            if token in seen_in_training:
                assert not found
            else:
                assert (found > 0) == (counts[f"n_{key}"] > 0)
                assert found <= counts[f"n_{key}"]
    for prefix, key in (("be", "entities"), ("br", "relations")):
        for place, one in enumerate(analysis["calibration"][key]["bins"]):
            assert (len(having(keys, f"{prefix}.{place}", analysis)) > 0) == (one["n"] > 0)


def test_with_gold_entities_there_are_no_keys_of_entities_alone():
    analysis = example(entities="gold").to_dict()
    filter_keys = FilterKeys.from_analysis(analysis)
    found = {key for record in analysis["sentences"] for key in filter_keys.find(record)}
    assert not [key for key in found if key.startswith(("ce.", "be.", "t.", "ke")) or ".ner." in key]
    assert any(key.startswith("kr") for key in found)
    assert "e0.gold" in found
