import pytest

from cascade_srn.apps.annotation.annotations import ProjectLabels, read_labels
from cascade_srn.errors import CascadeError, SchemaError

YAML = """
entities:
  Method: A technique.
  Task:
relations:
  - USED-FOR
  - label: COMPARE
    definition: Two are compared.
    symmetric: true
  - PART-OF: A is part of B.
"""


def test_a_file_with_definitions(tmp_path):
    path = tmp_path / "labels.yaml"
    path.write_text(YAML)
    labels = read_labels(path)
    assert labels.schema.entity_types == ("Method", "Task")
    assert labels.schema.relation_types == ("USED-FOR", "COMPARE", "PART-OF")
    assert labels.schema.symmetric == {"COMPARE"}
    assert labels.define("entities", "Method") == "A technique."
    assert labels.define("relations", "PART-OF") == "A is part of B."
    assert labels.define("entities", "Task") == ""
    assert ProjectLabels.from_dict(labels.to_dict()) == labels


def test_a_schema_file(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"entity_types": ["A"], "relation_types": ["R"], "symmetric": ["R"]}')
    assert read_labels(path).schema.symmetric == {"R"}


def test_names_of_the_schema_in_yaml(tmp_path):
    path = tmp_path / "labels.yaml"
    path.write_text("entity_types: {A: A thing.}\nrelation_types:\n  R: {heads: [A], definition: Two things.}\n")
    labels = read_labels(path)
    assert labels.define("entities", "A") == "A thing."
    assert labels.schema.relation_types == ("R",)


@pytest.mark.parametrize(
    "text",
    [
        "entities: [A, A]", "entities: {}", "relations: [R]", "entities: [No]", "entities: [1]", "entities: A",
        "entities: {A: [x]}", "entities: {A: {color: red}}",
        "relations: {R: {symmetric: 1}}\nentities: [A]",
        "entity: [A]", "entities: [A]\nentity_types: [B]",
        "- A",
        "",
    ],
)  # fmt: skip
def test_malformed_labels(tmp_path, text):
    (tmp_path / "labels.yaml").write_text(text)
    with pytest.raises(SchemaError):
        read_labels(tmp_path / "labels.yaml")


@pytest.mark.parametrize("content", [b"entities: [", b"\xff\xfe\x00", b"a: b: c"])
def test_a_file_that_is_not_yaml(tmp_path, content):
    (tmp_path / "labels.yaml").write_bytes(content)
    with pytest.raises(CascadeError):
        read_labels(tmp_path / "labels.yaml")
