"""Thresholds as they are given in Python and on a command line."""

from dataclasses import replace

import pytest

from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError
from cascade_srn.inference.thresholds import chosen_thresholds, parse_thresholds
from cascade_srn.schema import Schema

OWN = Thresholds(0.4, 0.5, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2})
RELATED = Thresholds(0.4, 0.5, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2}, related=0.24)
SCHEMA = Schema(("Both", "Metric", "Task"), ("Both", "PART-OF", "USED-FOR"))


def test_what_a_caller_means():
    other = Thresholds(0.1)
    assert chosen_thresholds(None, OWN) is OWN
    assert chosen_thresholds(other, OWN) is other
    assert chosen_thresholds(0.7, OWN) == Thresholds(0.7, 0.7, 0.7)
    assert chosen_thresholds({}, OWN) == OWN
    assert chosen_thresholds({"subject": 0.1}, OWN) == Thresholds(0.4, 0.1, 0.6, {"Task": 0.3}, {"USED-FOR": 0.2})
    # A label's own threshold would undo a new one of its turn.
    assert chosen_thresholds({"entity": 0.1}, OWN) == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2})
    assert chosen_thresholds({"object": 1}, OWN) == Thresholds(0.4, 0.5, 1.0, {"Task": 0.3}, {})
    both = {"entity": 0.1, "entity_types": {"Metric": 0.2}}
    assert chosen_thresholds(both, OWN) == Thresholds(0.1, 0.5, 0.6, {"Metric": 0.2}, {"USED-FOR": 0.2})


def test_a_label_of_one_kind_leaves_the_others_as_they_are():
    own = Thresholds(entity_types={"Task": 0.3}, relation_types={"used-for": 0.4, "part-of": 0.6}, related=0.2)
    chosen = chosen_thresholds({"relation_types": {"part-of": 0.1}, "entity_types": {"Metric": 0.2}}, own)
    assert chosen.relation_types == {"used-for": 0.4, "part-of": 0.1}
    assert chosen.entity_types == {"Task": 0.3, "Metric": 0.2}
    # The threshold of the turn is for all of its labels that are not named beside it.
    chosen = chosen_thresholds({"object": 0.5, "relation_types": {"part-of": 0.1}}, own)
    assert chosen.relation_types == {"part-of": 0.1}


def test_a_new_threshold_of_entities_takes_the_place_of_that_of_entities_with_a_relation():
    assert chosen_thresholds(0.7, RELATED) == Thresholds(0.7, 0.7, 0.7)
    assert chosen_thresholds({"entity": 0.1}, RELATED) == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2})
    both = chosen_thresholds({"entity": 0.1, "related": 0.05}, RELATED)
    assert both == Thresholds(0.1, 0.5, 0.6, {}, {"USED-FOR": 0.2}, related=0.05)


def test_other_thresholds_leave_that_of_entities_with_a_relation():
    assert chosen_thresholds(None, RELATED) is RELATED
    for given in ({}, {"subject": 0.1}, {"object": 0.1}, {"entity_types": {"Metric": 0.2}}):
        assert chosen_thresholds(given, RELATED).related == 0.24
    assert chosen_thresholds({"related": 0.1}, RELATED) == replace(RELATED, related=0.1)
    assert chosen_thresholds({"related": None}, RELATED) == OWN
    assert chosen_thresholds({"related": 0.24}, OWN) == RELATED


def test_on_a_command_line():
    assert parse_thresholds([], SCHEMA, OWN) is OWN
    assert parse_thresholds(["0.7"], SCHEMA, OWN) == Thresholds(0.7, 0.7, 0.7)
    given = ["0.7", "entity=0.1", "PART-OF=.2", "Task=0.25"]
    assert parse_thresholds(given, SCHEMA, OWN) == Thresholds(0.1, 0.7, 0.7, {"Task": 0.25}, {"PART-OF": 0.2})
    assert parse_thresholds(["Metric=0"], SCHEMA, OWN).entity_types == {"Task": 0.3, "Metric": 0.0}
    assert parse_thresholds(["related=.24"], SCHEMA, OWN) == RELATED
    assert parse_thresholds(["relation=.7", "object=0.3"], SCHEMA, RELATED).relation == 0.7
    assert parse_thresholds(["Task=0.2", "object=0.3"], SCHEMA, RELATED).related == 0.24
    # One after the other: what a turn's threshold takes the place of was said before it.
    assert parse_thresholds(["entity=0.5", "related=0.1"], SCHEMA, RELATED).related == 0.1
    assert parse_thresholds(["related=0.1", "entity=0.5"], SCHEMA, RELATED).related is None
    assert parse_thresholds(["0.5"], SCHEMA, RELATED) == Thresholds(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("high", "the threshold 'high' is no number; give one from 0 to 1"),
        ("entity=", "the threshold 'entity=' is no number"),
        ("2", "the threshold entity is 2.0; give a number from 0 to 1"),
        ("nan", "the threshold entity is nan"),
        ("related=2", "the threshold related is 2.0; give a number from 0 to 1"),
        ("relation=-1", "the threshold relation is -1.0; give a number from 0 to 1"),
        ("relatd=0.5", "threshold for 'relatd', which is neither a turn nor a label. Did you mean 'related'?"),
        ("Tusk=0.5", "threshold for 'Tusk', which is neither a turn nor a label. Did you mean 'Task'?"),
        ("Both=0.5", "the threshold of 'Both' could be that of an entity type or of a relation type"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_thresholds([given], SCHEMA, OWN)


@pytest.mark.parametrize("name", ["entity", "subject", "object", "related", "relation"])
def test_a_label_that_is_called_as_another_threshold_is(name):
    called = rf"the threshold '{name}=0.3' could be the one that is called {name} or that of"
    by = rf"of the same name; say which in Python, by thresholds={{'{name}': 0.3}} or thresholds="
    entity_type, relation_type = (f"{{'{kind}': {{'{name}': 0.3}}}}" for kind in ("entity_types", "relation_types"))
    for schema, message in (
        (Schema((name, "Task"), ("PART-OF",)), f"{called} an entity type {by}{entity_type}$"),
        (Schema(("Task",), (name, "PART-OF")), f"{called} a relation type {by}{relation_type}$"),
        (
            Schema((name,), (name,)),
            f"{called} an entity type or a relation type {by}{entity_type} or thresholds={relation_type}$",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_thresholds([f"{name}=.3"], schema, OWN)
        # What is meant is plain without a name, and with another.
        assert parse_thresholds(["0.7"], schema, OWN) == Thresholds(0.7, 0.7, 0.7)
        other = "entity" if name != "entity" else "subject"
        assert getattr(parse_thresholds([f"{other}=0.3"], schema, OWN), other) == 0.3
    # The way out that the message names.
    assert chosen_thresholds({"entity_types": {name: 0.3}}, Thresholds()).entity_types == {name: 0.3}
