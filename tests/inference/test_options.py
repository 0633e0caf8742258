from dataclasses import replace

import pytest

from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.inference.options import parse_thresholds, resolve_thresholds
from cascade_srn.schema import Schema

OWN = Thresholds(0.4, 0.5, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2})
RELATED = Thresholds(0.4, 0.5, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2}, related=0.24)
SCHEMA = Schema(("Both", "Metric", "Task"), ("Both", "PART-OF", "USED-FOR"))


def test_in_python():
    other = Thresholds(0.1)
    assert resolve_thresholds(None, OWN) is OWN
    assert resolve_thresholds(other, OWN) is other
    assert resolve_thresholds(0.7, OWN) == Thresholds(0.7, 0.7, 0.7)
    assert resolve_thresholds({}, OWN) == OWN
    assert resolve_thresholds({"subject": 0.1}, OWN) == Thresholds(0.4, 0.1, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2})
    # A new threshold of a turn resets those of its labels.
    assert resolve_thresholds({"entity": 0.1}, OWN) == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2})
    assert resolve_thresholds({"object": 1}, OWN) == Thresholds(0.4, 0.5, 1.0, {"Task": 0.3}, {})
    both = {"entity": 0.1, "entity_types": {"Metric": 0.2}}
    assert resolve_thresholds(both, OWN) == Thresholds(0.1, 0.5, 0.6, {"Metric": 0.2}, {"USED-FOR": 0.2})


def test_thresholds_of_labels_are_added_to_those_of_other_labels():
    own = Thresholds(entity_types={"Task": 0.3}, relation_types={"used-for": 0.4, "part-of": 0.6}, related=0.2)
    chosen = resolve_thresholds({"relation_types": {"part-of": 0.1}, "entity_types": {"Metric": 0.2}}, own)
    assert chosen.relation_types == {"used-for": 0.4, "part-of": 0.1}
    assert chosen.entity_types == {"Task": 0.3, "Metric": 0.2}
    chosen = resolve_thresholds({"object": 0.5, "relation_types": {"part-of": 0.1}}, own)
    assert chosen.relation_types == {"part-of": 0.1}


def test_entity_resets_related():
    assert resolve_thresholds(0.7, RELATED) == Thresholds(0.7, 0.7, 0.7)
    assert resolve_thresholds({"entity": 0.1}, RELATED) == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2})
    both = resolve_thresholds({"entity": 0.1, "related": 0.05}, RELATED)
    assert both == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2}, related=0.05)


def test_other_thresholds_keep_related():
    assert resolve_thresholds(None, RELATED) is RELATED
    for given in ({}, {"subject": 0.1}, {"object": 0.1}, {"entity_types": {"Metric": 0.2}}):
        assert resolve_thresholds(given, RELATED).related == 0.24
    assert resolve_thresholds({"related": 0.1}, RELATED) == replace(RELATED, related=0.1)
    assert resolve_thresholds({"related": None}, RELATED) == OWN
    assert resolve_thresholds({"related": 0.24}, OWN) == RELATED


def test_on_a_command_line():
    assert parse_thresholds([], SCHEMA, OWN) is OWN
    assert parse_thresholds(["0.7"], SCHEMA, OWN) == Thresholds(0.7, 0.7, 0.7)
    given = ["0.7", "entity=0.1", "PART-OF=.2", "Task=0.25"]
    assert parse_thresholds(given, SCHEMA, OWN) == Thresholds(0.1, 0.7, 0.7, {"Task": 0.25}, {"PART-OF": 0.2})
    assert parse_thresholds(["Metric=0"], SCHEMA, OWN).entity_types == {"Task": 0.3, "Metric": 0.0}
    assert parse_thresholds(["related=.24"], SCHEMA, OWN) == RELATED
    assert parse_thresholds(["relation=.7", "object=0.3"], SCHEMA, RELATED).relation == 0.7
    assert parse_thresholds(["Task=0.2", "object=0.3"], SCHEMA, RELATED).related == 0.24
    # They apply in order.
    assert parse_thresholds(["entity=0.5", "related=0.1"], SCHEMA, RELATED).related == 0.1
    assert parse_thresholds(["related=0.1", "entity=0.5"], SCHEMA, RELATED).related is None
    assert parse_thresholds(["0.5"], SCHEMA, RELATED) == Thresholds(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("high", "'high'"), ("entity=", "'entity='"), ("2", "entity is 2.0"), ("nan", "entity is nan"),
        ("related=2", "related is 2.0"), ("relation=-1", "relation is -1.0"),
        ("relatd=0.5", "'relatd=0.5'.* 'related'"), ("Tusk=0.5", "'Tusk=0.5'.* 'Task'"),
        ("Both=0.5", "'Both=0.5'.* thresholds={'entity_types': {'Both': 0.5}}"),
    ],
)  # fmt: skip
def test_invalid_arguments(given, named):
    with pytest.raises(ConfigError, match=named):
        parse_thresholds([given], SCHEMA, OWN)


@pytest.mark.parametrize("name", ["entity", "subject", "object", "related", "relation"])
@pytest.mark.parametrize("kinds", [["entity_types"], ["relation_types"], ["entity_types", "relation_types"]])
def test_ambiguous_names_are_refused_with_all_meanings(name, kinds):
    labels = {kind: ("Task", name) if kind in kinds else ("Task",) for kind in ("entity_types", "relation_types")}
    schema = Schema(**labels)
    with pytest.raises(ConfigError) as caught:
        parse_thresholds([f"{name}=.3"], schema, OWN)
    for meaning in ({name: 0.3}, *({kind: {name: 0.3}} for kind in kinds)):
        assert f"thresholds={meaning}" in caught.value.hint
    assert parse_thresholds(["0.7"], schema, OWN) == Thresholds(0.7, 0.7, 0.7)
    other = "entity" if name != "entity" else "subject"
    assert getattr(parse_thresholds([f"{other}=0.3"], schema, OWN), other) == 0.3
