import json

import pytest

from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.formats.registry import read_schema, write_schema
from cascade_srn.schema import Schema

SCHEMA = Schema(("Task", "Method"), ("Used-for", "Compare"), frozenset({"Compare"}))
TYPES = {
    "entities": {"Task": {"short": "T", "verbose": "Task"}, "Method": {"short": "M", "verbose": "Method"}},
    "relations": {
        "Used-for": {"short": "U", "verbose": "Used for", "symmetric": False},
        "Compare": {"symmetric": True},
    },
}


@pytest.fixture
def schema_file(tmp_path):
    def make(content):
        path = tmp_path / "types.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return make


@pytest.mark.parametrize("record", [TYPES, SCHEMA.to_dict()])
def test_both_forms_are_read_in_their_order(schema_file, record):
    assert read_schema(schema_file(record)) == SCHEMA


def test_symmetric_and_relations_may_be_absent(schema_file):
    assert read_schema(schema_file({"entities": {"A": {}}})) == Schema(("A",))
    assert read_schema(schema_file({"entities": {"A": {}}, "relations": {"R": {}}})) == Schema(("A",), ("R",))


@pytest.mark.parametrize(("form", "field"), [("schema", "entity_types"), ("types", "entities")])
def test_both_forms_are_written(tmp_path, form, field):
    write_schema(SCHEMA, tmp_path / "out.json", form=form)
    assert read_schema(tmp_path / "out.json") == SCHEMA
    assert field in json.loads((tmp_path / "out.json").read_text())


def test_an_unknown_form_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"'type'.*'types'"):
        write_schema(SCHEMA, tmp_path / "out.json", form="type")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", DataError, "types.json is empty"),
        ("{", DataError, r"types.json: .*\(it ends too early\)"),
        ([], DataError, "types.json .*'entity_types'"),
        ({"relations": {}}, DataError, "types.json .*'entity_types'"),
        ({"entities": ["A"]}, DataError, r"types.json: entities is \['A'\]"),
        ({"entities": {"A": {}}, "relations": ["R"]}, DataError, r"types.json: relations is \['R'\]"),
        ({"entities": {"A": {}}, "relations": {"R": 1}}, DataError, r"types.json: relations\.R is 1"),
        (
            {"entities": {"A": {}}, "relations": {"R": {"symmetric": "yes"}}},
            DataError,
            r"types.json: relations\.R\.symmetric is 'yes'",
        ),
        ({"entities": {}}, SchemaError, "types.json: "),
        ({"entity_types": "A"}, SchemaError, "types.json: .*'entity_types'.* 'A'"),
    ],
)
def test_what_is_no_schema_is_refused(schema_file, content, error, message):
    with pytest.raises(error, match=message):
        read_schema(schema_file(content))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"types\.json "):
        read_schema(tmp_path / "types.json")
